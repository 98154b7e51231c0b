package rules

import (
	"time"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/hold"
	"github.com/509da70d/floodgate/analyzer/pattern"
	"github.com/509da70d/floodgate/analyzer/window"
)

// Bounds of requests in flight, and what they are where a file does not say it.
const (
	minHoldWindow   = 10 * time.Second // of a window in which costs count by their arrival
	minLongest      = 10 * time.Second
	maxLongest      = 24 * time.Hour
	defaultLongest  = 10 * time.Minute
	defaultMargin   = 2
	maxMargin       = 4
	maxCohorts      = 10 // of a sliding window, about
	calendarCohorts = 9  // of an eighth of longest: so many are needed to cover all of it
)

const chargeArrival = "arrival"

// charge reads in which window a cost counts, and what requests in flight hold of a limit on costs.
func (f ruleParser) charge(r *Rule) {
	r.AtArrival = f.Choice("charge", "end", chargeArrival) == chargeArrival
	if r.AtArrival && r.Measure != Cost {
		f.Fail("charge", "got arrival, want it only with measure: %s", Cost)
		r.AtArrival = false
	}
	terms, longest := f.hold(r)
	switch {
	case terms != nil && !r.AtArrival:
		f.Fail("hold", "needs charge: arrival: otherwise what is in flight at the end of a window blocks the next one")
	case !r.AtArrival || r.Window == nil || !f.holds(r):
	default:
		r.Window, r.longest = window.WithGrace(r.Window, longest), longest
		if r.Hold = terms; terms != nil {
			terms.Span, terms.Cohorts = cohortsOf(r.Window, longest)
			terms.Identify()
		}
	}
}

// holds reports whether costs can count by their arrival in the rule's window. Servers merge responses whose requests arrived in the same
// second, so windows and slots must have whole seconds.
func (f ruleParser) holds(r *Rule) bool {
	if r.Calendar() != "" {
		return true
	}
	traits, length := r.Window.Traits(), time.Duration(r.Window.Length(0))
	switch {
	case f.Says("algorithm", "gcra") || f.Says("algorithm", "log"):
		text, _ := f.Value("algorithm").Text()
		f.Fail("algorithm", "got %s, want fixed or sliding with charge: arrival", text)
	case length < minHoldWindow || length%time.Second != 0:
		f.Fail("window", "got %s, want whole seconds, %s or more, with charge: arrival",
			document.FormatDuration(length), document.FormatDuration(minHoldWindow))
	case traits.Slot%int64(time.Second) != 0:
		at := "slots"
		if !f.Has(at) {
			at = "window"
		}
		slots := (int64(length) + traits.Slot - 1) / traits.Slot
		for int64(length)%(slots*int64(time.Second)) != 0 {
			slots--
		}
		f.Fail(at, "got slots of %s, want whole seconds with charge: arrival, such as slots: %d",
			document.FormatDuration(time.Duration(traits.Slot)), slots)
	default:
		return true
	}
	return false
}

// cohortsOf returns the cohorts of a window: see hold.Terms. In fixed windows they are the newest window and the one before. In sliding windows
// they are of so many slots each that there are about ten.
func cohortsOf(w window.Algorithm, longest time.Duration) (span int64, cohorts int) {
	traits := w.Traits()
	if traits.Aligned {
		return traits.Slot, 2
	}
	if length := w.Length(0); traits.Slot <= length {
		slots := (length+traits.Slot-1)/traits.Slot + 1
		each := (slots + maxCohorts - 1) / maxCohorts
		return each * traits.Slot, int((slots+each-1)/each) + 1
	}
	span = int64(longest) / (calendarCohorts - 1)
	return (span + int64(time.Second) - 1) / int64(time.Second) * int64(time.Second), calendarCohorts
}

// hold reads what requests in flight hold. terms is nil if the file does not say it.
func (f ruleParser) hold(r *Rule) (terms *hold.Terms, longest time.Duration) {
	in, ok := f.Nested("hold", "estimate", "resources", "margin", "longest")
	if !ok {
		return nil, defaultLongest
	}
	longest = in.Duration("longest", minLongest, maxLongest, defaultLongest)
	if r.Measure != Cost {
		f.Fail("hold", "got one with measure: %s, want it with %s or %s", r.Measure, Cost, InFlight)
		return nil, longest
	}
	if len(r.Match.Statuses) > 0 {
		f.Fail("hold", "got one with match: status, want none: the status of a request in flight is not known")
	}
	if in.Lacks("estimate") {
		in.Fail("estimate", "missing, want what a request costs until responses say it")
	}
	terms = &hold.Terms{
		Estimate: in.Integer("estimate", 1, hold.MaxCost, 1),
		Margin:   int64(in.Number("margin", 0, maxMargin, defaultMargin)*100 + 0.5),
	}
	f.estimates(terms, in)
	return terms, longest
}

// estimates reads the estimates of resources.
func (f ruleParser) estimates(terms *hold.Terms, in document.Mapping) {
	if !in.Has("resources") {
		return
	}
	pairs, ok := in.Value("resources").Pairs()
	if !ok {
		in.Wrong("resources", "costs by patterns of resources, such as {\"POST /v1/big*\": 4000}")
	}
	if len(pairs) > maxGlobs {
		in.Fail("resources", "got %d, want at most %d", len(pairs), maxGlobs)
		return
	}
	taken := make(map[string]bool)
	for _, p := range pairs {
		cost, isCost := p.Value.Integer()
		switch {
		case p.Key == "" || len(p.Key) > maxGlob:
			f.Document().Errorf(p.At, "resources: got a pattern of %d bytes, want 1 to %d", len(p.Key), maxGlob)
		case taken[p.Key]:
			f.Document().Errorf(p.At, "resources: %q given twice", document.Clip(p.Key))
		case !isCost || cost < 1 || cost > hold.MaxCost:
			f.Document().Errorf(p.Value.Position(), "resources: got %s for %q, want a whole number from 1 to %d", p.Value, document.Clip(p.Key), int64(hold.MaxCost))
		default:
			f.warnOfResource(p.At, p.Key)
			terms.Resources, terms.Estimates = append(terms.Resources, pattern.NewGlob(p.Key)), append(terms.Estimates, cost)
		}
		taken[p.Key] = true
	}
}

// inFlight reads the window of a rule that measures requests in flight. Fields that have no meaning there are errors.
func (f ruleParser) inFlight(r *Rule) {
	f.pointless(f.Mapping, "window", "algorithm", "slots", "burst", "timezone", "anchor", "charge", "count_blocked", "close_for", "escalate")
	if len(r.Match.Statuses) > 0 {
		f.Fail("match", "got a status, want none with measure: %s: the status of a request in flight is not known", InFlight)
	}
	longest := defaultLongest
	if in, ok := f.Nested("hold", "estimate", "resources", "margin", "longest"); ok {
		f.pointless(in, "estimate", "resources", "margin")
		longest = in.Duration("longest", minLongest, maxLongest, defaultLongest)
	}
	r.Window = window.NewInFlight(longest)
	r.windowText = noWindow + ", " + document.FormatDuration(longest) + " at most"
}

// pointless reports fields that have no meaning for requests in flight.
func (f ruleParser) pointless(in document.Mapping, fields ...string) {
	for _, field := range fields {
		if in.Has(field) {
			in.Fail(field, "means nothing with measure: %s: each request counts as one, until it ends", InFlight)
		}
	}
}
