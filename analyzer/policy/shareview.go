package policy

import (
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// until returns when the newest share ends. A share that only announces holds for one nanosecond.
func (s *Sharing) until(p Permits) int64 {
	if s.since == never {
		return integer.Add(s.from, 1)
	}
	return integer.Add(s.from, p.hold())
}

// Share returns the newest share, or nil if there is none, or if it has ended at t.
func (s *Sharing) Share(r *rules.Rule, limit, t int64) *schemas.Share {
	p := PermitsOf(r, limit)
	if s.length == 0 || p.Whole == 0 || s.until(p) <= t {
		return nil
	}
	return &schemas.Share{
		From: s.from, Until: s.until(p), Period: p.Period, Permits: p.Whole,
		DemandFrom: s.measuredUntil - s.measuring(), DemandUntil: s.measuredUntil, Demand: int64(s.demand),
	}
}

// Covers reports whether gates have permits at t, so that a window that is full then needs no closure.
func (s *Sharing) Covers(r *rules.Rule, limit, t int64) bool {
	return s.length > 0 && s.since <= t && t < s.until(PermitsOf(r, limit))
}

// Refuses reports whether gates may refuse requests at t because no permits are left.
func (s *Sharing) Refuses(r *rules.Rule, limit, t int64) bool {
	return s.length == 0 && t < s.start || s.Covers(r, limit, t)
}

// Since returns since when permits hold; math.MaxInt64 if none do.
func (s *Sharing) Since() int64 {
	if s.length == 0 {
		return never
	}
	return s.since
}

// Covered reports whether gates need not learn of a counted closure, because the caller's share covers it: the window holds at most 1 %
// more than the limit, or one request more for each gate if that is more. Where periods and windows do not begin together, it may hold the
// permits of one period in addition. total is what the window holds at o.Now.
func (s *Sharing) Covered(o *ShareOutlook, total int64) bool {
	if !s.Covers(o.Rule, o.Limit, o.Closure.CloseAt) {
		return false
	}
	p := PermitsOf(o.Rule, o.Limit)
	if o.Rule.Window.Traits().Truncates {
		return o.Closure.Until-o.Now <= p.Period+p.window/100
	}
	allowed := integer.Add(p.limit, max(p.limit/100, o.Gates))
	if !p.Aligned && o.Rule.Window.Traits().Slot < p.Period {
		allowed = integer.Add(allowed, p.Whole)
	}
	return total <= allowed
}

// Published notes that gates learn of a closure that ends at t.
func (s *Sharing) Published(t int64) { s.published = max(s.published, t) }

// Closed notes a close. before is the closure before it.
func (s *Sharing) Closed(r *rules.Rule, before, c Closure) {
	if before.Nth == 0 || c.CloseAt >= integer.Add(before.Until, r.Window.Length(c.CloseAt)) {
		s.closesInRow = 0
	}
	s.closesInRow = min(s.closesInRow+1, 2)
}

// Asked notes the weight of an entry at t that the caller has asked for, and whether it was admitted.
func (s *Sharing) Asked(r *rules.Rule, limit, t, weight int64, admitted bool) {
	s.asked.add(max(1, r.Window.Length(t)/4), t, weight)
	if s.length == 0 {
		return
	}
	s.measured.add(s.measuring()/subPeriods, t, weight)
	if admitted && s.admitted.add(PermitsOf(r, limit).renewal(), t, weight) {
		s.judged = false
	}
}

// IsPublished reports whether gates know of a closure that ends at t or later.
func (s *Sharing) IsPublished(t int64) bool { return s.published >= t }
