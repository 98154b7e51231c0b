package fold

import (
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

// This file closes a row if its admitted weight and its early weight (of requests that gates blocked early) fill the window together.

// refuse notes a blocked entry that does not count. It makes no row dirty, unless gates blocked the entry early.
func (f *Fold) refuse(r *rules.Rule, rule int32, e *schemas.Entry, hash uint64) {
	early := e.Early && e.Blocked && r.Mode != schemas.ModeShadow && r.Measure != rules.InFlight
	live := f.live(rule)
	if f.counters[rule].holds {
		f.refuseHeld(r, rule, e, hash)
		return
	}
	if !early && !live {
		return
	}
	i, known := f.table.find(hash, rule, e.ID)
	weight := r.Weight(e, false)
	if early && !known && f.table.losses.byRule[rule].lost != never {
		f.table.losses.lose(rule, 0, f.table.now) // the caller may have lost its row, and this would have counted
	}
	if !known || weight == 0 {
		return
	}
	row := f.table.row(i)
	limit, unlimited := f.rules.limitOf(r, row)
	if unlimited {
		return
	}
	if live && (row.flags&tracked != 0 || row.closure.ClosedAt(e.Time)) {
		row.flag(tracked, f.predict.Refused(&predict.Sent{
			Row: i, Rule: r, Limit: limit, Weight: weight, At: e.Time, Now: f.table.now, Closure: row.closure, Near: row.closure.ClosedAt(e.Time),
		}))
	}
	if early {
		f.addEarly(r, i, e, limit, weight)
	}
}

// addEarly adds a request that was blocked early to a row's early weight.
func (f *Fold) addEarly(r *rules.Rule, i uint32, e *schemas.Entry, limit, weight int64) {
	row := f.table.row(i)
	if row.since != never {
		row.since = max(row.since, f.table.now) // the row lacks weight, so early weight cannot confirm a close: note it as lost
		f.table.markDirty(i, row)
		return
	}
	if row.closure.Nth > 0 && e.Time < row.closure.Until || r.Window.Expiry(row.state) <= e.Time {
		return
	}
	count, slot := r.Window.View(row.state, limit, e.Time), integer.FloorDiv(e.Time, earlySlot(r))
	d := f.table.sides.earlyOf(row)
	if count.Place != window.Newest || d != nil && slot <= d.newest-earlySlots {
		return
	}
	if d == nil {
		d = &earlyWeight{newest: slot}
		f.table.sides.putEarly(row, d)
		row.flag(closedByDemand, false) // the closure that the flag is about is over
	}
	d.add(slot, weight)
	f.table.markDirty(i, row)
	f.step(r, i, row, e, count, limit, 0)
}

// stepEarly closes a row at an entry if the window would be full together with the early weight. count is the window without early weight.
// If count is only the weight of this entry, the window before has ended, and the row's early weight ends with it.
func (f *Fold) stepEarly(r *rules.Rule, row *row, e *schemas.Entry, count window.Count, limit, weight int64) (policy.Closure, policy.Transition) {
	if count.Place == window.Past {
		return row.closure, policy.Same // early weight belongs to the newest window
	}
	early := f.table.early(r, row, limit, e.Time, count)
	if weight > 0 && (early == 0 || count.Total <= weight) {
		f.table.sides.forgetEarly(row)
		early = 0
	}
	if early == 0 || count.Total < r.Window.Capacity(limit)-early {
		return row.closure, policy.Same
	}
	f.filled = append(f.filled[:0], row.state...)
	c, full, state := policy.Fill(r, f.filled, limit, e.Time)
	if f.filled = state; !full {
		return row.closure, policy.Same
	}
	return policy.StepDemand(r, row.closure, f.table.sides.stepsOf(row), limit, c)
}
