package rules

import (
	"fmt"
	"net/netip"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/schemas"
)

// readOverrides reads the overrides. Two spellings of one caller count as the same caller, given twice.
func (f ruleParser) readOverrides(r *Rule) overrides {
	var o overrides
	if !f.Has("overrides") || r.Kind == "" {
		return o
	}
	pairs, ok := f.Value("overrides").Pairs()
	if !ok {
		f.Wrong("overrides", "a mapping of ids to limits")
		return o
	}
	maximum := maxOverrides
	if k := f.ids.Hash.Kind(r.Kind); k != nil && k.Rotating() {
		maximum /= schemas.MaxIDSecrets // each is kept for both secrets
	}
	if len(pairs) > maximum {
		f.Fail("overrides", "got %d, want at most %d", len(pairs), maximum)
		return o
	}
	report := f.Document().Errorf
	for _, pair := range pairs {
		to, ok := overrideOf(pair.Value)
		if !ok {
			report(pair.Value.Position(), "overrides: got %s for %q, want 1 to %d, or unlimited",
				pair.Value, f.printableID(r.Kind, pair.Key), int64(MaxLimit))
			continue
		}
		ids, network, err := f.subject(r.Kind, pair.Key)
		switch {
		case err != nil:
			report(pair.At, "overrides: %v", err)
		case network.IsValid() && !o.addNetwork(network, to), !network.IsValid() && !o.addExact(ids, to):
			report(pair.At, "overrides: %q given twice", f.printableID(r.Kind, pair.Key))
		default:
			f.warnOfOverride(pair.At, r, ids, network)
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
