package rules

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/509da70d/floodgate/schemas"
)

// override is the limit of one caller or network, or that it has none.
type override struct {
	limit     int64
	unlimited bool
}

// overrides are a rule's: by id, and for ip callers also by network.
type overrides struct {
	exact    map[string]override
	networks map[network]override
	bits4    []int // lengths of the IPv4 networks, longest first
	bits6    []int
}

// network is a netip.Prefix that hashes faster: IPv4 is mapped into IPv6, its lengths with it.
type network struct {
	addr [16]byte
	bits int
}

func networkOf(p netip.Prefix) network {
	n := network{p.Addr().As16(), p.Bits()}
	if p.Addr().Is4() {
		n.bits += 96
	}
	return n
}

// widen shortens the network to a length, which must not be longer than before.
func (n *network) widen(bits int) {
	n.bits = bits
	if at := bits / 8; at < len(n.addr) {
		n.addr[at] &= ^byte(0) << (8 - bits%8)
		clear(n.addr[at+1:])
	}
}

// String returns the network as a netip.Prefix of 128 bits.
func (n network) String() string { return netip.PrefixFrom(netip.AddrFrom16(n.addr), n.bits).String() }

func (o *overrides) empty() bool { return len(o.exact) == 0 && len(o.networks) == 0 }

// find returns the override of id: the exact one before the longest prefix.
func (o *overrides) find(id string) (override, bool) {
	if found, ok := o.exact[id]; ok {
		return found, true
	}
	if len(o.networks) == 0 {
		return override{}, false
	}
	addr, err := netip.ParseAddr(id)
	if err != nil {
		return override{}, false
	}
	bits := o.bits6
	if addr = schemas.CanonicalAddr(addr); addr.Is4() {
		bits = o.bits4
	}
	n := network{addr: addr.As16()}
	for _, length := range bits {
		n.widen(length)
		if found, ok := o.networks[n]; ok {
			return found, true
		}
	}
	return override{}, false
}

// addExact adds the override of an id, and reports whether it is the first.
func (o *overrides) addExact(id string, to override) bool {
	if _, ok := o.exact[id]; ok {
		return false
	}
	if o.exact == nil {
		o.exact = make(map[string]override)
	}
	o.exact[id] = to
	return true
}

// addNetwork adds the override of a canonical network, and reports whether it is the first.
func (o *overrides) addNetwork(p netip.Prefix, to override) bool {
	if p.IsSingleIP() {
		return o.addExact(p.Addr().String(), to)
	}
	n := networkOf(p)
	if _, ok := o.networks[n]; ok {
		return false
	}
	if o.networks == nil {
		o.networks = make(map[network]override)
	}
	o.networks[n] = to
	bits := &o.bits6
	if p.Addr().Is4() {
		bits = &o.bits4
	}
	if !slices.Contains(*bits, n.bits) {
		*bits = append(*bits, n.bits)
		slices.Sort(*bits)
		slices.Reverse(*bits)
	}
	return true
}

// lines returns the overrides as text, in an order that depends on nothing else.
func (o *overrides) lines() []string {
	var lines []string
	for id, to := range o.exact {
		lines = append(lines, fmt.Sprintf("%q %d %v", id, to.limit, to.unlimited))
	}
	for n, to := range o.networks {
		lines = append(lines, fmt.Sprintf("%s %d %v", n, to.limit, to.unlimited))
	}
	slices.Sort(lines)
	return lines
}

// most returns the largest limit of the overrides, or 0.
func (o *overrides) most() int64 {
	var most int64
	for _, to := range o.exact {
		most = max(most, to.limit)
	}
	for _, to := range o.networks {
		most = max(most, to.limit)
	}
	return most
}

// canonicalNetwork returns the one form of a network: IPv4-mapped IPv6 becomes IPv4. Its address must be its first, and
// a network that holds IPv4-mapped addresses and others is refused: as a mask over both it would mean all of IPv4.
func canonicalNetwork(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("got %q, want an address, or a network such as 198.51.100.0/24", text)
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, fmt.Errorf("got %q, want IPv4 networks written as such", text)
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if masked := p.Masked(); masked != p {
		return netip.Prefix{}, fmt.Errorf("got %q, want the network's first address: %s", text, masked)
	}
	return p, nil
}
