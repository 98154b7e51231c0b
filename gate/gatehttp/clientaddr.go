package gatehttp

import (
	"net/http"
	"net/netip"

	"github.com/509da70d/floodgate/gate/internal/front"
	"github.com/509da70d/floodgate/schemas"
)

// ClientAddr returns a function that finds the address that a request came from, in canonical form. That is the peer of the
// connection, unless the peer is in one of the trusted prefixes. Then the peer is a proxy, and X-Forwarded-For is read from
// its end, where the nearest proxy wrote. The client's address is the first one that is not trusted. What stands before it
// may be forged and is not read. If the field ends before that, or an element is no address, the client's address is the
// last address that was read. Trust only proxies that append the address of their peer to X-Forwarded-For.
//
// Addresses may have a port, brackets, or a zone; IPv4-mapped IPv6 counts as IPv4, in prefixes too. A peer on a Unix
// socket counts as 127.0.0.1. The zero Addr is returned where the peer's address cannot be read.
func ClientAddr(trusted []netip.Prefix) func(*http.Request) netip.Addr {
	proxies := schemas.NewNetworks(trusted)
	return func(r *http.Request) netip.Addr {
		peer := front.ParsePeer(r.RemoteAddr)
		if !proxies.Contain(peer) {
			return peer
		}
		return front.Client(proxies, peer, r.Header["X-Forwarded-For"])
	}
}
