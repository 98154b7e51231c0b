package rulesdiff

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// Compare says what an analyzer changes that counts by before and takes over after. Rules are in the order of after, and those
// that it no longer has follow. A rule with another name is another rule.
func Compare(before, after *rules.Set) *apiv1.RulesDiff {
	d := &apiv1.RulesDiff{From: hexID(before.ID()), To: hexID(after.ID()), Same: before.ID() == after.ID(), Rules: []apiv1.RuleDiff{}}
	old, kept := byName(before), byName(after)
	for _, r := range after.Rules {
		switch was := old[r.Name]; {
		case was == nil:
			d.Rules = append(d.Rules, apiv1.RuleDiff{Rule: r.Name, Change: apiv1.DiffAdded, Counts: apiv1.CountsStart, Fields: written(r), Overrides: overrides(nil, r)})
		case was.Fingerprint() != r.Fingerprint():
			d.Rules = append(d.Rules, changed(was, r))
		default:
			d.Unchanged++
		}
	}
	for _, r := range before.Rules {
		if kept[r.Name] == nil {
			d.Rules = append(d.Rules, apiv1.RuleDiff{Rule: r.Name, Change: apiv1.DiffRemoved, Counts: apiv1.CountsDropped, Fields: erased(r), Overrides: overrides(r, nil)})
		}
	}
	d.Reordered = !slices.Equal(order(before, kept), order(after, old))
	return d
}

func hexID(id uint64) string { return fmt.Sprintf("%016x", id) }

func byName(s *rules.Set) map[string]*rules.Rule {
	m := make(map[string]*rules.Rule, len(s.Rules))
	for _, r := range s.Rules {
		m[r.Name] = r
	}
	return m
}

// order returns the names of the rules that another set has too.
func order(s *rules.Set, other map[string]*rules.Rule) (names []string) {
	for _, r := range s.Rules {
		if other[r.Name] != nil {
			names = append(names, r.Name)
		}
	}
	return names
}

// changed compares two versions of a rule.
func changed(before, after *rules.Rule) apiv1.RuleDiff {
	d := apiv1.RuleDiff{Rule: after.Name, Change: apiv1.DiffChanged, Counts: counts(before, after), Overrides: overrides(before, after)}
	was, is := fields(before), fields(after)
	for i := range is {
		if was[i].text != is[i].text {
			d.Fields = append(d.Fields, apiv1.FieldDiff{Field: is[i].name, Before: was[i].text, After: is[i].text})
		}
	}
	if m, n := before.Match.String(), after.Match.String(); m != n && before.Match.Text() == after.Match.Text() { // a comma in a pattern
		d.Fields = append(d.Fields, apiv1.FieldDiff{Field: "match", Before: m, After: n})
	}
	return d
}

// counts says what becomes of the counts of a rule: the fold keeps them for rules of one name and one shape, and drops those of
// callers that the rule no longer counts.
func counts(before, after *rules.Rule) string {
	switch {
	case before.Shape() != after.Shape() || before.Kind != after.Kind:
		return apiv1.CountsStart
	case before.Pattern.String() != after.Pattern.String() && !after.Pattern.All():
		return apiv1.CountsOfMatching
	}
	return apiv1.CountsKept
}

// field is a field of a rule, and its text as people write it; the text is empty if the field is not set.
type field struct{ name, text string }

// fields returns what a rule says, but for its overrides: always the same fields, in one order.
func fields(r *rules.Rule) []field {
	return []field{
		{"callers", r.CallersText()},
		{"match", r.Match.Text()},
		{"limit", limit(r)},
		{"capacity", capacity(r)},
		{"protect", protect(r)},
		{"measure", r.Measure.String()},
		{"count_blocked", strconv.FormatBool(r.CountBlocked)},
		{"window", r.WindowText()},
		{"charge", r.ChargeText()},
		{"hold", r.HoldText()},
		{"close_for", duration(r)},
		{"escalate", escalation(r)},
		{"mode", r.Mode.String()},
		{"predict", r.Predict.String()},
		{"warn", shares(r.Warn)},
	}
}

func limit(r *rules.Rule) string {
	if r.Pool != nil {
		return ""
	}
	return strconv.FormatInt(r.Limit, 10)
}

func capacity(r *rules.Rule) string {
	if r.Pool == nil {
		return ""
	}
	return strconv.FormatInt(r.Pool.Capacity, 10)
}

func protect(r *rules.Rule) string {
	if r.Pool == nil {
		return ""
	}
	return r.Pool.ProtectText()
}

func duration(r *rules.Rule) string {
	if r.CloseFor == 0 {
		return ""
	}
	return document.FormatDuration(r.CloseFor)
}

func escalation(r *rules.Rule) string {
	e := r.Escalate
	if e == (rules.Escalate{}) {
		return ""
	}
	return fmt.Sprintf("factor %v, max %s, forget %s", e.Factor, document.FormatDuration(e.Max), document.FormatDuration(e.Forget))
}

func shares(list []float64) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strings.Join(texts, ", ")
}

// written returns the fields that a new rule sets.
func written(r *rules.Rule) (list []apiv1.FieldDiff) {
	for _, f := range fields(r) {
		if f.text != "" && f.text != "false" {
			list = append(list, apiv1.FieldDiff{Field: f.name, After: f.text})
		}
	}
	return list
}

// erased returns the fields that a removed rule had.
func erased(r *rules.Rule) (list []apiv1.FieldDiff) {
	for _, f := range written(r) {
		list = append(list, apiv1.FieldDiff{Field: f.Field, Before: f.After})
	}
	return list
}

// overrides compares the overrides, or the weights, of two versions of a rule, sorted by whom they are for. nil is a rule that does not exist.
func overrides(before, after *rules.Rule) (list []apiv1.OverrideDiff) {
	was, is := limits(before), limits(after)
	of := slices.Collect(maps.Keys(was))
	for id := range is {
		if _, both := was[id]; !both {
			of = append(of, id)
		}
	}
	slices.Sort(of)
	for _, id := range of {
		if was[id] != is[id] {
			list = append(list, apiv1.OverrideDiff{Of: id, Before: was[id], After: is[id]})
		}
	}
	return list
}

func limits(r *rules.Rule) map[string]string {
	if r == nil {
		return nil
	}
	return r.OverrideLimits()
}
