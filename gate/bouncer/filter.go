package bouncer

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// errQuery says that a bouncer asked what cannot be answered.
var errQuery = errors.New("bad query")

// ruleFilter says which rules a bouncer wants to hear of. The zero value passes all.
type ruleFilter struct {
	containing []string // a rule's name must contain one of these, unless there are none
	without    []string // and none of these. All in lower case
	nothing    bool     // no rule passes
}

// pass reports whether a rule passes.
func (f ruleFilter) pass(rule string) bool {
	if f.nothing {
		return false
	}
	if len(f.containing) == 0 && len(f.without) == 0 {
		return true
	}
	rule = strings.ToLower(rule)
	contained := func(word string) bool { return strings.Contains(rule, word) }
	if len(f.containing) > 0 && !slices.ContainsFunc(f.containing, contained) {
		return false
	}
	return !slices.ContainsFunc(f.without, contained)
}

// key returns a text that identifies the filter among those of one server. The field nothing is the same in all of them.
func (f ruleFilter) key() string {
	return strings.Join(f.containing, ",") + "\n" + strings.Join(f.without, ",")
}

// query is what a bouncer asks.
type query struct {
	startup        bool
	addrs, ranges  bool // whether items of these scopes pass
	rules          ruleFilter
	scopes, origin string // as they were sent, to distinguish instances

	// Conditions of /v1/decisions only. value and within may both be set.
	within  netip.Prefix // if valid: the item must contain this network
	inside  bool         // if true: the item must lie inside of within instead
	value   string       // if not empty: the item must have this value
	limited bool         // whether one of within and value is set
}

// fits reports whether an item of a network contains what was asked for, or lies inside of it.
func (q *query) fits(item netip.Prefix) bool {
	outer, inner := item, q.within
	if q.inside {
		outer, inner = inner, outer
	}
	return !q.within.IsValid() || outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

// parseQuery reads the parameters that /v1/decisions/stream and /v1/decisions have in common.
func parseQuery(raw string) (q query, values url.Values, err error) {
	if values, err = url.ParseQuery(raw); err != nil {
		return q, nil, fmt.Errorf("%w: %w", errQuery, err)
	}
	if text := values.Get("startup"); text != "" {
		if q.startup, err = strconv.ParseBool(text); err != nil {
			return q, nil, fmt.Errorf("%w: startup: got %.40q, want true or false", errQuery, text)
		}
	}
	q.scopes, q.origin = values.Get("scopes"), values.Get("origins")
	scopes := words(q.scopes)
	q.addrs = len(scopes) == 0 || slices.Contains(scopes, "ip")
	q.ranges = len(scopes) == 0 || slices.Contains(scopes, "range")
	if origins := words(q.origin); len(origins) > 0 && !slices.Contains(origins, Origin) {
		q.addrs, q.ranges = false, false
	}
	q.rules = ruleFilter{containing: words(values.Get("scenarios_containing")), without: words(values.Get("scenarios_not_containing"))}
	return q, values, nil
}

// parseLookup reads the parameters of /v1/decisions, those of parseQuery included.
func parseLookup(raw string) (query, error) {
	q, values, err := parseQuery(raw)
	if err != nil {
		return q, err
	}
	if scope := strings.ToLower(values.Get("scope")); scope != "" {
		q.addrs, q.ranges = q.addrs && scope == "ip", q.ranges && scope == "range"
	}
	if kind := values.Get("type"); kind != "" && !strings.EqualFold(kind, banType) {
		q.addrs, q.ranges = false, false
	}
	if text := values.Get("contains"); text != "" {
		contains, err := strconv.ParseBool(text)
		if err != nil {
			return q, fmt.Errorf("%w: contains: got %.40q, want true or false", errQuery, text)
		}
		q.inside = !contains
	}
	q.value = values.Get("value")
	ip, network := values.Get("ip"), values.Get("range")
	switch {
	case ip != "" && network != "":
		return q, fmt.Errorf("%w: got ip and range, want one of them", errQuery)
	case ip != "":
		addr, err := netip.ParseAddr(ip)
		if err != nil || addr.Zone() != "" {
			return q, fmt.Errorf("%w: ip: got %.80q, want an address such as 203.0.113.9", errQuery, ip)
		}
		addr = addr.Unmap()
		q.within = netip.PrefixFrom(addr, addr.BitLen())
	case network != "":
		if q.within, err = netip.ParsePrefix(network); err != nil || q.within.Addr().Is4In6() {
			return q, fmt.Errorf("%w: range: got %.80q, want a network such as 2001:db8::/64", errQuery, network)
		}
		q.within = q.within.Masked()
	}
	q.limited = q.value != "" || q.within.IsValid()
	return q, nil
}

// words returns the words of a list with commas, in lower case and in order.
func words(text string) (list []string) {
	for word := range strings.SplitSeq(strings.ToLower(text), ",") {
		if word = strings.TrimSpace(word); word != "" {
			list = append(list, word)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
