package policy

import (
	"time"

	"github.com/509da70d/floodgate/analyzer/hold"
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
)

// Held is the closure of a caller whose requests in flight hold what its limit has left. It is a prediction: no count and no close depends on
// it. The zero value is none.
type Held struct {
	CloseAt, Until int64 // Unix nanoseconds
	renewed        int64 // when Until was decided
}

// Bounds of how long a Held lasts unless it is renewed, at half of that. So an owner that has died holds nobody longer than the responses
// that it waited for.
const (
	minHeld = int64(6 * time.Second)
	maxHeld = int64(time.Minute)
)

// Covers reports whether the closure holds at t, in Unix nanoseconds.
func (h *Held) Covers(t int64) bool { return h.Until > t }

// Next returns when the closure must be decided again, although nothing is heard of the caller.
func (h *Held) Next() int64 { return h.renewed + (h.Until-h.renewed)/2 }

// HeldOutlook is what the decision about a Held depends on. Times are Unix nanoseconds of log time.
type HeldOutlook struct {
	Rule     *rules.Rule
	Room     hold.Room
	Count    window.Count
	Limit    int64
	Duration int64 // of a request, on average
	Demand   int64 // weight that comes within one lag
	Now      int64
}

// Step decides whether the caller is held. publish reports whether gates must learn of it.
func (o *HeldOutlook) Step(last Held) (next Held, publish bool) {
	left := o.Room.Left - o.Demand
	switch closed := last.Covers(o.Now); {
	case o.Count.Total == 0 && o.Room.InFlight == 0, closed && left >= max(o.Room.Mean, o.Limit/100):
		return Held{}, closed
	case closed && o.Now < last.Next(), !closed && left > 0:
		return last, false
	}
	until := integer.Add(o.Now, min(max(minHeld, 2*o.Duration), maxHeld))
	if w := o.Rule.Window; w.Traits().Aligned || w.Traits().Slot > w.Length(o.Now) { // nothing holds the next window
		until = min(until, integer.Add(o.Count.Start, o.Rule.Window.Length(o.Now)))
	}
	next = Held{CloseAt: o.Now, Until: until, renewed: o.Now}
	if last.Covers(o.Now) {
		next.CloseAt = last.CloseAt
	}
	return next, next.Until > last.Until && next.Until > o.Now
}

// StepInFlight returns the closure of a caller after one of its requests has begun or ended at t. count is how many are in flight with it, and
// before how many were without it. The caller is closed while they are as many as the limit. All that comes until they are less than half of
// it is one close: it goes on, also if the caller opens meanwhile.
func StepInFlight(prev Closure, goesOn bool, t, limit, before int64, count window.Count) (next Closure, change Transition, goes bool) {
	full := count.Full(t)
	goesOn = goesOn && 2*before >= limit
	next = prev
	switch {
	case prev.before(t) && full:
		next.Peak = max(prev.Peak, count.Total)
		if count.Until > prev.Until {
			next.Until, change = count.Until, Moved
		}
	case prev.before(t):
		next.Until, change, goesOn = t, Opened, true
	case full && goesOn:
		next.Until, next.Peak, change = count.Until, max(prev.Peak, count.Total), Moved
	case full:
		next, change = Closure{CloseAt: t, Until: count.Until, Nth: 1, Peak: count.Total}, Closed
	}
	return next, change, goesOn && 2*count.Total >= limit
}
