package front

import (
	"net"
	"net/netip"
	"strings"

	"github.com/509da70d/floodgate/schemas"
)

// Client returns the canonical address that a request came from: see schemas.ForwardedFor. It does not allocate for canonical
// input.
func Client(proxies schemas.Networks, peer netip.Addr, lines []string) netip.Addr {
	return schemas.ForwardedFor(proxies, peer, lines, schemas.Networks.Contain, parseHop)
}

// ParsePeer returns the canonical address of a connection's other end, given as host:port. A Unix socket counts as
// 127.0.0.1; its address is empty, a path, or begins with @. For any other text ParsePeer returns the zero Addr.
func ParsePeer(remote string) netip.Addr {
	if remote == "" || strings.HasPrefix(remote, "@") || strings.HasPrefix(remote, "/") {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if addr, ok := parseIPv4Port(remote); ok {
		return addr
	}
	addr, _ := parseHop(remote)
	return addr
}

// parseIPv4Port parses an IPv4 address and a port, which is the peer of most requests, in half the time of
// netip.ParseAddrPort. It accepts nothing that netip refuses. parseHop parses what parseIPv4Port does not accept.
func parseIPv4Port(remote string) (netip.Addr, bool) {
	var octets [4]byte
	at := 0
	for i := range octets {
		value, begin := 0, at
		for ; at < len(remote) && isDigit(remote[at]) && at < begin+3; at++ {
			value = value*10 + int(remote[at]-'0')
		}
		end := byte('.')
		if i == 3 {
			end = ':'
		}
		if at == begin || value > 255 || remote[begin] == '0' && at > begin+1 || at == len(remote) || remote[at] != end {
			return netip.Addr{}, false
		}
		octets[i] = byte(value)
		at++
	}
	port, begin := 0, at
	for ; at < len(remote) && isDigit(remote[at]) && at < begin+5; at++ {
		port = port*10 + int(remote[at]-'0')
	}
	if at == begin || at < len(remote) || port > 65535 {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4(octets), true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// Peer is ParsePeer for a net.Addr. It does not allocate for TCP. For nil it returns the zero Addr.
func Peer(addr net.Addr) netip.Addr {
	switch a := addr.(type) {
	case nil:
		return netip.Addr{}
	case *net.TCPAddr:
		return schemas.CanonicalAddr(a.AddrPort().Addr())
	case *net.UnixAddr:
		return ParsePeer("")
	}
	return ParsePeer(addr.String())
}

// parseHop returns the canonical address of an element of X-Forwarded-For, without port, brackets and zone, and whether it is
// one. It looks before it parses, because the errors of netip cost more than its addresses.
func parseHop(hop string) (addr netip.Addr, ok bool) {
	bracketed := strings.HasPrefix(hop, "[")
	switch {
	case bracketed && strings.HasSuffix(hop, "]"):
		hop = hop[1 : len(hop)-1]
	case bracketed, strings.Count(hop, ":") == 1:
		ap, err := netip.ParseAddrPort(hop)
		return schemas.CanonicalAddr(ap.Addr()), err == nil
	}
	addr, err := netip.ParseAddr(hop)
	return schemas.CanonicalAddr(addr), err == nil
}
