package rules

import (
	"fmt"
	"hash/fnv"
	"math/bits"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/hold"
	"github.com/509da70d/floodgate/analyzer/pattern"
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
	InFlight                 // requests that have arrived and have not ended
)

// String returns requests, responses, cost or in_flight.
func (m Measure) String() string {
	switch m {
	case Responses:
		return "responses"
	case Cost:
		return "cost"
	case InFlight:
		return window.NameInFlight
	default:
		return "requests"
	}
}

// Rule says which callers are counted, which limit holds over which window, and how long a close lasts. Parse makes rules; they
// do not change, and any number of goroutines may use one.
type Rule struct {
	Name         string
	Kind         string       // of the callers
	Pattern      pattern.Glob // of their ids; the zero value matches all
	Match        Match
	Limit        int64 // of callers without an override: see LimitFor; with a Pool, the capacity
	Pool         *Pool // the capacity that all callers share, instead of a limit; nil for a rule with a limit
	Window       window.Algorithm
	Burst        int64 // gcra: 0 is the limit
	Measure      Measure
	AtArrival    bool        // a cost counts in the window in which its request arrived
	Hold         *hold.Terms // what requests in flight hold of a limit on costs; nil: nothing
	CountBlocked bool
	CloseFor     time.Duration // a close lasts at least this long; 0 is as long as the window is full
	Escalate     Escalate
	Mode         schemas.Mode
	Predict      Predict
	Warn         []float64 // fractions of the limit at which to warn, rising
	overrides    overrides
	longest      time.Duration // with AtArrival: for how long a request may run
	windowText   string
	fingerprint  uint64
	shape        uint64
}

// Match selects the entries that a rule counts: those that fit both fields. An empty field fits all entries.
type Match struct {
	Resources []pattern.Glob        // any of them; of the whole resource, "GET /search", or of its path, "/search"
	Statuses  []pattern.StatusRange // any of them
}

// Escalate makes consecutive closes longer. The n-th close lasts at least CloseFor·Factor^(n−1), but at most Max. When a caller
// was not closed for Forget, n starts again at 1. The zero value does not escalate.
type Escalate struct {
	Factor float64
	Max    time.Duration
	Forget time.Duration
}

// LimitFor returns the limit of a caller of the rule's kind, and whether the caller is unlimited: by the override of exactly
// this id, else of the smallest network that contains it, else Limit. The id is canonical. LimitFor does not allocate.
func (r *Rule) LimitFor(id string) (limit int64, unlimited bool) {
	if r.overrides.empty() {
		return r.Limit, false
	}
	if o, ok := r.overrides.find(id); ok {
		return o.limit, o.unlimited
	}
	return r.Limit, false
}

// Matches reports whether the rule reads e, by its caller's kind and id, its resource and its status. Rules that match a
// status, or measure responses or cost, read responses. Those that know of requests in flight read arrivals, too. All others read
// arrivals. No request counts twice under a rule.
func (r *Rule) Matches(e *schemas.Entry) bool {
	return e.Kind == r.Kind && r.Reads(e.Response) && r.Pattern.Match(e.ID) && r.Match.fits(e)
}

// Reads reports whether the rule reads responses or, for false, arrivals.
func (r *Rule) Reads(responses bool) bool {
	return responses == r.ReadsResponses() || r.FollowsRequests()
}

// FollowsRequests reports whether the rule reads the arrival and the response of a request. Recorders must send when requests arrived for
// such a rule.
func (r *Rule) FollowsRequests() bool { return r.Hold != nil || r.Measure == InFlight }

// ReadsResponses reports whether the rule counts responses instead of arrivals. Recorders must send responses for such a rule.
func (r *Rule) ReadsResponses() bool { return r.Measure != Requests || len(r.Match.Statuses) > 0 }

func (m *Match) fits(e *schemas.Entry) bool {
	return m.fitsResource(e.Resource) && (len(m.Statuses) == 0 || pattern.AnyStatus(m.Statuses, e.Status))
}

// UnmatchedBy returns those of a set of patterns that do not match a resource. Bit i of a set is Resources[i].
func (m *Match) UnmatchedBy(resource string, patterns uint64) uint64 {
	path := schemas.ResourcePath(resource)
	for left := patterns; left != 0; left &= left - 1 {
		i := bits.TrailingZeros64(left)
		if g := m.Resources[i]; g.Match(resource) || len(path) < len(resource) && g.Match(path) {
			patterns &^= 1 << i
		}
	}
	return patterns
}

func (m *Match) fitsResource(resource string) bool {
	return len(m.Resources) == 0 || pattern.IndexResource(m.Resources, resource) >= 0
}

// Weight returns how much e adds to a count under the rule: its count, or its cost. Of requests in flight, responses take their count
// away, if it is known when they arrived. A blocked entry adds 0, unless the rule counts blocked ones. The caller decides whether e was
// blocked: for a rule in shadow mode, the rule's own closures decide that, not those that gates enforced.
func (r *Rule) Weight(e *schemas.Entry, blocked bool) int64 {
	switch {
	case r.Measure == InFlight && e.Response && e.Arrived > 0:
		return -int64(e.Count)
	case blocked && !r.CountBlocked, r.Measure == InFlight && e.Arrived == 0:
		return 0
	case r.Measure == Cost:
		return max(e.Cost, 0)
	}
	return int64(e.Count)
}

// Fingerprint identifies everything that the rule says: it is the rule's version in decisions. It is the same in every
// process, and does not depend on comments or on the layout of the file.
func (r *Rule) Fingerprint() uint64 { return r.fingerprint }

// Shape identifies what the rule counts and how: kind, match, measure, charge, count_blocked and window. A rule that keeps its name and
// its Shape in a reload keeps its counts. Its limit, capacity, protect, weights, burst, mode, close_for, escalate, predict, warn,
// overrides and pattern of ids may change.
func (r *Rule) Shape() uint64 { return r.shape }

// identify computes the rule's shape and fingerprint. Both texts quote what people chose, so that no two rules share one.
func (r *Rule) identify() {
	var shape strings.Builder
	fmt.Fprintf(&shape, "%q %v %v %v %q", r.Kind, r.Match, r.Measure, r.CountBlocked, r.Window.Shape())
	if r.AtArrival {
		shape.WriteString(" arrival")
	}
	r.shape = hash(shape.String())
	holds := ""
	if r.Hold != nil {
		holds = fmt.Sprintf(" %x %d %d", r.Hold.ID, r.Hold.Margin, r.longest)
	}
	if r.Pool != nil {
		holds = r.Pool.identity()
	}
	r.fingerprint = hash(fmt.Sprintf("%q %s %q %d %d %v %v %v %v %v %q%s", r.Name, shape.String(), r.Pattern, r.Limit, r.Burst,
		r.CloseFor, r.Escalate, r.Mode, r.Predict, r.Warn, r.overrides.lines(), holds))
}

func hash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// String returns the match as text; it is part of fingerprints.
func (m Match) String() string { return fmt.Sprintf("%q %v", m.Resources, m.Statuses) }
