package fold

import (
	"fmt"
	"slices"
	"strings"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// ruleUse counts what a rule could have counted, so that a rule that never matches can be reported.
type ruleUse struct {
	requests  uint64 // of callers of the rule's kind: arrivals, or responses if the rule reads responses
	unmatched uint64 // bit i is set while pattern i of the rule's Match.Resources has matched none of the requests
	sample    string // the resource of the first request, while some pattern has matched none
}

// newUse returns the use of a rule before any request. A rule has at most 64 patterns (MaxGlobs), so that each has a bit.
func newUse(r *rules.Rule) ruleUse { return ruleUse{unmatched: 1<<len(r.Match.Resources) - 1} }

// note counts an entry about a caller of the rule's kind.
func (u *ruleUse) note(r *rules.Rule, e *schemas.Entry) {
	if e.Response != r.ReadsResponses() {
		return
	}
	u.requests += uint64(e.Count)
	if u.unmatched == 0 {
		return
	}
	if u.unmatched = r.Match.UnmatchedBy(e.Resource, u.unmatched); u.unmatched == 0 {
		u.sample = ""
	} else if u.sample == "" {
		u.sample = strings.Clone(e.Resource)
	}
}

// UnusedRule is a rule that had no effect, or of which some pattern had none. String describes it for people.
type UnusedRule struct {
	Rule     *rules.Rule
	Requests uint64   // that it could have counted
	Patterns []string // patterns of resources that matched none of those requests; empty if there were no requests
	Sample   string   // the resource of one of those requests
}

// String says what is unused, and what a person can do. It has no line end.
func (u UnusedRule) String() string {
	what := "requests"
	if u.Rule.ReadsResponses() {
		what = "responses"
	}
	if u.Requests == 0 && u.Rule.ReadsResponses() {
		return fmt.Sprintf("rule %s counts responses of callers of kind %q, and none have come: servers send them with record.Options{Responses: true}, "+
			"ingest unless its mapping has responses: false; kinds are those of a server's Callers, or of --callers and mappings", u.Rule.Name, u.Rule.Kind)
	}
	if u.Requests == 0 {
		return fmt.Sprintf("rule %s counts callers of kind %q, and none have come: kinds are those of a server's Callers, or of --callers and mappings",
			u.Rule.Name, u.Rule.Kind)
	}
	return fmt.Sprintf("rule %s: no resource of %d %s of callers of kind %q matches %s: one is %q", u.Rule.Name, u.Requests, what, u.Rule.Kind,
		document.Clip(strings.Join(u.Patterns, ", ")), document.Clip(u.Sample))
}

// Unused returns the rules that had no effect, or not with all their patterns, in the order of the set. These are rules for whose kind of
// caller no request came, and rules with a pattern that matched none of at least patience requests. The stats may be of several folds.
func Unused(set *rules.Set, patience uint64, folds ...*Stats) []UnusedRule {
	var list []UnusedRule
	for i, r := range set.Rules {
		u, unmatched := UnusedRule{Rule: r}, newUse(r).unmatched
		for _, s := range folds {
			at := i
			if at >= len(s.Rules) || s.Rules[at].Rule != r.Name {
				at = slices.IndexFunc(s.Rules, func(o RuleStats) bool { return o.Rule == r.Name })
			}
			if at < 0 || s.Rules[at].Shape != r.Shape() {
				continue // this fold still counts by older rules
			}
			u.Requests += s.Rules[at].Requests
			unmatched &= s.Rules[at].Unmatched
			if u.Sample == "" {
				u.Sample = s.Rules[at].Sample
			}
		}
		for i, g := range r.Match.Resources {
			if unmatched&(1<<i) != 0 && u.Requests > 0 {
				u.Patterns = append(u.Patterns, g.String())
			}
		}
		if u.Requests == 0 || len(u.Patterns) > 0 && u.Requests >= patience {
			list = append(list, u)
		}
	}
	return list
}
