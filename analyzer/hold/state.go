package hold

import (
	"math"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/schemas"
)

// State is what a fold keeps of the requests in flight of one rule and one caller: about 120 bytes, and 24 for each cohort. New makes one. One
// goroutine at a time may use a State.
type State struct {
	Learned Learned

	terms   uint64   // Terms.ID of those that it was made under
	span    int64    // of a cohort
	kept    int      // how many cohorts are kept
	newest  int64    // the number of the newest cohort that any entry has named, since 1970-01-01
	cohorts []cohort // the newest first, cut behind the oldest that holds something
}

// cohort is the sums of the requests that arrived in a stretch of time, less those of their responses. They wrap around, so that any order of
// additions and subtractions has the same result.
type cohort struct {
	requests int64
	expected int64 // what they were expected to cost
	arrived  int64 // when, in ticks since the cohort began
}

// New returns the State of a caller that has sent nothing.
func New(t *Terms) *State { return &State{terms: t.ID, span: t.Span, kept: t.Cohorts} }

// Under returns a State under other terms, which may be nil, as s may be. If only estimates have changed, what is in flight stays, at the new
// estimate, and what was learned is forgotten. If cohorts have another length, nothing stays. changed reports whether it differs from s.
func Under(t *Terms, s *State) (under *State, changed bool) {
	switch {
	case s == nil:
		return nil, false
	case t == nil || s.span != t.Span || s.kept != t.Cohorts:
		return nil, true
	case s.terms != t.ID:
		s.terms, s.Learned = t.ID, Learned{}
		for i := range s.cohorts {
			p := &s.cohorts[i]
			p.expected = p.requests * t.Estimate
		}
		s.trim()
		return s, true
	}
	return s, false
}

// Arrive adds the requests of an arrival that was admitted.
func (s *State) Arrive(t *Terms, e *schemas.Entry) {
	s.forget(e.Time)
	if p, begin := s.at(e.Time); p != nil {
		p.requests += int64(e.Count)
		p.expected += t.expected(e)
		p.arrived += int64(e.Count) * (schemas.Tick(e.Time) - begin)
		s.trim()
	}
}

// End takes away the requests of a response, and learns from them. at is when they arrived on average: see ArrivedAt. limit is that of the
// caller.
func (s *State) End(t *Terms, e *schemas.Entry, at, limit int64) {
	s.forget(e.Time)
	expected := t.expected(e)
	if p, begin := s.at(at); p != nil {
		p.requests -= int64(e.Count)
		p.expected -= expected
		arrived := e.Arrived
		if at == e.Time {
			arrived = int64(e.Count) * schemas.Tick(at) // it is said to arrive later
		}
		p.arrived -= arrived - int64(e.Count)*begin
		s.trim()
	}
	if e.Cost <= 0 || e.Blocked {
		return // a request that was refused, that failed, or that anybody may send for nothing, says nothing of what others cost
	}
	s.Learned.learn(t, sample{
		requests: int64(e.Count), cost: cut(e.Cost, int64(e.Count)), expected: expected, ticks: schemas.Tick(e.Time) - schemas.Tick(at),
	}, limit)
}

// ArrivedAt returns when the requests of a response arrived on average, in Unix nanoseconds, but not later than the response. ok is false if
// the response does not say it.
func ArrivedAt(e *schemas.Entry) (at int64, ok bool) {
	if e.Arrived == 0 {
		return e.Time, false
	}
	if ticks := e.Arrived / int64(e.Count); ticks < schemas.Tick(e.Time) {
		return ticks * schemas.MergeTick, true
	}
	return e.Time, true
}

// forget empties the state if nothing depends on it any more at the time of an entry: a fold may have dropped it by then.
func (s *State) forget(now int64) {
	if s.Expiry() <= now {
		s.Learned, s.newest, s.cohorts = Learned{}, 0, s.cohorts[:0]
	}
}

// at returns the cohort of a time, and the tick at which it begins. It is nil if the cohort is too old to be kept.
func (s *State) at(at int64) (p *cohort, begin int64) {
	number := integer.FloorDiv(at, s.span)
	switch by := number - s.newest; {
	case by >= int64(s.kept):
		s.newest, s.cohorts = number, s.cohorts[:0]
	case by > 0:
		s.advance(int(by))
	}
	age := s.newest - number
	if age >= int64(s.kept) {
		return nil, 0
	}
	if cap(s.cohorts) < s.kept {
		s.cohorts = append(make([]cohort, 0, s.kept), s.cohorts...)
	}
	for int64(len(s.cohorts)) <= age {
		s.cohorts = append(s.cohorts, cohort{})
	}
	return &s.cohorts[age], schemas.Tick(number * s.span)
}

// advance makes the cohort by cohorts after the newest one the newest.
func (s *State) advance(by int) {
	s.newest += int64(by)
	kept := min(len(s.cohorts), s.kept-by)
	s.cohorts = append(s.cohorts[:kept], make([]cohort, by)...)
	copy(s.cohorts[by:], s.cohorts[:kept])
	clear(s.cohorts[:by])
}

// trim cuts the cohorts behind the oldest one that holds something, so that one content has one form.
func (s *State) trim() {
	for n := len(s.cohorts); n > 0 && s.cohorts[n-1] == (cohort{}); n-- {
		s.cohorts = s.cohorts[:n-1]
	}
}

// Expiry returns the time from which on nothing depends on the state, in Unix nanoseconds.
func (s *State) Expiry() int64 {
	if s.newest > math.MaxInt64/s.span-int64(s.kept) {
		return math.MaxInt64
	}
	return (s.newest + int64(s.kept)) * s.span
}
