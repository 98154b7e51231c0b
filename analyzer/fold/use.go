package fold

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// ruleUse counts what a rule could have counted, so that a rule that never matches can be reported.
type ruleUse struct {
	requests  uint64 // of callers of the rule's kind: arrivals, or responses if the rule reads responses
	unmatched uint64 // bit i is set while pattern i of the rule's Match.Resources has matched none of the requests
	sample    string // the resource of the first request, while some pattern has matched none
	follows   bool   // the rule follows requests
	followed  Followed
}

// Followed counts what a rule needs that counts requests by their arrival: the arrivals and responses that it matches, and that gates have
// not blocked.
type Followed struct {
	Arrivals  uint64 // those that say that their responses will say when they arrived
	Late      uint64 // those of Arrivals that were more than lateArrival old, by log time: their responses had mostly come
	Responses uint64
	Untimed   uint64 // those of Responses that do not say when their requests arrived
}

// lateArrival is how old an arrival is that comes from a log which is written when requests end.
const lateArrival = int64(2 * time.Second)

// note counts an entry. now is log time.
func (c *Followed) note(e *schemas.Entry, now int64) {
	n := uint64(e.Count)
	switch {
	case e.Response && e.Arrived == 0:
		c.Untimed += n
		fallthrough
	case e.Response:
		c.Responses += n
	case e.Arrived > 0:
		c.Arrivals += n
		if now-e.Time > lateArrival {
			c.Late += n
		}
	}
}

func (c *Followed) add(o Followed) {
	c.Arrivals += o.Arrivals
	c.Late += o.Late
	c.Responses += o.Responses
	c.Untimed += o.Untimed
}

// minFollowed is how many requests must have come before a rule is said to lack some of their entries: more than a tenth of them.
const minFollowed = 20

// lacks says what a rule lacks, why that matters, and what a person can do. It is empty if the rule lacks nothing.
func (c *Followed) lacks(r *rules.Rule) string {
	held := "nothing is held for requests in flight"
	if r.Measure == rules.InFlight {
		held = "no request counts as in flight"
	}
	switch of := "callers of kind " + strconv.Quote(r.Kind); {
	case c.Responses >= minFollowed && 10*c.Untimed >= c.Responses:
		why := "their costs count when they end"
		switch {
		case !r.FollowsRequests():
		case 10*c.Arrivals < c.Responses:
			why = held
		case r.Measure == rules.InFlight:
			why = "they stay in flight until they are forgotten"
		default:
			why += ", and what they held stays held until their window is over"
		}
		return fmt.Sprintf("%d of %d responses of %s do not say when their requests arrived, so %s: servers say it with record.Options{Responses: true, "+
			"Holds: true}, a log with a duration", c.Untimed, c.Responses, of, why)
	case r.FollowsRequests() && c.Responses >= minFollowed && 10*c.Arrivals < c.Responses:
		return fmt.Sprintf("%d arrivals of %s have come with %d responses, so %s: servers report a request when it arrives, a log must have a line then",
			c.Arrivals, of, c.Responses, held)
	case c.Arrivals >= minFollowed && 10*c.Late >= c.Arrivals:
		return fmt.Sprintf("%d of %d arrivals of %s have come more than %v late, as from a log that is written when requests end, so %s while they run: "+
			"servers report a request when it arrives, a log must have a line then", c.Late, c.Arrivals, of, time.Duration(lateArrival), held)
	}
	return ""
}

// newUse returns the use of a rule before any request. A rule has at most 64 patterns (MaxGlobs), so that each has a bit.
func newUse(r *rules.Rule) ruleUse {
	return ruleUse{unmatched: 1<<len(r.Match.Resources) - 1, follows: r.FollowsRequests()}
}

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
	Lacks    string   // what the rule lacks to follow requests; then there are no Patterns
}

// Reasons of an UnusedRule.
const (
	UnusedKind     = "kind"     // no request of its kind of callers has come
	UnusedPattern  = "pattern"  // a pattern of resources has matched none
	UnusedArrivals = "arrivals" // it follows requests, and their arrivals do not come, or not in time
)

// Reason returns one of the reasons.
func (u UnusedRule) Reason() string {
	switch {
	case u.Lacks != "":
		return UnusedArrivals
	case u.Requests == 0:
		return UnusedKind
	}
	return UnusedPattern
}

// String says what is unused, and what a person can do. It has no line end.
func (u UnusedRule) String() string {
	what := "requests"
	if u.Rule.ReadsResponses() {
		what = "responses"
	}
	if u.Lacks != "" {
		return fmt.Sprintf("rule %s: %s", u.Rule.Name, u.Lacks)
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

// Unused returns the rules that had no effect, or not with all that they say, in the order of the set. These are rules for whose kind of
// caller no request came, rules with a pattern that matched none of at least patience requests, and rules that lack what they need to follow
// requests. The last two may be one rule, which is returned twice then. The stats may be of several folds.
func Unused(set *rules.Set, patience uint64, folds ...*Stats) []UnusedRule {
	var list []UnusedRule
	for i, r := range set.Rules {
		use := useOf(r, i, folds)
		u := UnusedRule{Rule: r, Requests: use.requests, Sample: use.sample}
		for i, g := range r.Match.Resources {
			if use.unmatched&(1<<i) != 0 && u.Requests > 0 {
				u.Patterns = append(u.Patterns, g.String())
			}
		}
		if u.Requests == 0 || len(u.Patterns) > 0 && u.Requests >= patience {
			list = append(list, u)
		}
		if lacks := use.followed.lacks(r); lacks != "" {
			list = append(list, UnusedRule{Rule: r, Requests: u.Requests, Lacks: lacks})
		}
	}
	return list
}

// useOf returns the use of a rule in all folds that count by it. i is its place in its set, where most folds have it, too.
func useOf(r *rules.Rule, i int, folds []*Stats) ruleUse {
	use := newUse(r)
	for _, s := range folds {
		at := i
		if at >= len(s.Rules) || s.Rules[at].Rule != r.Name {
			at = slices.IndexFunc(s.Rules, func(o RuleStats) bool { return o.Rule == r.Name })
		}
		if at < 0 || s.Rules[at].Shape != r.Shape() {
			continue // this fold still counts by older rules
		}
		use.requests += s.Rules[at].Requests
		use.unmatched &= s.Rules[at].Unmatched
		use.followed.add(s.Rules[at].Followed)
		if use.sample == "" {
			use.sample = s.Rules[at].Sample
		}
	}
	return use
}
