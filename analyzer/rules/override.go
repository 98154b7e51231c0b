package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/schemas"
)

// override is the limit of one caller or network.
type override struct {
	limit     int64
	unlimited bool
}

// String returns the limit, or unlimited.
func (o override) String() string {
	if o.unlimited {
		return "unlimited"
	}
	return strconv.FormatInt(o.limit, 10)
}

// overrides are the overrides of a rule: by id, and for callers of kind ip also by network.
type overrides struct {
	exact    map[string]override
	networks map[network]override
	bits4    []int // lengths of the IPv4 networks, longest first
	bits6    []int
}

// network is a netip.Prefix that hashes faster. IPv4 addresses are mapped into IPv6, and their prefix lengths too.
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

// widen shortens the network's prefix to a number of bits, which must not be more than before.
func (n *network) widen(bits int) {
	n.bits = bits
	if at := bits / 8; at < len(n.addr) {
		n.addr[at] &= ^byte(0) << (8 - bits%8)
		clear(n.addr[at+1:])
	}
}

// String returns the network as a netip.Prefix of 128 bits.
func (n network) String() string { return netip.PrefixFrom(netip.AddrFrom16(n.addr), n.bits).String() }

// prefix returns the network as it was before networkOf.
func (n network) prefix() netip.Prefix {
	if addr := netip.AddrFrom16(n.addr); addr.Is4In6() && n.bits >= 96 {
		return netip.PrefixFrom(addr.Unmap(), n.bits-96)
	}
	return netip.PrefixFrom(netip.AddrFrom16(n.addr), n.bits)
}

func (o *overrides) empty() bool { return len(o.exact) == 0 && len(o.networks) == 0 }

// find returns the override of id: the exact one before the longest prefix.
func (o *overrides) find(id string) (override, bool) {
	if found, ok := o.exact[id]; ok {
		return found, true
	}
	_, found, ok := o.findNetwork(id)
	return found, ok
}

// findNetwork returns the override of the longest prefix that contains id.
func (o *overrides) findNetwork(id string) (network, override, bool) {
	if len(o.networks) == 0 {
		return network{}, override{}, false
	}
	addr, err := netip.ParseAddr(id)
	if err != nil {
		return network{}, override{}, false
	}
	bits := o.bits6
	if addr = schemas.CanonicalAddr(addr); addr.Is4() {
		bits = o.bits4
	}
	n := network{addr: addr.As16()}
	for _, length := range bits {
		n.widen(length)
		if found, ok := o.networks[n]; ok {
			return n, found, true
		}
	}
	return network{}, override{}, false
}

// Override returns the id or the network of the override that applies to a caller of the rule's kind. exact says that it is an id. ok is
// false if none applies.
func (r *Rule) Override(id string) (of string, exact, ok bool) {
	if _, ok := r.overrides.exact[id]; ok {
		return id, true, true
	}
	n, _, ok := r.overrides.findNetwork(id)
	if !ok {
		return "", false, false
	}
	return n.prefix().String(), false, true
}

// addExact adds the override of ids, and reports whether it is the first of each.
func (o *overrides) addExact(ids []string, to override) bool {
	if o.exact == nil {
		o.exact = make(map[string]override)
	}
	for _, id := range ids {
		if _, ok := o.exact[id]; ok {
			return false
		}
		o.exact[id] = to
	}
	return true
}

// addNetwork adds the override of a canonical network, and reports whether it is the first.
func (o *overrides) addNetwork(p netip.Prefix, to override) bool {
	if p.IsSingleIP() {
		return o.addExact([]string{p.Addr().String()}, to)
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

// lines returns the overrides as text, sorted.
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

// texts returns the overrides for people, sorted, each with the text of its value.
func (o *overrides) texts(value func(override) string) []string {
	var texts []string
	for id, to := range o.values(value) {
		texts = append(texts, id+" "+to)
	}
	slices.Sort(texts)
	return texts
}

// values returns the text of each override's value, by whom it is for.
func (o *overrides) values(value func(override) string) map[string]string {
	all := make(map[string]string, len(o.exact)+len(o.networks))
	for id, to := range o.exact {
		all[id] = value(to)
	}
	for n, to := range o.networks {
		all[n.prefix().String()] = value(to)
	}
	return all
}

// maxLimit returns the largest limit of the overrides, or 0.
func (o *overrides) maxLimit() int64 {
	var limit int64
	for _, to := range o.exact {
		limit = max(limit, to.limit)
	}
	for _, to := range o.networks {
		limit = max(limit, to.limit)
	}
	return limit
}

// byCaller is a field of a rule that says something of single callers.
type byCaller struct {
	field string
	of    string // what its values are
	want  string // what a value should be
	value func(document.Value) (override, bool)
}

// limitsByCaller says how overrides are read.
func limitsByCaller() byCaller {
	return byCaller{"overrides", "limits", fmt.Sprintf("1 to %d, or unlimited", int64(MaxLimit)), overrideOf}
}

// readOverrides reads the overrides, or another field like them. Two spellings of one caller count as the same caller, given twice.
func (f ruleParser) readOverrides(r *Rule, by byCaller) overrides {
	var o overrides
	if !f.Has(by.field) || r.Kind == "" {
		return o
	}
	pairs, ok := f.Value(by.field).Pairs()
	if !ok {
		f.Wrong(by.field, "a mapping of ids to "+by.of)
		return o
	}
	maximum := maxOverrides
	if k := f.ids.Hash.Kind(r.Kind); k != nil && k.Rotating() {
		maximum /= schemas.MaxIDSecrets // each is kept for both secrets
	}
	if len(pairs) > maximum {
		f.Fail(by.field, "got %d, want at most %d", len(pairs), maximum)
		return o
	}
	report := f.Document().Errorf
	for _, pair := range pairs {
		to, ok := by.value(pair.Value)
		if !ok {
			report(pair.Value.Position(), "%s: got %s for %q, want %s", by.field, pair.Value, f.printableID(r.Kind, pair.Key), by.want)
			continue
		}
		ids, network, err := f.subject(r.Kind, pair.Key)
		switch {
		case err != nil:
			report(pair.At, "%s: %v", by.field, err)
		case network.IsValid() && !o.addNetwork(network, to), !network.IsValid() && !o.addExact(ids, to):
			report(pair.At, "%s: %q given twice", by.field, f.printableID(r.Kind, pair.Key))
		default:
			f.warnOfOverride(pair.At, by.field, r, ids, network)
		}
	}
	return o
}

func overrideOf(v document.Value) (override, bool) {
	if text, ok := v.Text(); ok {
		return override{unlimited: true}, text == "unlimited"
	}
	limit, ok := v.Integer()
	return override{limit: limit}, ok && limit >= 1 && limit <= MaxLimit
}

// subject returns the callers that an override is for: a network of addresses, or the ids under which one caller is counted.
// That is one id, and two while secrets rotate.
func (f ruleParser) subject(kind, id string) (ids []string, network netip.Prefix, err error) {
	if kind != schemas.KindIP {
		if _, err := netip.ParsePrefix(id); err == nil {
			return nil, netip.Prefix{}, fmt.Errorf("got the network %s, want an id; only callers of kind ip have networks", id)
		}
		ids = f.ids.Overridden(kind, id)
		c := schemas.Caller{Kind: kind, ID: ids[0]}
		return ids, netip.Prefix{}, c.Validate()
	}
	if _, err := netip.ParseAddr(id); err != nil {
		network, err = document.ParseNetwork(id)
		return nil, network, err
	}
	c, err := schemas.ParseCaller(kind + ":" + id)
	return []string{c.ID}, netip.Prefix{}, err
}

// printableID returns an id in a form for messages. Where ids of the kind are hashed with a secret, that is the hash.
func (f ruleParser) printableID(kind, id string) string {
	if k := f.ids.Hash.Kind(kind); k != nil && !schemas.Hashed(id) {
		return k.ID(id)
	}
	return document.Clip(id)
}
