package schemas

import (
	"net/netip"
	"strconv"
	"strings"
)

// OfAddress reports whether callers of a kind are made of the address that a request comes from, and of nothing else.
func OfAddress(kind string) bool { return kind == KindIP || kind == KindNet || kind == KindASN }

// ASN returns the id of the autonomous system with a number: AS64500.
func ASN(number uint32) string { return "AS" + strconv.FormatUint(uint64(number), 10) }

// ParseASN returns the id of an autonomous system, of a text such as AS64500, as64500 or 64500. If it is none, want says what it should
// be.
func ParseASN(text string) (id, want string) {
	digits := text
	if len(text) > 2 && strings.EqualFold(text[:2], "AS") {
		digits = text[2:]
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || n == 0 || digits[0] == '0' {
		return "", "AS and the number of an autonomous system, such as AS64500"
	}
	return ASN(uint32(n)), ""
}

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
