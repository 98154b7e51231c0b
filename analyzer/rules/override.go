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
	networks map[netip.Prefix]override
	bits4    []int // lengths of the IPv4 networks, longest first
	bits6    []int
}

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
	for _, n := range bits {
		network, err := addr.Prefix(n)
		if err != nil {
			return override{}, false // not possible: n is a length of this family
		}
		if found, ok := o.networks[network]; ok {
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
func (o *overrides) addNetwork(network netip.Prefix, to override) bool {
	if network.IsSingleIP() {
		return o.addExact(network.Addr().String(), to)
	}
	if _, ok := o.networks[network]; ok {
		return false
	}
	if o.networks == nil {
		o.networks = make(map[netip.Prefix]override)
	}
	o.networks[network] = to
	bits := &o.bits6
	if network.Addr().Is4() {
		bits = &o.bits4
	}
	if !slices.Contains(*bits, network.Bits()) {
		*bits = append(*bits, network.Bits())
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
	for network, to := range o.networks {
		lines = append(lines, fmt.Sprintf("%s %d %v", network, to.limit, to.unlimited))
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
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("got %q, want a network such as 198.51.100.0/24", text)
	}
	if network.Addr().Is4In6() {
		if network.Bits() < 96 {
			return netip.Prefix{}, fmt.Errorf("got %q, want IPv4 networks written as such", text)
		}
		network = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
	}
	if masked := network.Masked(); masked != network {
		return netip.Prefix{}, fmt.Errorf("got %q, want the network's first address: %s", text, masked)
	}
	return network, nil
}
