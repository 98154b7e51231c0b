package policy

import (
	"math"
	"slices"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
)

// Closure is the closing state of one rule and caller: its latest close. The zero value was never closed.
// One goroutine at a time may use a Closure.
type Closure struct {
	CloseAt int64 // Unix nanoseconds: the time of the entry that reached the limit
	Until   int64 // Unix nanoseconds: open again from here on
	Nth     int64 // how many closes in a row this was, from 1
	Peak    int64 // the largest weight that the window held from CloseAt until Until; of a close by demand the limit at least.
	// 0: the close was undone (see Derive and Recount). Escalation goes on as if it had not been.
}

// ClosedAt reports whether t, in Unix nanoseconds, falls into the closure.
func (c Closure) ClosedAt(t int64) bool { return c.CloseAt <= t && t < c.Until }

// before reports whether t comes before the end of the closure: it is closed then, or t is older still.
func (c Closure) before(t int64) bool { return c.Nth > 0 && t < c.Until }

// Transition is what a step did to a closure.
type Transition uint8

// Transitions. Same is nothing that a gate would notice.
const (
	Same   Transition = iota
	Closed            // was open, now closed: one close
	Moved             // still closed, but until another time
	Opened            // was closed, now open ahead of time: only a change of rules does this
)

// String returns the transition's name in lower case.
func (t Transition) String() string { return [...]string{"same", "closed", "moved", "opened"}[t] }

// Step returns the closure that follows when an entry at t, in Unix nanoseconds, was counted and left the window at
// count. A closure that is over stays as it is until the next one: it says how the last one went. steps are the closes in a row
// before prev; see Steps.
func Step(r *rules.Rule, prev Closure, steps []Closure, t int64, count window.Count) (Closure, Transition) {
	switch {
	case count.Place == window.Late, count.Place == window.Past && prev.Nth > 0 && t < prev.CloseAt:
		return prev, Same // the closure of a newer window stands
	case prev.before(t):
		return stepClosed(prev, count)
	case !count.Full(t):
		return prev, Same
	}
	return closeAt(r, prev, steps, t, count), Closed
}

// StepDemand is Step for an open caller of which gates have blocked requests early, and whose own window is not full. c is where
// and until when the window would be full if those requests had been admitted (see Fill): where a synchronous limiter would
// have closed. So the caller is closed then. The peak is the limit, which less than that was admitted of.
func StepDemand(r *rules.Rule, prev Closure, steps []Closure, limit int64, c Crossing) (Closure, Transition) {
	if prev.before(c.CloseAt) {
		return prev, Same
	}
	return closeAt(r, prev, steps, c.CloseAt, window.Count{Total: r.Window.Capacity(limit), Until: c.Until}), Closed
}

// stepClosed applies an entry that was counted before its caller opened again: a request that was under way, or one that
// another server reports late. If the entry fills the window of a caller that has opened again by now, the closure goes on.
// A late report never counts as a new close, so it cannot escalate.
func stepClosed(prev Closure, count window.Count) (Closure, Transition) {
	next := prev
	if prev.Peak > 0 {
		next.Peak = max(prev.Peak, count.Total)
	}
	if count.Until <= prev.Until {
		return next, Same
	}
	next.Until = count.Until
	return next, Moved
}

// closeAt closes an open caller at t, as the next close in a row after the latest one that was not undone.
func closeAt(r *rules.Rule, prev Closure, steps []Closure, t int64, count window.Count) Closure {
	nth := follows(r, standing(prev, steps), t)
	return Closure{
		CloseAt: t,
		Until:   max(count.Until, integer.Add(t, penalty(r, nth))),
		Nth:     nth,
		Peak:    count.Total,
	}
}

// penalty is how long the n-th close in a row lasts at least, in nanoseconds: min(close_for · factor^(n−1), max). It
// multiplies step by step: that gives the same number on every processor, which math.Pow does not promise.
func penalty(r *rules.Rule, nth int64) int64 {
	if r.Escalate.Factor <= 1 {
		return int64(r.CloseFor)
	}
	length, longest := float64(r.CloseFor), float64(max(r.Escalate.Max, r.CloseFor))
	for ; nth > 1 && length < longest; nth-- {
		length *= r.Escalate.Factor
	}
	if length >= longest {
		return int64(max(r.Escalate.Max, r.CloseFor))
	}
	return int64(length)
}

// Reach returns for how long, in nanoseconds, a closure may matter beyond the time at which its window naturally reopens:
// as long as the rule closes at least, and as long as it remembers that.
func Reach(r *rules.Rule) int64 {
	if r.Escalate.Factor <= 0 {
		return int64(r.CloseFor)
	}
	return integer.Add(int64(max(r.Escalate.Max, r.CloseFor)), int64(r.Escalate.Forget))
}

// Derive returns the closure under changed rules at now, the newest time folded, where count is the window's View under
// the new limit. A closure whose peak the new limit would have allowed ends as soon as the window is not full, which is
// at once, except in a bucket: that stays full to the same share, and takes a moment to drain below its brim. An
// open caller whose window is full under the new limit closes at once; anything else moves to where the new rule would
// have put it. A closure that ends because no limit holds any more, or because its peak is allowed now, was undone: its peak
// becomes 0, and escalation goes on as if it had not been: with the closes in a row before it, which are steps.
//
// byDemand is whether the closure was one by demand (see StepDemand). Its window need not be full, and the
// early weight is forgotten. So it keeps its end, but two lengths of the rule's window from now at most.
func Derive(
	r *rules.Rule, limit int64, unlimited, byDemand bool, prev Closure, steps []Closure, now int64, count window.Count,
) (Closure, Transition) {
	if !prev.before(now) {
		if unlimited || !count.Full(now) {
			return prev, Same
		}
		return closeAt(r, prev, steps, now, count), Closed
	}
	next := prev
	switch {
	case unlimited:
		next.Until, next.Peak = now, 0
	case prev.Peak < r.Window.Capacity(limit):
		next.Until, next.Peak = count.Until, 0
	default:
		next.Until = max(count.Until, integer.Add(prev.CloseAt, penalty(r, prev.Nth)))
		if byDemand {
			length := r.Window.Length(now)
			next.Until = max(next.Until, min(prev.Until, integer.Add(now, integer.Add(length, length))))
		}
	}
	switch {
	case next.Until == prev.Until:
		return next, Same
	case next.Until <= now:
		next.Until = now
		return next, Opened
	}
	return next, Moved
}

// Expiry returns the time from which on the closure no longer matters, in Unix nanoseconds: it is over, and the next
// close would be a first one.
func (c Closure) Expiry(r *rules.Rule) int64 {
	if c.Nth == 0 {
		return math.MinInt64
	}
	if r.Escalate.Factor <= 0 {
		return c.Until
	}
	return integer.Add(c.Until, int64(r.Escalate.Forget))
}

// Overshoot returns by how much the window went over what its limit allows, as a share of it, floor 0.
func (c Closure) Overshoot(r *rules.Rule, limit int64) float64 {
	allowed := r.Window.Capacity(limit)
	return max(0, float64(c.Peak-allowed)/float64(allowed))
}

// Warning returns the highest share of the limit at which the rule warns and which an entry of the given weight crossed
// when it left the window at count; 0 if there was none.
func Warning(r *rules.Rule, limit int64, count window.Count, weight int64) float64 {
	for _, share := range slices.Backward(r.Warn) {
		at := share * float64(r.Window.Capacity(limit))
		if float64(count.Total-weight) < at && at <= float64(count.Total) {
			return share
		}
	}
	return 0
}
