package gatehttp

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/509da70d/floodgate/schemas"
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
	proxies := make([]netip.Prefix, 0, len(trusted))
	for _, p := range trusted {
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		proxies = append(proxies, p.Masked())
	}
	return func(r *http.Request) netip.Addr {
		addr := peer(r.RemoteAddr)
		if !addr.IsValid() || !contain(proxies, addr) {
			return addr
		}
		lines := r.Header["X-Forwarded-For"]
		for _, line := range slices.Backward(lines) {
			for line != "" {
				var hop string
				if line, hop = cutLast(line); hop == "" {
					continue // RFC 9110, 5.6.1.2: empty elements are ignored
				}
				next := parseHop(hop)
				if !next.IsValid() {
					return addr
				}
				if addr = next; !contain(proxies, addr) {
					return addr
				}
			}
		}
		return addr
	}
}

// cutLast cuts the last element, without space around it, off a list.
func cutLast(list string) (rest, last string) {
	i := strings.LastIndexByte(list, ',')
	return list[:max(i, 0)], strings.Trim(list[i+1:], " \t")
}

// peer returns the address of the connection's other end.
func peer(remote string) netip.Addr {
	if remote == "" || strings.HasPrefix(remote, "@") || strings.HasPrefix(remote, "/") { // a Unix socket
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return parseHop(remote)
}

// parseHop returns the canonical address of a hop, without port, brackets and zone; or the zero Addr. It looks before it
// parses, because the errors of netip cost more than its addresses.
func parseHop(hop string) netip.Addr {
	bracketed := strings.HasPrefix(hop, "[")
	switch {
	case bracketed && strings.HasSuffix(hop, "]"):
		hop = hop[1 : len(hop)-1]
	case bracketed, strings.Count(hop, ":") == 1:
		ap, err := netip.ParseAddrPort(hop)
		if err != nil {
			return netip.Addr{}
		}
		return schemas.CanonicalAddr(ap.Addr())
	}
	addr, err := netip.ParseAddr(hop)
	if err != nil {
		return netip.Addr{}
	}
	return schemas.CanonicalAddr(addr)
}

func contain(prefixes []netip.Prefix, addr netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
