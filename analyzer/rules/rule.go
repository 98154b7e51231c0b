package rules

import (
	"time"

	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

// Measure is what a rule counts.
type Measure uint8

// Measures. Requests is the zero value.
const (
	Requests  Measure = iota // arrivals; or responses, in a rule that matches a status
	Responses                // ends of requests
	Cost                     // the cost of responses
)

// String returns requests, responses or cost.
func (m Measure) String() string {
	switch m {
	case Responses:
		return "responses"
	case Cost:
		return "cost"
	default:
		return "requests"
	}
}

// Rule says which callers are counted, what limit holds over what window, and what closing does. Rules come from Parse
// and don't change: any number of goroutines may use one.
type Rule struct {
	Name         string
	Kind         string // of the callers
	Pattern      Glob   // of their ids; the zero value matches all
	Match        Match
	Limit        int64 // of callers without an override: see LimitFor
	Window       window.Algorithm
	Burst        int64 // gcra: 0 is the limit
	Measure      Measure
	CountBlocked bool
	CloseFor     time.Duration // a close lasts at least this long; 0 is as long as the window is full
	Escalate     Escalate
	Mode         schemas.Mode
	Warn         []float64 // fractions of the limit at which to warn, rising
	overrides    overrides
	fingerprint  uint64
	shape        uint64
}

// Match selects the entries that a rule counts; all that is given must hold. The zero value selects all.
type Match struct {
	Resources []Glob        // any of them
	Statuses  []StatusRange // any of them
}

// StatusRange is a range of HTTP statuses, both ends included: 401 to 401, or 500 to 599.
type StatusRange struct{ From, To uint16 }

// Escalate makes consecutive closes longer: the n-th lasts at least CloseFor·Factor^(n−1), at most Max, and n starts
// again when a caller has behaved for Forget. The zero value does not escalate.
type Escalate struct {
	Factor float64
	Max    time.Duration
	Forget time.Duration
}

// LimitFor returns the limit of a caller of the rule's kind, and whether it has none at all: the override of exactly
// this id, else of the longest prefix that holds it, else Limit. The id is canonical. It does not allocate.
func (r *Rule) LimitFor(id string) (limit int64, unlimited bool) {
	if r.overrides.empty() {
		return r.Limit, false
	}
	if o, ok := r.overrides.find(id); ok {
		return o.limit, o.unlimited
	}
	return r.Limit, false
}

// Matches reports whether the rule counts e: its caller's kind and id, its resource and its status. Rules that match a
// status or measure responses or cost count responses, all others count arrivals: no request counts twice under a rule.
func (r *Rule) Matches(e *schemas.Entry) bool {
	return e.Kind == r.Kind && e.Response == r.ReadsResponses() && r.Pattern.Match(e.ID) && r.Match.holds(e)
}

// ReadsResponses reports whether the rule counts responses instead of arrivals. Recorders must then send them.
func (r *Rule) ReadsResponses() bool { return r.Measure != Requests || len(r.Match.Statuses) > 0 }

func (m *Match) holds(e *schemas.Entry) bool {
	if len(m.Resources) > 0 && !anyGlob(m.Resources, e.Resource) {
		return false
	}
	if len(m.Statuses) == 0 {
		return true
	}
	for _, s := range m.Statuses {
		if s.From <= e.Status && e.Status <= s.To {
			return true
		}
	}
	return false
}

// Weight returns what e weighs under the rule: its count, or its cost. An entry that was blocked weighs 0 unless the rule
// counts blocked ones. Whether it was is the caller's to say: a rule in shadow mode goes by its own closures, not by those
// that held.
func (r *Rule) Weight(e *schemas.Entry, blocked bool) int64 {
	if blocked && !r.CountBlocked {
		return 0
	}
	if r.Measure == Cost {
		return max(e.Cost, 0)
	}
	return int64(e.Count)
}

// Fingerprint identifies all that the rule says: its version in decisions. It is the same in every process, and does
// not depend on comments or on how the file is laid out.
func (r *Rule) Fingerprint() uint64 { return r.fingerprint }

// Shape identifies what the rule counts and how: kind, match, measure, count_blocked and window. Over a reload, a rule
// that keeps its name and its Shape keeps its counts; limit, burst, mode, close_for, escalate, warn, overrides and the
// pattern of ids may change.
func (r *Rule) Shape() uint64 { return r.shape }
