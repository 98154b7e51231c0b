package fold

import (
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

// This file is how early weight confirms a close: what gates blocked early, and what was admitted, fill the window together.

// liveEarly returns what counts of a row's early weight at a time, or nil. When the row's own window is over, nothing does: then the
// row may have been dropped.
func (f *Fold) liveEarly(r *row, d *earlyWeight, at int64) *earlyWeight {
	rule := f.set.Rules[r.rule]
	limit, _ := f.limitOf(rule, r)
	live := d.as(earlySlot(rule, at), at, rule.Window.View(r.state, limit, at).Start)
	if live.total() == 0 || rule.Window.Expiry(r.state) <= at {
		return nil
	}
	return &live
}

// refuse takes note of an entry that was blocked and does not count. It makes no row dirty, unless gates blocked it early.
func (f *Fold) refuse(r *rules.Rule, rule int32, e *schemas.Entry, hash uint64) {
	early := e.Early && e.Blocked && r.Mode != schemas.ModeShadow
	live := f.live(rule)
	if !early && !live {
		return
	}
	i, known := f.table.find(hash, rule, e.ID)
	weight := r.Weight(e, false)
	if early && !known && f.accounts[rule].lost != never {
		f.lose(rule, 0) // the caller may have lost its row, and this would have counted
	}
	if !known || weight == 0 {
		return
	}
	row := f.table.row(i)
	limit, unlimited := f.limitOf(r, row)
	if unlimited {
		return
	}
	if live && (row.beside&tracked != 0 || row.closure.ClosedAt(e.Time)) {
		row.flag(tracked, f.predict.Refused(&predict.Sent{
			Row: i, Rule: r, Limit: limit, Weight: weight, At: e.Time, Now: f.now, Closure: row.closure, Near: row.closure.ClosedAt(e.Time),
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
		row.since = max(row.since, f.now) // the row lacks weight, and so its early weight means nothing: it is lost, too
		f.markDirty(i, row)
		return
	}
	if row.closure.Nth > 0 && e.Time < row.closure.Until || r.Window.Expiry(row.state) <= e.Time {
		return
	}
	count, slot := r.Window.View(row.state, limit, e.Time), earlySlot(r, e.Time)
	d := f.earlyOf(row)
	if count.Place != window.Newest || d != nil && integer.FloorDiv(e.Time, slot) <= d.newest-earlySlots {
		return
	}
	if d == nil {
		d = &earlyWeight{newest: integer.FloorDiv(e.Time, slot)}
		f.putEarly(row, d)
		row.flag(closedByDemand, false) // that closure is over
	}
	d.add(slot, e.Time, weight)
	f.markDirty(i, row)
	f.step(r, i, row, e, count, limit, 0)
}

// early returns the early weight of a row that counts at t, in a window that amounts to count. A bucket would have drained some.
func (f *Fold) early(r *rules.Rule, row *row, limit, t int64, count window.Count) int64 {
	d := f.earlyOf(row)
	if d == nil {
		return 0
	}
	slot := earlySlot(r, t)
	live := d.as(slot, t, count.Start)
	weight := live.total()
	if r.Window.Traits().Endless {
		since := max(0, t-(live.newest-earlySlots+1)*slot)
		weight -= min(weight, 1+int64(float64(since)/float64(r.Window.Length(t))*float64(limit)))
	}
	return weight
}

// stepEarly closes a row at an entry if its window would be full with its early weight in it. count is what the window amounts to.
// If that is the weight of the entry alone, the window before was over, and so is the row's early weight.
func (f *Fold) stepEarly(r *rules.Rule, row *row, e *schemas.Entry, count window.Count, limit, weight int64) (policy.Closure, policy.Transition) {
	if count.Place == window.Past {
		return row.closure, policy.Same // early weight is of the newest window
	}
	early := f.early(r, row, limit, e.Time, count)
	if weight > 0 && (early == 0 || count.Total <= weight) {
		f.forgetEarly(row)
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
	return policy.StepDemand(r, row.closure, f.stepsOf(row), limit, c)
}

// earlyOf returns the early weight of a row, or nil.
func (f *Fold) earlyOf(r *row) *earlyWeight {
	if r.beside&hasEarly == 0 {
		return nil
	}
	return f.earlyWeights[r]
}

func (f *Fold) putEarly(r *row, d *earlyWeight) {
	if f.earlyWeights == nil {
		f.earlyWeights = make(map[*row]*earlyWeight)
	}
	r.beside |= hasEarly
	f.earlyWeights[r] = d
}

// forgetEarly ends the early weight of a row, if it has some.
func (f *Fold) forgetEarly(r *row) {
	if r.beside&hasEarly != 0 {
		r.beside &^= hasEarly
		delete(f.earlyWeights, r)
	}
}
