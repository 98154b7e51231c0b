package policy

import (
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
)

// crossSteps bounds the work of one Cross. A window with more slots than that is rolled forward by several slots at a time.
const crossSteps = 24

// Crossing says when a window will be full if the demand does not change, and until when it will stay full. Both are Unix nanoseconds.
type Crossing struct{ CloseAt, Until int64 }

// Cross rolls a window forward from one time to another, both in Unix nanoseconds, until the window is full. The caller sends rate
// thousandths of weight a second. Cross does not change s: it works on a copy in room, which may be nil and is returned for the next call.
// ok is false if the window will not be full before to.
func Cross(r *rules.Rule, s window.State, limit, from, to, rate int64, room window.State) (c Crossing, ok bool, _ window.State) {
	const whole = 1000
	capacity, slot, endless := r.Window.Capacity(limit), r.Window.Traits().Slot, r.Window.Traits().Endless
	step := max((to-from)/(crossSteps-4), 1)
	if slot > 0 {
		step = (step-1)/slot*slot + slot
	}
	room = append(room[:0], s...)
	var part int64 // of a unit of weight, in thousandths
	for t, n := from, 0; t < to && n < crossSteps; n++ {
		now := r.Window.View(room, limit, t)
		if now.Full(t) {
			return Crossing{t, now.Until}, true, room
		}
		next, left := min(integer.Add(t, step), to), now.Total
		if slot > 0 {
			next = min(integer.Add(integer.FloorDiv(t, slot)*slot, step), to)
		}
		if ends := r.Window.Expiry(room); ends > t {
			next = min(next, ends)
		}
		comes := weightIn(rate, next-t)
		switch {
		case endless: // a bucket also drains the weight that comes
			drains := integer.MulDiv(max(limit, 1)*whole, next-t, r.Window.Length(t))
			comes -= min(comes, max(0, drains-now.Total*whole))
			left = max(0, left-drains/whole)
		case slot < step:
			left = min(left, r.Window.View(room, limit, next-1).Total)
		}
		gain, missing := comes-(now.Total-left)*whole, (capacity-now.Total)*whole-part
		if gain > 0 && gain >= missing {
			at := t + integer.MulDiv(next-t, max(missing, 0), gain)
			return Fill(r, room, limit, at)
		}
		part += comes
		if weight := part / whole; weight > 0 {
			room, _ = r.Window.Add(room, limit, next-1, weight)
			part -= weight * whole
		}
		t = next
	}
	return Crossing{}, false, room
}

// Fill adds to a window, at a time in Unix nanoseconds, the weight that it lacks to be full. It returns until when the window is full then,
// and the new state, which may share memory with s. ok is false if the window is not full even so.
func Fill(r *rules.Rule, s window.State, limit, at int64) (c Crossing, ok bool, _ window.State) {
	var count window.Count
	for range 2 { // the total of a bucket is rounded up: it may take one more
		lacks := max(r.Window.Capacity(limit)-r.Window.View(s, limit, at).Total, 1)
		if s, count = r.Window.Add(s, limit, at, lacks); count.Full(at) && count.Place != window.Late {
			return Crossing{at, count.Until}, true, s
		}
	}
	return Crossing{}, false, s
}
