package document

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/509da70d/floodgate/analyzer/pattern"
)

// List returns the values of a list, of 1 to maximum of them. A single value stands for a list of itself.
func (m Mapping) List(field string, maximum int) []Value {
	if !m.Has(field) {
		return nil
	}
	list, ok := m.fields[field].List()
	if !ok {
		return []Value{m.fields[field]}
	}
	if len(list) == 0 || len(list) > maximum {
		m.Fail(field, "got %d in the list, want 1 to %d", len(list), maximum)
		return nil
	}
	return list
}

// Texts returns a list of strings that are not empty; want says what each should be.
func (m Mapping) Texts(field, want string, maximum int) []string {
	var texts []string
	for _, v := range m.List(field, maximum) {
		text, ok := v.Text()
		if !ok || text == "" {
			m.doc.Errorf(v.Position(), "%s: got %s, want %s", field, v, want)
			continue
		}
		texts = append(texts, text)
	}
	return texts
}

// Statuses returns a list of HTTP statuses, such as 404, and of classes of them, such as 5xx.
func (m Mapping) Statuses(field string, maximum int) []pattern.StatusRange {
	var ranges []pattern.StatusRange
	for _, v := range m.List(field, maximum) {
		r, ok := statusRange(v)
		if !ok {
			m.doc.Errorf(v.Position(), "%s: got %s, want 100 to 599, or 1xx to 5xx", field, v)
			continue
		}
		ranges = append(ranges, r)
	}
	return ranges
}

// statusRange reads 401, or 5xx.
func statusRange(v Value) (pattern.StatusRange, bool) {
	if i, ok := v.Integer(); ok {
		return pattern.StatusRange{From: uint16(i), To: uint16(i)}, 100 <= i && i <= 599
	}
	text, _ := v.Text()
	class, found := strings.CutSuffix(text, "xx")
	if !found || len(class) != 1 || class[0] < '1' || class[0] > '5' {
		return pattern.StatusRange{}, false
	}
	from := 100 * uint16(class[0]-'0')
	return pattern.StatusRange{From: from, To: from + 99}, true
}

// Networks returns a list of networks and addresses, in canonical form. An address is the network of itself alone.
func (m Mapping) Networks(field string, maximum int) []netip.Prefix {
	var networks []netip.Prefix
	for _, v := range m.List(field, maximum) {
		network, err := networkOf(v)
		if err != nil {
			m.doc.Errorf(v.Position(), "%s: %v", field, err)
			continue
		}
		networks = append(networks, network)
	}
	return networks
}

func networkOf(v Value) (netip.Prefix, error) {
	text, ok := v.Text()
	if !ok {
		return netip.Prefix{}, fmt.Errorf("got %s, want an address, or a network such as 198.51.100.0/24", v)
	}
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	return ParseNetwork(text)
}

// ParseNetwork returns the one form of a network: IPv4-mapped IPv6 becomes IPv4. The address must be the network's first. A
// network that holds IPv4-mapped addresses and others is refused, because it would mean all of IPv4.
func ParseNetwork(text string) (netip.Prefix, error) {
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

// Nested returns the mapping that is a field's value, and whether the field is one. All its fields must be known.
func (m Mapping) Nested(field string, known ...string) (Mapping, bool) {
	if !m.Has(field) {
		return Mapping{}, false
	}
	return m.doc.Mapping(field, m.fields[field], known...)
}

// Mappings returns the mappings in a list. All their fields must be known.
func (m Mapping) Mappings(field string, maximum int, known ...string) []Mapping {
	var all []Mapping
	for _, v := range m.List(field, maximum) {
		if in, ok := m.doc.Mapping(field, v, known...); ok {
			all = append(all, in)
		}
	}
	return all
}

// Each calls read for each field of the mapping that is a field's value, in the order of the file. The fields may have any
// names; one that is there twice is reported, and read once. The mapping that read gets has that one field.
func (m Mapping) Each(field string, maximum int, read func(key string, value Mapping)) {
	if !m.Has(field) {
		return
	}
	pairs, ok := m.fields[field].Pairs()
	switch {
	case !ok:
		m.Wrong(field, "a mapping")
		return
	case len(pairs) == 0 || len(pairs) > maximum:
		m.Fail(field, "got %d, want 1 to %d", len(pairs), maximum)
		return
	}
	seen := make(map[string]bool)
	for _, pair := range pairs {
		if seen[pair.Key] {
			m.doc.Errorf(pair.At, "%s: given twice", printable(pair.Key))
			continue
		}
		seen[pair.Key] = true
		read(pair.Key, Mapping{doc: m.doc, at: pair.At, fields: map[string]Value{pair.Key: pair.Value}})
	}
}
