package fold

import (
	"cmp"
	"slices"
	"strings"

	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// Control applies a record of the control topic, which pb.DecodeControl has checked, between two records of requests[p]. from is the next
// offset of requests[p] to fold. offset is that of the record in the control topic: it orders records by age. The owner gives the fold only
// records about callers of its partition, and Global ones. It must note the place, because the fold's content depends on it. The changes
// are added to what TakeChanges returns.
//
// A record whose id is known changes nothing. Nor does a record that undoes one that is not known. In both cases the error is nil. A record
// that is refused changes nothing either; Stats counts it by reason (see override.Reason).
func (f *Fold) Control(c *schemas.Control, from, offset int64) error {
	f.offset = max(from-1, 0)
	e, err := f.rules.records.Apply(c, from, offset, f.table.now)
	f.apply(&e)
	return err
}

// expireRecords ends the control records whose time is over at log time t, in the order of their ends. Each ends at its own time, so that
// the result does not depend on when the next entry comes.
func (f *Fold) expireRecords(t int64) {
	for {
		e, end, ok := f.rules.records.Expire(t)
		if !ok {
			return
		}
		f.table.now = max(f.table.now, end)
		f.apply(&e)
	}
}

// apply changes the rows by the effect of a control record.
func (f *Fold) apply(e *override.Effect) {
	switch {
	case e.Record == nil:
	case e.Record.Action == schemas.ControlReset:
		f.reset(&e.Record.Control)
	case e.Record.Action == schemas.ControlMode:
		f.modesChanged(e)
	default:
		f.callerChanged(e)
	}
}

// callerChanged applies a change of the records in force about a caller.
func (f *Fold) callerChanged(e *override.Effect) {
	caller := e.Record.Caller
	if c, changed := f.rules.closureChange(e, f.table.now); changed && (f.opts.Ends || !c.Ended) {
		c.Offset = f.offset
		f.changes = append(f.changes, c)
	}
	for _, rule := range f.rules.ofKind(caller.Kind) {
		if f.rules.set.Rules[rule].Pattern.Match(caller.ID) {
			f.limitChanged(caller, rule, e)
		}
	}
}

// closureChange returns how the effect changes the closure that records give the caller, or false if it does not.
func (s *inForce) closureChange(e *override.Effect, now int64) (Change, bool) {
	caller := e.Record.Caller
	before, ruleBefore := s.records.Closure(caller.Kind, e.Before, s.records.Modes())
	after, rule := s.records.Closure(caller.Kind, e.After, s.records.Modes())
	c := Change{Rule: rule, Caller: caller, Kind: policy.Moved, Before: before, Closure: after, At: after.CloseAt}
	switch {
	case after == before && (rule.Mode == ruleBefore.Mode || after.Nth == 0):
		return c, false
	case before.Nth == 0:
		c.Kind = policy.Closed
	case after.Nth == 0 && before.Until <= now: // it is over
		return Change{Rule: ruleBefore, Caller: caller, Ended: true, Closure: before, At: before.Until}, true
	case after.Nth == 0:
		c.Rule, c.Kind, c.Closure, c.At = ruleBefore, policy.Opened, before, before.CloseAt
		c.Closure.Until = before.CloseAt
	}
	return c, true
}

// limitChanged lets a rule decide again about a caller whose limit may have changed.
func (f *Fold) limitChanged(caller schemas.Caller, rule int32, e *override.Effect) {
	def := f.rules.set.Rules[rule]
	i, ok := f.table.find(rowHash(f.table.ids.hash(caller.ID), rule), rule, caller.ID)
	var row *row
	if ok {
		row = f.table.row(i)
		row.flag(hasRecords, e.After.Len() > 0)
	}
	limitBefore, unlimitedBefore := f.rules.limitBy(e.Before, def, caller.ID)
	limit, unlimited := f.rules.limitBy(e.After, def, caller.ID)
	if limit == limitBefore && unlimited == unlimitedBefore {
		return
	}
	if f.table.losses.byRule[rule].lost != never {
		f.table.losses.lose(rule, 0, f.table.now) // how long a loss matters depends on limits
	}
	if !ok {
		return
	}
	if row.since != never {
		row.since = max(row.since, f.table.now)
		f.table.markDirty(i, row)
	}
	closure, change := policy.Derive(def, limit, unlimited, row.flags&closedByDemand != 0, row.closure, f.table.sides.stepsOf(row), f.table.now,
		def.Window.View(row.state, limit, f.table.now))
	if change == policy.Closed {
		f.table.sides.putSteps(row, policy.Steps(f.table.sides.stepsOf(row), row.closure, closure))
	}
	if closure != row.closure {
		row.closure = closure
		f.table.markDirty(i, row)
		f.table.wheel.schedule(i, f.table.expiry(row)) // a second time: the first may be too late now
		f.table.noteStaleBucket()
	}
	switch {
	case change == policy.Opened && e.ByPerson:
		f.openedByPerson(def, row)
	case change != policy.Same:
		f.reportDerived(def, row, change)
	}
	f.predict.End(i, f.table.now, f.offset)
}

// modesChanged applies a change of the mode records in force. It reports each closure whose mode changes, so that gates learn the new mode.
func (f *Fold) modesChanged(e *override.Effect) {
	before := f.rules.set
	f.rules.set = f.rules.records.Shadows(f.rules.file)
	first := len(f.changes)
	differs, some := make([]bool, len(f.rules.set.Rules)), false
	for i, r := range f.rules.set.Rules {
		differs[i] = r.Mode != before.Rules[i].Mode
		some = some || differs[i]
		if differs[i] && f.table.losses.byRule[i].lost != never {
			f.table.losses.lose(int32(i), 0, f.table.now) // i < rules.MaxRules. How long a loss matters depends on the mode
		}
	}
	if some {
		f.table.each(func(i uint32, r *row) bool {
			if differs[r.rule] {
				f.modeChanged(i, r)
			}
			return true
		})
	}
	for caller, l := range f.rules.records.Callers() {
		_, ruleBefore := f.rules.records.Closure(caller.Kind, l, e.Before)
		c, rule := f.rules.records.Closure(caller.Kind, l, e.After)
		if c.Nth > 0 && rule.Mode != ruleBefore.Mode {
			f.changes = append(f.changes, Change{
				Rule: rule, Caller: caller, Kind: policy.Moved, Before: c, Closure: c, At: c.CloseAt, Offset: f.offset,
			})
		}
	}
	sortChanges(f.changes[first:])
}

// modeChanged handles the new mode of a row's rule. If the row is closed, it reports the closure, so that gates learn its mode.
func (f *Fold) modeChanged(i uint32, r *row) {
	rule := f.rules.set.Rules[r.rule]
	if r.since != never {
		r.since = max(r.since, f.table.now)
		f.table.markDirty(i, r)
	}
	if r.closure.ClosedAt(f.table.now) {
		f.reportDerived(rule, r, policy.Moved) // the same closure, but gates must learn its mode
	}
	f.predict.End(i, f.table.now, f.offset)
}

// reset drops a caller's rows, and opens the closures that they had.
func (f *Fold) reset(c *schemas.Control) {
	id := f.table.ids.hash(c.Caller.ID)
	for _, rule := range f.rules.ofKind(c.Caller.Kind) {
		def := f.rules.set.Rules[rule]
		if c.Rule != "" && c.Rule != def.Name {
			continue
		}
		hash := rowHash(id, rule)
		if w, waits := f.table.waiting.find(hash, rule); waits {
			f.table.waiting.remove(w)
		}
		i, ok := f.table.find(hash, rule, c.Caller.ID)
		if !ok {
			continue
		}
		row := f.table.row(i)
		if row.closure.Nth > 0 && f.table.now < row.closure.Until {
			row.closure.Until = f.table.now
			f.openedByPerson(def, row)
		}
		f.predict.End(i, f.table.now, f.offset)
		f.table.noteDropped(i, row)
		f.table.removed.Add(AppendRowKey(nil, def.Name, def.Kind, row.id), row.stored)
		f.table.remove(i, row)
		f.table.noteStaleBucket()
	}
}

// openedByPerson reports that a person has opened a row. The reported closure ends when it began, so that gates open without delay.
func (f *Fold) openedByPerson(rule *rules.Rule, r *row) {
	f.reportDerived(rule, r, policy.Opened)
	c := &f.changes[len(f.changes)-1].Closure // an opening is the last change
	c.Until = min(c.Until, c.CloseAt)
}

// sortChanges sorts changes that no entry made, by rule and caller.
func sortChanges(list []Change) {
	slices.SortFunc(list, func(a, b Change) int {
		return cmp.Or(strings.Compare(a.Rule.Name, b.Rule.Name), strings.Compare(a.Caller.Kind, b.Caller.Kind),
			strings.Compare(a.Caller.ID, b.Caller.ID))
	})
}
