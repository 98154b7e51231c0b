package fold

import (
	"github.com/509da70d/floodgate/analyzer/hold"
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

// This file counts for rules whose responses count when their requests arrived: costs with charge: arrival, and requests in flight.

// countByArrival adds an entry to the window of such a rule. A window that is over closes nobody: the policy decides by the present one.
func (f *Fold) countByArrival(r *rules.Rule, rule int32, e *schemas.Entry, hash uint64, blocked, wouldBlock bool) {
	if !e.Response || !r.FollowsRequests() {
		f.counters[rule].countRequests(r.Mode, uint64(e.Count), blocked, wouldBlock)
	}
	if !blocked {
		f.counters[rule].use.followed.note(e, f.table.now)
	}
	weight := r.Weight(e, blocked)
	at, timed := e.Time, e.Arrived > 0 && !blocked
	if e.Response {
		at, timed = hold.ArrivedAt(e)
	}
	if weight == 0 && (r.Hold == nil || !timed) {
		if blocked && (!e.Response || !r.FollowsRequests()) {
			f.refuse(r, rule, e, hash)
		}
		return
	}
	i, known := f.table.find(hash, rule, e.ID)
	limit, unlimited := f.limitOfEntry(r, i, known, e.ID)
	if !known {
		n := newcomer{r: r, rule: rule, hash: hash, id: e.ID, at: at, limit: limit, unlimited: unlimited, weight: weight}
		var admitted bool
		if i, admitted = f.table.admit(&n); !admitted {
			return
		}
	}
	row := f.table.row(i)
	if row.since != never && !row.keepsMark(r, limit, at) {
		row.since = never
	}
	if row.flags&closeGoesOn != 0 && r.Window.Expiry(row.state) <= e.Time {
		row.flag(closeGoesOn, false) // a fold may have dropped the row
	}
	state, added := r.Window.Add(row.state, limit, at, weight)
	row.state = state
	if r.Hold != nil && timed {
		f.follow(r.Hold, row, e, at, limit)
	}
	if !known {
		f.table.wheel.schedule(i, f.table.expiry(row))
	}
	f.table.markDirty(i, row)
	if added.Place == window.Late {
		f.stats.Late += uint64(max(weight, 0))
	}
	if !unlimited {
		f.stepByArrival(r, i, row, e, added, limit, weight)
	}
}

// stepByArrival decides after an entry that was added to a window, which need not be the present one.
func (f *Fold) stepByArrival(r *rules.Rule, i uint32, row *row, e *schemas.Entry, added window.Count, limit, weight int64) {
	count := r.Window.View(row.state, limit, e.Time)
	if added.Place == window.Newest && added.Start == count.Start {
		f.warn(r, row, e, count, limit, weight)
	}
	if r.Measure == rules.InFlight {
		f.stepInFlight(r, i, row, e, count, limit, weight)
		return
	}
	if !row.staysOpen(count, e.Time) {
		f.step(r, i, row, e, count, limit, weight)
	}
	if r.Hold != nil && f.counters[row.rule].holds {
		f.observeHold(r, i, row, e, limit)
	}
}

// follow notes that requests have begun or ended. at is when they arrived.
func (f *Fold) follow(t *hold.Terms, row *row, e *schemas.Entry, at, limit int64) {
	s := f.table.sides.holdOf(row)
	if s == nil {
		s = hold.New(t)
		f.table.sides.putHold(row, s)
	}
	if e.Response {
		s.End(t, e, at, limit)
	} else {
		s.Arrive(t, e)
	}
}

// observeHold tells the predictor what a row's limit has left. Arrivals are its demand.
func (f *Fold) observeHold(r *rules.Rule, i uint32, row *row, e *schemas.Entry, limit int64) {
	room := f.table.room(r, row, limit, f.table.now)
	weight := int64(0)
	if !e.Response {
		weight = integer.MulDiv(room.Mean, int64(e.Count), 1)
	}
	row.flag(tracked, f.predict.Followed(&predict.Sent{
		Row: i, Rule: r, Limit: limit, Weight: weight, At: e.Time, Now: f.table.now, Near: 2*room.Left <= limit,
	}))
}

// refuseHeld tells the predictor of a request that was blocked while its caller was held: it is demand.
func (f *Fold) refuseHeld(r *rules.Rule, rule int32, e *schemas.Entry, hash uint64) {
	i, known := f.table.find(hash, rule, e.ID)
	if !known {
		return
	}
	if row := f.table.row(i); row.flags&tracked != 0 {
		limit, _ := f.rules.limitOf(r, row)
		weight := integer.MulDiv(f.table.room(r, row, limit, f.table.now).Mean, int64(e.Count), 1)
		row.flag(tracked, f.predict.RefusedHeld(&predict.Sent{Row: i, Rule: r, Weight: weight, At: e.Time, Now: f.table.now}))
	}
}

// room returns what a row's limit has left at a time.
func (t *table) room(r *rules.Rule, row *row, limit, at int64) hold.Room {
	s := t.sides.holdOf(row)
	if s == nil {
		s = hold.New(r.Hold)
	}
	count := r.Window.View(row.state, limit, at)
	return s.Room(r.Hold, limit, count.Total, count.Start, at)
}

// stepInFlight lets the policy decide on a request that has begun or ended. The caller is closed while as many requests are in flight as the
// limit says. A close goes on while half of them are, also if the caller opens meanwhile.
func (f *Fold) stepInFlight(r *rules.Rule, i uint32, row *row, e *schemas.Entry, count window.Count, limit, weight int64) {
	before, wentOn := row.closure, row.flags&closeGoesOn != 0
	closure, change, goesOn := policy.StepInFlight(before, wentOn, e.Time, limit, count.Total-max(weight, 0), count)
	over := !goesOn && (wentOn || change == policy.Opened)
	if over && change == policy.Closed { // what was in flight was forgotten
		f.endInFlight(row, limit, e.Time)
	}
	row.closure = closure
	row.flag(closeGoesOn, goesOn)
	if closure.ClosedAt(e.Time) {
		f.noteOvershoot(r, row, e, change == policy.Closed, count.Total, limit, weight)
	}
	if change != policy.Same {
		f.changed(Change{
			Rule: r, Caller: schemas.Caller{Kind: r.Kind, ID: row.id}, Kind: change, Before: before, Closure: closure, Count: count, Limit: limit,
			GoesOn: change == policy.Opened || change == policy.Moved && before.Until <= e.Time, At: e.Time, Offset: f.offset,
		}, i, row)
	}
	switch {
	case goesOn:
		f.table.ends.await(row, 0)
	case over && change != policy.Closed:
		f.endInFlight(row, limit, e.Time)
	}
}

// endInFlight reports that a close of requests in flight is over at the time of an entry, unless that was reported.
func (f *Fold) endInFlight(row *row, limit, at int64) {
	if row.flags&hasEnd != 0 {
		f.table.ends.forget(row)
		f.reportEnd(row, limit, at)
	}
}
