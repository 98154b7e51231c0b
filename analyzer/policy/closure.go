package policy

import (
	"math"
	"slices"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
)

// Closure is the closing state of one rule and caller: its latest close. The zero value was never closed.
// One goroutine at a time may use a Closure.
type Closure struct {
	CloseAt int64 // Unix nanoseconds: the time of the entry that reached the limit
	Until   int64 // Unix nanoseconds: open again from here on
	Nth     int64 // how many closes in a row this was, from 1
	Peak    int64 // the most weight the window held from CloseAt until Until
}

// ClosedAt reports whether t, in Unix nanoseconds, falls into the closure.
func (c Closure) ClosedAt(t int64) bool { return c.CloseAt <= t && t < c.Until }

// before reports whether t comes before the end of the closure: it is closed then, or t is older still.
func (c Closure) before(t int64) bool { return c.Nth > 0 && t < c.Until }

// Change is what a step did to a closure.
type Change uint8

// Changes. Same is nothing that a gate would notice.
const (
	Same   Change = iota
	Closed        // was open, now closed: one close
	Moved         // still closed, but until another time
	Opened        // was closed, now open ahead of time: only a change of rules does this
)

// String returns the change's name in lower case.
func (c Change) String() string { return [...]string{"same", "closed", "moved", "opened"}[c] }

// Step returns the closure that follows when an entry at t, in Unix nanoseconds, was counted and left the window at
// count. A closure that is over stays as it is until the next one: it says how the last one went.
func Step(r *rules.Rule, prev Closure, t int64, count window.Count) (Closure, Change) {
	if count.Late {
		return prev, Same
	}
	if prev.before(t) {
		return stepClosed(prev, count)
	}
	if !count.Full(t) {
		return prev, Same
	}
	return closeAt(r, prev, t, count), Closed
}

// stepClosed follows an entry that was counted before its caller opened again: a request that was under way, or one
// that another server reports late. Where that fills the window of somebody who has opened again by now, the closure goes
// on: who reports late escalates nothing.
func stepClosed(prev Closure, count window.Count) (Closure, Change) {
	next := prev
	next.Peak = max(prev.Peak, count.Total)
	if count.Until <= prev.Until {
		return next, Same
	}
	next.Until = count.Until
	return next, Moved
}

// closeAt closes an open caller at t. It is another close in a row unless the caller has stayed open long enough to be
// forgiven.
func closeAt(r *rules.Rule, prev Closure, t int64, count window.Count) Closure {
	nth := int64(1)
	if r.Escalate.Factor > 0 && prev.Nth > 0 && t < saturatingAdd(prev.Until, int64(r.Escalate.Forget)) {
		nth = saturatingAdd(prev.Nth, 1)
	}
	return Closure{
		CloseAt: t,
		Until:   max(count.Until, saturatingAdd(t, penalty(r, nth))),
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
	long, most := float64(r.CloseFor), float64(max(r.Escalate.Max, r.CloseFor))
	for ; nth > 1 && long < most; nth-- {
		long *= r.Escalate.Factor
	}
	if long >= most {
		return int64(max(r.Escalate.Max, r.CloseFor))
	}
	return int64(long)
}

// Derive returns the closure under changed rules at now, the newest time folded, where count is the window's View under
// the new limit. A closure whose peak the new limit would have allowed ends as soon as the window is not full, which is
// at once, except in a bucket: that stays full to the share that it was, and takes a moment to drain below its brim. An
// open caller whose window is full under the new limit closes at once; anything else moves to where the new rule would
// have put it.
func Derive(r *rules.Rule, limit int64, unlimited bool, prev Closure, now int64, count window.Count) (Closure, Change) {
	if !prev.before(now) {
		if unlimited || !count.Full(now) {
			return prev, Same
		}
		return closeAt(r, prev, now, count), Closed
	}
	next := prev
	switch {
	case unlimited:
		next.Until = now
	case prev.Peak < Capacity(r, limit):
		next.Until = count.Until
	default:
		next.Until = max(count.Until, saturatingAdd(prev.CloseAt, penalty(r, prev.Nth)))
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
	return saturatingAdd(c.Until, int64(r.Escalate.Forget))
}

// Capacity returns the weight at which a window of the rule is full, for a caller with the given limit: the limit
// itself, or the burst of a bucket.
func Capacity(r *rules.Rule, limit int64) int64 {
	if r.Burst > 0 {
		return r.Burst
	}
	return limit
}

// Overshoot returns by how much the window went over what its limit allows, as a share of it, floor 0.
func (c Closure) Overshoot(r *rules.Rule, limit int64) float64 {
	allowed := Capacity(r, limit)
	return max(0, float64(c.Peak-allowed)/float64(allowed))
}

// Warning returns the highest share of the limit at which the rule warns and which an entry of the given weight crossed
// when it left the window at count; 0 if there was none.
func Warning(r *rules.Rule, limit int64, count window.Count, weight int64) float64 {
	for _, share := range slices.Backward(r.Warn) {
		at := share * float64(Capacity(r, limit))
		if float64(count.Total-weight) < at && at <= float64(count.Total) {
			return share
		}
	}
	return 0
}

// saturatingAdd adds b ≥ 0 to a and stops at the largest time.
func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
