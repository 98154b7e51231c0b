package front

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/509da70d/floodgate/schemas"
)

// Proxies are the addresses of proxies that append to X-Forwarded-For what they see, and of nobody else. The zero value
// trusts nobody. Any goroutine may use them.
type Proxies struct{ prefixes []netip.Prefix }

// Trust returns proxies that have these addresses. IPv4-mapped IPv6 prefixes count as IPv4.
func Trust(prefixes []netip.Prefix) Proxies {
	p := Proxies{prefixes: make([]netip.Prefix, 0, len(prefixes))}
	for _, prefix := range prefixes {
		if a := prefix.Addr(); a.Is4In6() && prefix.Bits() >= 96 {
			prefix = netip.PrefixFrom(a.Unmap(), prefix.Bits()-96)
		}
		p.prefixes = append(p.prefixes, prefix.Masked())
	}
	return p
}

// Contain reports whether a proxy has this address, which is canonical.
func (p Proxies) Contain(addr netip.Addr) bool {
	for _, prefix := range p.prefixes {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// Client returns the canonical address that a request came from, given the proxy at the other end of the connection and
// the lines of X-Forwarded-For. They are read from their end, where the nearest proxy wrote, past all proxies, to the
// first address that is none. What stands before it may be forged and is not looked at. Where the lines end first, or
// hold something that is no address, it is the last address found. It does not allocate for canonical input.
func (p Proxies) Client(proxy netip.Addr, lines []string) netip.Addr {
	addr := proxy
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
			if addr = next; !p.Contain(addr) {
				return addr
			}
		}
	}
	return addr
}

// cutLast cuts the last element, without space around it, off a list.
func cutLast(list string) (rest, last string) {
	i := strings.LastIndexByte(list, ',')
	return list[:max(i, 0)], strings.Trim(list[i+1:], " \t")
}

// ParsePeer returns the canonical address of a connection's other end, given as host:port. A Unix socket, whose address
// is empty, a path or begins with @, counts as 127.0.0.1. What is none of these is the zero Addr.
func ParsePeer(remote string) netip.Addr {
	if remote == "" || strings.HasPrefix(remote, "@") || strings.HasPrefix(remote, "/") {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if addr, ok := parseIPv4Port(remote); ok {
		return addr
	}
	return parseHop(remote)
}

// parseIPv4Port parses what most servers have as the peer of most requests, an IPv4 address and a port, in half
// the time of netip.ParseAddrPort. It takes nothing that netip refuses; what it does not take is for parseHop.
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

// Peer is ParsePeer for an address as connections have it. It does not allocate for TCP. nil is the zero Addr.
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
