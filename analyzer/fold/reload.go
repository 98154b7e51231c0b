package fold

import (
	"math"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// SetRules changes the rules between two records. A rule with the name, kind and shape of an old one keeps the old counts, and its closures
// are computed again at once. The counts of all other rules start at zero, and callers that an old rule had closed open. The changes are
// added to what TakeChanges returns, sorted by rule and caller. Control records stay in force. A control record about a rule that did not
// exist before takes effect now.
//
// The fold's content depends on the offset at which the rules change. So that offset must be recorded before the fold goes on: an owner has
// it in the control topic, as a place.
func (f *Fold) SetRules(set *rules.Set) {
	old, oldLosses, counters := f.rules.set, f.table.losses.byRule, f.counters // old has the rules in the modes in which they counted
	from := f.table.takeAway()
	f.EndScan()
	f.predict.EndOvershoots()
	f.setRules(set)
	set = f.rules.set
	f.table.startOver()
	first := len(f.changes)
	moved := make([]int32, len(old.Rules))
	for i, r := range old.Rules {
		moved[i] = f.rules.index(r.Name)
		if to := moved[i]; to >= 0 && (set.Rules[to].Shape() != r.Shape() || set.Rules[to].Kind != r.Kind) {
			moved[i] = -1
		}
	}
	f.table.losses.move(oldLosses, old, moved, f.table.now)
	f.movePools(old, moved)
	for i, to := range moved {
		if to >= 0 {
			f.counters[to].goOn(&counters[i])
		}
	}
	from.rows.each(func(i uint32, r *row) bool {
		if to := moved[r.rule]; to >= 0 && set.Rules[to].Pattern.Match(r.id) {
			f.recompute(old.Rules[r.rule], i, r, to, &from)
		} else {
			f.table.endLasting(old.Rules[r.rule], i, r, &from, f.offset)
			f.abandon(old.Rules[r.rule], r)
		}
		return true
	})
	f.table.awaitEnds()
	f.findAbove()
	sortChanges(f.changes[first:])
}

// abandon drops a row whose rule was removed or no longer counts its caller. If the row is closed, it opens.
func (f *Fold) abandon(rule *rules.Rule, r *row) {
	f.table.removed.Add(AppendRowKey(nil, rule.Name, rule.Kind, r.id), r.stored)
	if r.closure.ClosedAt(f.table.now) {
		r.closure.Until = f.table.now
		f.reportDerived(rule, r, policy.Opened)
	}
}

// recompute moves a row to the rule at index to, and lets that rule decide.
func (f *Fold) recompute(before *rules.Rule, from uint32, r *row, to int32, old *movedRows) {
	rule := f.rules.set.Rules[to]
	i, row := f.table.insert(to, r.id)
	row.set(r.state)
	row.stored, row.closure, row.since = r.stored, r.closure, r.since
	if r.since != never && before.Fingerprint() != rule.Fingerprint() {
		row.since = max(r.since, f.table.now) // as for the losses of the rule
	}
	same := before.Fingerprint() == rule.Fingerprint()
	f.table.adopt(i, from, r, old, same) // not the same: the tracker may have announced a close under the old limit
	closed := r.closure
	if !same && rule.Measure != rules.InFlight && rule.Pool == nil {
		allowed, unlimited := LimitFor(rule, row.id) // by the rules alone: a control record cannot undo a close that has ended
		var steps []policy.Closure
		closed, steps = policy.Recount(rule, allowed, unlimited, closed, f.table.sides.stepsOf(row), f.table.now)
		f.table.sides.putSteps(row, steps)
	}
	limit, unlimited := f.rules.limitOf(rule, row)
	closure, change := policy.Derive(rule, limit, unlimited, row.flags&closedByDemand != 0, closed, f.table.sides.stepsOf(row), f.table.now,
		rule.Window.View(r.state, limit, f.table.now))
	row.closure = closure
	if change == policy.Closed {
		f.table.sides.putSteps(row, policy.Steps(f.table.sides.stepsOf(row), closed, closure))
	}
	if r.dirty || closure != r.closure {
		f.table.markDirty(i, row)
	}
	f.table.wheel.schedule(i, f.table.expiry(row))
	if change == policy.Same && before.Mode != rule.Mode && closure.ClosedAt(f.table.now) {
		change = policy.Moved // the same closure, but gates must learn its mode
	}
	if change != policy.Same {
		f.reportDerived(rule, row, change)
	}
	if !same {
		f.table.endLasting(before, from, row, old, f.offset)
	}
}

// reportDerived reports a change that no entry made.
func (f *Fold) reportDerived(rule *rules.Rule, r *row, kind policy.Transition) {
	limit, _ := f.rules.limitOf(rule, r)
	if kind == policy.Closed {
		f.table.sides.forgetEarly(r)
		r.flag(closedByDemand, false)
		f.countClose(rule, int32(r.rule))
		if r.since != never && rule.Mode == schemas.ModeShadow {
			r.since = max(r.since, r.closure.Until) // as in changed
		}
	}
	f.changes = append(f.changes, Change{
		Rule: rule, Caller: schemas.Caller{Kind: rule.Kind, ID: r.id}, Kind: kind, Closure: r.closure,
		Count: rule.Window.View(r.state, limit, f.table.now), Limit: limit, At: f.table.now, Offset: f.offset,
	})
	if kind == policy.Opened {
		r.flags &^= hasEnd | closeGoesOn
	} else {
		f.awaitEnd(r, limit, math.MaxInt64)
	}
}
