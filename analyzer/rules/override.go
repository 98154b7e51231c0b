package rules

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/gaissmai/bart"

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

// overrides are the overrides of a rule: by id, and for callers of kind ip and net also by network.
type overrides struct {
	exact    map[string]override
	networks *bart.Table[override] // nil if there are none
}

func (o *overrides) empty() bool { return len(o.exact) == 0 && o.networks == nil }

// find returns the override of id: the exact one before the longest prefix.
func (o *overrides) find(id string) (override, bool) {
	if found, ok := o.exact[id]; ok {
		return found, true
	}
	p, ok := o.networkOf(id)
	if !ok {
		return override{}, false
	}
	return o.networks.LookupPrefix(p)
}

// networkOf returns the address or network that an id is, and whether it may be in one of the networks.
func (o *overrides) networkOf(id string) (p netip.Prefix, ok bool) {
	if o.networks == nil {
		return p, false
	}
	if strings.IndexByte(id, '/') >= 0 {
		p, err := netip.ParsePrefix(id)
		return p, err == nil
	}
	addr, err := netip.ParseAddr(id)
	if err != nil {
		return p, false
	}
	addr = schemas.CanonicalAddr(addr)
	return netip.PrefixFrom(addr, addr.BitLen()), true
}

// Override returns the id or the network of the override that applies to a caller of the rule's kind. exact says that it is an id. ok is
// false if none applies.
func (r *Rule) Override(id string) (of string, exact, ok bool) { return r.overrides.of(id) }

// of returns whom the override is for that applies to a caller, as Rule.Override does.
func (o *overrides) of(id string) (of string, exact, ok bool) {
	if _, ok := o.exact[id]; ok {
		return id, true, true
	}
	p, ok := o.networkOf(id)
	if !ok {
		return "", false, false
	}
	network, _, ok := o.networks.LookupPrefixLPM(p)
	if !ok {
		return "", false, false
	}
	return network.String(), network == p, true
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
	if o.networks == nil {
		o.networks = new(bart.Table[override])
	}
	if _, ok := o.networks.Get(p); ok {
		return false
	}
	o.networks.Insert(p, to)
	return true
}

// all returns the overrides of networks.
func (o *overrides) all() iter.Seq2[netip.Prefix, override] {
	if o.networks == nil {
		return func(func(netip.Prefix, override) bool) {}
	}
	return o.networks.All()
}

// lines returns the overrides as text, sorted.
func (o *overrides) lines() []string {
	var lines []string
	for id, to := range o.exact {
		lines = append(lines, fmt.Sprintf("%q %d %v", id, to.limit, to.unlimited))
	}
	for p, to := range o.all() {
		mapped := netip.PrefixFrom(netip.AddrFrom16(p.Addr().As16()), p.Bits()+128-p.Addr().BitLen()) // the ids of rules depend on this form
		lines = append(lines, fmt.Sprintf("%s %d %v", mapped, to.limit, to.unlimited))
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
	all := make(map[string]string, len(o.exact))
	for id, to := range o.exact {
		all[id] = value(to)
	}
	for p, to := range o.all() {
		all[p.String()] = value(to)
	}
	return all
}

// maxLimit returns the largest limit of the overrides, or 0.
func (o *overrides) maxLimit() int64 {
	var limit int64
	for _, to := range o.exact {
		limit = max(limit, to.limit)
	}
	for _, to := range o.all() {
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
	switch kind {
	case schemas.KindIP:
		if _, err := netip.ParseAddr(id); err != nil {
			network, err = document.ParseNetwork(id)
			return nil, network, err
		}
		c, err := schemas.ParseCaller(kind + ":" + id)
		return []string{c.ID}, netip.Prefix{}, err
	case schemas.KindNet:
		network, err = f.net(id)
		return nil, network, err
	case schemas.KindASN:
		system, want := schemas.ParseASN(id)
		if want != "" {
			err = fmt.Errorf("got %q, want %s", document.Clip(id), want)
		}
		return []string{system}, netip.Prefix{}, err
	}
	if _, err := netip.ParsePrefix(id); err == nil {
		return nil, netip.Prefix{}, fmt.Errorf("got the network %s, want an id; only callers of kinds ip and net have networks", id)
	}
	ids = f.ids.Overridden(kind, id)
	c := schemas.Caller{Kind: kind, ID: ids[0]}
	return ids, netip.Prefix{}, c.Validate()
}

// net returns the network that an override names: that of a caller of kind net, or a wider one.
func (f ruleParser) net(id string) (netip.Prefix, error) {
	if network, err := document.ParseNetwork(id); err == nil && network.Bits() < f.ids.Net(network.Addr()).Bits() {
		return network, nil
	}
	network, want := f.ids.ParseNet(id)
	if want != "" {
		return network, fmt.Errorf("got %q, want %s, or a wider network", document.Clip(id), want)
	}
	return network, nil
}

// printableID returns an id in a form for messages. Where ids of the kind are hashed with a secret, that is the hash.
func (f ruleParser) printableID(kind, id string) string {
	if k := f.ids.Hash.Kind(kind); k != nil && !schemas.Hashed(id) {
		return k.ID(id)
	}
	return document.Clip(id)
}
