package gatehttp

import (
	"net/http"
	"net/netip"

	"github.com/509da70d/floodgate/gate/internal/front"
)

// ClientAddr returns a function that finds the address a request came from, in canonical form. That is the peer of the
// connection, unless it is in one of the trusted prefixes: then it is a proxy, and X-Forwarded-For is read from its end,
// where the nearest proxy wrote, past all trusted addresses, to the first that is not trusted. What stands before it
// may be forged and is not looked at. Where the field ends first, or holds something that is no address, it is the last
// address found. Name only proxies that append to X-Forwarded-For what they see.
//
// Addresses may have a port, brackets, or a zone; IPv4-mapped IPv6 counts as IPv4, in prefixes too. A peer on a Unix
// socket counts as 127.0.0.1. The zero Addr is returned where the peer's address cannot be read.
func ClientAddr(trusted []netip.Prefix) func(*http.Request) netip.Addr {
	proxies := front.Trust(trusted)
	return func(r *http.Request) netip.Addr {
		peer := front.ParsePeer(r.RemoteAddr)
		if !proxies.Contain(peer) {
			return peer
		}
		return proxies.Client(peer, r.Header["X-Forwarded-For"])
	}
}
