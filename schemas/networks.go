package schemas

import "net/netip"

// Networks is a set of IP networks. The zero value is empty. A Networks does not change, and any goroutine may use it.
type Networks struct{ prefixes []netip.Prefix }

// NewNetworks returns a set of networks. An IPv4-mapped IPv6 network counts as the IPv4 network; one that holds other IPv6
// addresses too, such as ::/64, contains no IPv4 address.
func NewNetworks(prefixes []netip.Prefix) Networks {
	n := Networks{prefixes: make([]netip.Prefix, 0, len(prefixes))}
	for _, p := range prefixes {
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		n.prefixes = append(n.prefixes, p.Masked())
	}
	return n
}

// Contain reports whether one of the networks contains an address, which is in canonical form: see CanonicalAddr.
func (n Networks) Contain(addr netip.Addr) bool {
	for _, p := range n.prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
