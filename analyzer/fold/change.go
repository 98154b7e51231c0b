package fold

import (
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

// Change is what an entry, a control record or a change of rules did to one rule and caller: it closed the gate, moved the end of the
// closure, or opened the gate. It is also a warning that an entry crossed, or the end of a closure by log time.
type Change struct {
	Rule    *rules.Rule
	Caller  schemas.Caller
	Kind    policy.Transition // Same for a warning, and for an end
	Warn    float64           // the share of the limit that was crossed, or 0
	GoesOn  bool              // the caller was opened, or closed once more, within a close that goes on: see policy.StepInFlight and policy.StepPool
	Ended   bool              // the closure has ended by log time, or is a close that goes on no more, at At; Kind is Same. Only if Options.Ends says so
	Before  policy.Closure    // the closure before this change. If Kind is Closed, the close before this one, with its final peak
	Closure policy.Closure
	Count   window.Count
	Limit   int64 // as it applies to this caller
	At      int64 // Unix nanoseconds: the time of the entry, or log time
	Offset  int64 // of the record whose entry this was

	predict.Forecast // of the caller
}

// staysOpen reports whether a row is open at an entry's time and stays open. Nearly all rows do, and then the policy has nothing to decide.
func (r *row) staysOpen(count window.Count, t int64) bool {
	return r.closure.Until <= t && !count.Full(t) && r.flags&hasEarly == 0
}

// step lets the policy decide on an entry that was counted.
func (f *Fold) step(r *rules.Rule, i uint32, row *row, e *schemas.Entry, count window.Count, limit, weight int64) {
	before := row.closure
	if before.ClosedAt(e.Time) && r.Window.Traits().Truncates {
		count.Total = max(count.Total, before.Peak+weight) // the state drops weight over the limit, but the overshoot must count it
	}
	closure, change := policy.Step(r, before, f.table.sides.stepsOf(row), e.Time, count)
	if row.flags&hasEarly != 0 && change == policy.Same {
		closure, change = f.stepEarly(r, row, e, count, limit, weight)
	}
	row.closure = closure
	if change == policy.Closed {
		f.table.sides.putSteps(row, policy.Steps(f.table.sides.stepsOf(row), before, closure))
	}
	if closure.Nth > 0 && e.Time < closure.Until {
		f.noteOvershoot(r, row, e, change == policy.Closed, count.Total, limit, weight)
	}
	if change != policy.Same {
		f.changed(Change{
			Rule: r, Caller: schemas.Caller{Kind: r.Kind, ID: row.id}, Kind: change,
			Before: before, Closure: closure, Count: count, Limit: limit, At: e.Time, Offset: f.offset,
		}, i, row)
	}
}

// noteOvershoot notes by how much a closed caller is over its limit after an entry of a weight, and how much of that weight is over it.
func (f *Fold) noteOvershoot(r *rules.Rule, row *row, e *schemas.Entry, closes bool, total, limit, weight int64) {
	over := row.closure.Overshoot(r, limit)
	f.stats.Overshoot = max(f.stats.Overshoot, over)
	f.predict.Overshoot(int32(row.rule), row.id, row.closure, closes, limit, over, e.Time)
	if full := r.Window.Capacity(limit); total > full {
		f.counters[row.rule].tally(r.Mode).Over += uint64(min(total-full, max(weight, 0))) // 0 of a request that ends, or was blocked early
	}
}

// countClose counts a close in the statistics.
func (f *Fold) countClose(r *rules.Rule, rule int32) {
	f.stats.Closes++
	f.counters[rule].tally(r.Mode).Closes++
}

// changed notes a changed closure of a row, and adds the change to the list that TakeChanges returns.
func (f *Fold) changed(c Change, i uint32, row *row) {
	if c.Kind == policy.Closed {
		f.table.sides.forgetEarly(row)
		row.flag(closedByDemand, !c.Count.Full(c.At))
		if !c.GoesOn {
			f.countClose(c.Rule, int32(row.rule))
		}
		if row.since != never && c.Rule.Mode == schemas.ModeShadow {
			row.since = max(row.since, c.Closure.Until) // a shadow rule's counts depend on its closure
		}
	}
	f.toForecast = append(f.toForecast, changedRow{row: i, change: len(f.changes)})
	f.changes = append(f.changes, c)
	switch {
	case c.GoesOn:
	case c.Kind == policy.Opened:
		f.table.ends.forget(row)
	default:
		f.awaitEnd(row, c.Limit, c.Before.Until)
	}
}

// warn reports the highest share of the limit that this entry's weight crossed.
func (f *Fold) warn(r *rules.Rule, row *row, e *schemas.Entry, count window.Count, limit, weight int64) {
	share := policy.Warning(r, limit, count, weight)
	if share == 0 {
		return
	}
	f.stats.Warnings++
	f.counters[row.rule].tally(r.Mode).Warnings++
	f.changes = append(f.changes, Change{
		Rule: r, Caller: schemas.Caller{Kind: r.Kind, ID: row.id}, Warn: share,
		Closure: row.closure, Count: count, Limit: limit, At: e.Time, Offset: f.offset,
	})
}

// Changes returns the changes since TakeChanges was last called, and leaves them there. The slice is good until the next entry.
func (f *Fold) Changes() []Change { return f.changes }

// TakeChanges returns the changes since it was last called, in log order. The slice is good until the next entry.
func (f *Fold) TakeChanges() []Change {
	changes := f.changes
	f.changes = f.changes[:0]
	return changes
}

// awaitEnd notes that a row's closure will end. limit is that of the row's caller, and before is the end that the closure had until now. A
// late entry can make a closure that is already over. awaitEnd reports the end of such a closure at once, because the list of awaited ends
// is not stored.
func (f *Fold) awaitEnd(r *row, limit, before int64) {
	if f.opts.Ends && r.closure.Until <= f.table.now {
		f.reportEnd(r, limit, r.closure.Until)
		return
	}
	f.table.ends.await(r, before)
}

// reportEnd reports that a row's closure has ended at a time.
func (f *Fold) reportEnd(r *row, limit, at int64) {
	r.flags &^= hasEnd
	rule := f.rules.set.Rules[r.rule]
	f.changes = append(f.changes, Change{
		Rule: rule, Caller: schemas.Caller{Kind: rule.Kind, ID: r.id}, Ended: true, Closure: r.closure,
		Count: rule.Window.View(r.state, limit, at), Limit: limit, At: at, Offset: f.offset,
	})
}
