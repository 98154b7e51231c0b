package policy

import (
	"math"
	"slices"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
)

// Closure is the latest close of one rule and caller. The zero value was never closed. One goroutine at a time may use a Closure.
type Closure struct {
	CloseAt int64 // Unix nanoseconds: the time of the entry that reached the limit
	Until   int64 // Unix nanoseconds: open again from here on
	Nth     int64 // how many closes in a row this was, from 1
	Peak    int64 // the largest weight that the window held from CloseAt until Until; at least the limit, for a close by demand.
	// 0: the close was undone (see Derive and Recount). Escalation goes on as if it had not happened.
}

// ClosedAt reports whether t, in Unix nanoseconds, falls into the closure.
func (c Closure) ClosedAt(t int64) bool { return c.CloseAt <= t && t < c.Until }

// before reports whether t comes before the end of the closure. t may also be older than its begin.
func (c Closure) before(t int64) bool { return c.Nth > 0 && t < c.Until }

// Transition is what a step did to a closure.
type Transition uint8

// Transitions. Same is a change that no gate would notice, or none.
const (
	Same   Transition = iota
	Closed            // was open, is closed now: one close
	Moved             // still closed, but until another time
	Opened            // was closed, is open now, ahead of time: only a change of rules or a control record does this
)

// String returns the transition's name in lower case.
func (t Transition) String() string { return [...]string{"same", "closed", "moved", "opened"}[t] }

// Step returns the closure after an entry at t, in Unix nanoseconds. count is the window with that entry. A closure that is over does not
// change until the next close, because it says how the last close went. steps are the closes in a row before prev; see Steps.
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

// StepPool is Step for a caller of a pool, at log time. The bucket of such a caller fills again and again while it asks for more than its fair
// share. goesOn reports that it is closed once more within a window after it has opened: to people, that is the same close.
func StepPool(r *rules.Rule, prev Closure, t int64, count window.Count) (next Closure, change Transition, goesOn bool) {
	next, change = Step(r, prev, nil, t, count)
	return next, change, change == Closed && prev.Peak > 0 && t < prev.Expiry(r)
}

// StepDemand is Step for an open caller of which gates have blocked requests early, and whose own window is not full. c says when the
// window would be full, and until when, if those requests had been admitted (see Fill). A synchronous limiter would have closed the caller
// then, and so does StepDemand. It sets the peak to the limit, although less weight than that was admitted.
func StepDemand(r *rules.Rule, prev Closure, steps []Closure, limit int64, c Crossing) (Closure, Transition) {
	if prev.before(c.CloseAt) {
		return prev, Same
	}
	return closeAt(r, prev, steps, c.CloseAt, window.Count{Total: r.Window.Capacity(limit), Until: c.Until}), Closed
}

// stepClosed applies an entry whose time is before the end of the closure: a request that was under way, or a late report of another
// server. If the entry fills the window of a caller that has opened again by now, the closure is prolonged. A late report never counts as a
// new close, so it cannot escalate.
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

// penalty returns the minimum length of the n-th close in a row, in nanoseconds: min(close_for · factor^(n−1), max). It multiplies step by
// step, because that gives the same number on every processor, which math.Pow does not promise.
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

// Reach returns for how long, in nanoseconds, a closure may matter after the time at which its window naturally opens again: the longest
// penalty of the rule, and the time for which the rule remembers a close.
func Reach(r *rules.Rule) int64 {
	switch {
	case r.Pool != nil:
		return integer.Add(int64(r.CloseFor), r.Window.Length(0))
	case r.Escalate.Factor <= 0:
		return int64(r.CloseFor)
	}
	return integer.Add(int64(max(r.Escalate.Max, r.CloseFor)), int64(r.Escalate.Forget))
}

// Derive returns the closure under changed rules. now is the newest time folded, and count is the window's View under the new limit. A
// closure whose peak the new limit would have allowed ends as soon as the window is not full. That is at once, except in a bucket, which
// stays full to the same share and takes a moment to drain. An open caller whose window is full under the new limit closes at once. All
// other closures end when they would have ended under the new rule. A closure that ends because no limit holds any more, or because its
// peak is allowed now, is undone: its peak becomes 0. Escalation then continues from the closes in a row before it, which are steps.
//
// byDemand reports whether the closure was one by demand (see StepDemand). Its window need not be full, and its early weight is forgotten.
// So it keeps its end, but ends at the latest two lengths of the rule's window after now.
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
	switch {
	case r.Pool != nil: // see StepPool
		return integer.Add(c.Until, r.Window.Length(c.Until))
	case r.Escalate.Factor <= 0:
		return c.Until
	}
	return integer.Add(c.Until, int64(r.Escalate.Forget))
}

// Overshoot returns by how much the window went over what its limit allows, as a share of it; 0 if it did not.
func (c Closure) Overshoot(r *rules.Rule, limit int64) float64 {
	allowed := r.Window.Capacity(limit)
	return max(0, float64(c.Peak-allowed)/float64(allowed))
}

// Warning returns the highest share of the limit at which the rule warns and that an entry crossed; 0 if there was none. weight is that of
// the entry, and count is the window with it.
func Warning(r *rules.Rule, limit int64, count window.Count, weight int64) float64 {
	for _, share := range slices.Backward(r.Warn) {
		at := share * float64(r.Window.Capacity(limit))
		if float64(count.Total-weight) < at && at <= float64(count.Total) {
			return share
		}
	}
	return 0
}

// follows returns the number in a row of a close at t. last is the latest close before it that was not undone. The number is one more than
// that of last, unless the caller has stayed open so long that the rule has forgotten last; then it is 1.
func follows(r *rules.Rule, last Closure, t int64) int64 {
	if r.Escalate.Factor > 0 && last.Nth > 0 && t < integer.Add(last.Until, int64(r.Escalate.Forget)) {
		return integer.Add(last.Nth, 1)
	}
	return 1
}
