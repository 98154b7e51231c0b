package fold

import (
	"math"

	"github.com/509da70d/floodgate/analyzer/hold"
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/rows"
)

// table holds the rows of a fold. It decides which callers have a row, when a row is dropped and who waits for one, and notes what is lost
// meanwhile. It decides nothing about closures. newTable makes one. One goroutine may use it.
type table struct {
	rowIndex

	rules   *inForce
	predict *predict.Predictor // learns which rows are dropped or moved
	ids     idHasher
	maxRows int
	noStore bool
	only    func(r *rules.Rule, id string) bool // Options.Only

	now     int64 // log time: the newest entry's, in Unix nanoseconds
	sides   sideTables
	losses  losses
	wheel   wheel
	waiting *waiting
	ends    ends
	scan    *Scan // the pass over the rows that is under way, or nil
	dirty   []uint32
	removed rows.Removed

	moves        uint64                  // how often all rows have moved because the rules changed
	next         uint32                  // the row that sweep looks at next
	staleBuckets int                     // rows that were dropped and are still in a bucket of the wheel
	credit       int                     // the credit for searches for a victim: see tryCost in admit.go
	random       integer.Random          // used by draw
	scratch      [window.MaxCoarse]int64 // a coarse state that is not kept yet

	displaced, expired uint64 // see Stats
}

func newTable(o Options, r *inForce, p *predict.Predictor) table {
	removed := make(rows.Removed)
	return table{
		rules: r, predict: p, ids: newIDHasher(), maxRows: o.MaxRows, noStore: o.NoStore, only: o.Only, now: math.MinInt64,
		losses:  losses{rules: r, removed: removed, noStore: o.NoStore},
		waiting: newWaiting(max(1, int(waitingShare*float64(o.MaxRows)))), ends: newEnds(o.Ends, r), removed: removed,
	}
}

// insert adds a row that the table does not hold.
func (t *table) insert(rule int32, id string) (uint32, *row) {
	i := t.add(rowHash(t.ids.hash(id), rule), rule, id)
	t.losses.byRule[rule].rows++
	row := t.row(i)
	t.rules.flagNew(row, t.rules.set.Rules[rule].Kind)
	return i, row
}

// drop removes a row, and deletes it from the store. The row may stay in a bucket of the wheel, which ignores it. If the row is marked, its
// rule notes the loss.
func (t *table) drop(i uint32, r *row) {
	if a := &t.losses.byRule[r.rule]; r.since != never && a.lost < min(t.expires(r), t.now) {
		a.lost = min(t.expires(r), t.now)
		t.losses.change(int32(r.rule))
	}
	t.noteDropped(i, r)
	t.removed.Add(AppendRowKey(nil, t.rules.set.Rules[r.rule].Name, t.rules.set.Rules[r.rule].Kind, r.id), r.stored)
	t.remove(i, r)
}

// remove frees a row, and removes what other tables hold of it.
func (t *table) remove(i uint32, r *row) {
	t.losses.byRule[r.rule].rows--
	if r.flags != 0 {
		t.sides.forgetEarly(r)
		t.sides.putSteps(r, nil)
		t.sides.putHold(r, nil)
		if r.flags&tracked != 0 {
			t.predict.Forget(i)
		}
	}
	t.free(i)
}

// expires returns the log time from which on nothing depends on a row any more.
func (t *table) expires(r *row) int64 {
	rule := t.rules.set.Rules[r.rule]
	at := max(rule.Window.Expiry(r.state), r.closure.Expiry(rule))
	if s := t.sides.holdOf(r); s != nil {
		at = max(at, s.Expiry())
	}
	return at
}

// expiry returns the log time at which a row is dropped, unless its place is needed earlier.
func (t *table) expiry(r *row) int64 {
	at := t.expires(r)
	if at > math.MaxInt64-int64(expirySlack) {
		return math.MaxInt64
	}
	return at + int64(expirySlack)
}

// closedAt reports whether the row is closed at the entry's time. It is for rules in shadow mode. An entry that merges requests from before
// and after the close counts whole. So for rules on trial, a log with merged entries and one without need not give the same counts.
func (t *table) closedAt(hash uint64, rule int32, e *schemas.Entry) bool {
	i, ok := t.find(hash, rule, e.ID)
	return ok && t.row(i).closure.ClosedAt(e.Time)
}

// knows reports whether an entry's caller has a row. If it has one, its partition was checked when the row was made.
func (t *table) knows(e *schemas.Entry, hash uint64) bool {
	for k := range t.rules.kinds {
		if t.rules.kinds[k].kind == e.Kind {
			rule := t.rules.kinds[k].rules[0]
			_, ok := t.find(rowHash(hash, rule), rule, e.ID)
			return ok
		}
	}
	return false
}

// flagRows notes in the rows of a caller whether there are control records about it.
func (t *table) flagRows(c schemas.Caller, is bool) {
	id := t.ids.hash(c.ID)
	for _, rule := range t.rules.ofKind(c.Kind) {
		if i, ok := t.find(rowHash(id, rule), rule, c.ID); ok {
			t.row(i).flag(hasRecords, is)
		}
	}
}

// early returns the early weight of a row that counts at a time, in a window that holds count. A bucket has drained a part of it by then,
// which is subtracted.
func (t *table) early(r *rules.Rule, row *row, limit, at int64, count window.Count) int64 {
	d := t.sides.earlyOf(row)
	if d == nil {
		return 0
	}
	slot := earlySlot(r)
	live := d.as(slot, at, count.Start)
	weight := live.total()
	if r.Window.Traits().Endless {
		since := max(0, at-(live.newest-earlySlots+1)*slot)
		weight -= min(weight, 1+int64(float64(since)/float64(r.Window.Length(0))*float64(limit)))
	}
	return weight
}

// liveEarly returns the part of a row's early weight that counts at a time, or nil if there is none. When the row's own window is over,
// nothing counts, because the row may have been dropped by then.
func (t *table) liveEarly(r *row, d *earlyWeight, at int64) *earlyWeight {
	rule := t.rules.set.Rules[r.rule]
	limit, _ := t.rules.limitOf(rule, r)
	live := d.as(earlySlot(rule), at, rule.Window.View(r.state, limit, at).Start)
	if live.total() == 0 || rule.Window.Expiry(r.state) <= at {
		return nil
	}
	return &live
}

// markDirty puts a row on the list of the next checkpoint.
func (t *table) markDirty(i uint32, r *row) {
	if !r.dirty && !t.noStore {
		r.dirty = true
		t.dirty = append(t.dirty, i)
	}
}

// encode appends the key and the value of a row to dst. The free capacity of dst stays behind the value.
func (t *table) encode(dst []byte, r *row) (key, value []byte) {
	v := t.stored(r)
	return encodeRow(dst, t.rules.set.Rules[r.rule], r.id, &v)
}

// stored returns a row as it is stored.
func (t *table) stored(r *row) StoredRow {
	return StoredRow{
		Closure: r.closure, State: r.state, shape: t.rules.set.Rules[r.rule].Shape(), since: r.since,
		early: t.sides.earlyOf(r), byDemand: r.flags&closedByDemand != 0, steps: t.sides.stepsOf(r),
		hold: t.sides.holdOf(r), goesOn: r.flags&closeGoesOn != 0,
	}
}

// movedRows is rows that get new indexes, and what other tables hold of them.
type movedRows struct {
	rows     rowIndex
	sides    sideTables
	trackers *predict.Moved
}

// takeAway empties the table and returns its rows. The caller inserts those that stay, and must fill the wheel again after that.
func (t *table) takeAway() movedRows {
	m := movedRows{t.rowIndex, t.sides, t.predict.Move()}
	t.rowIndex, t.sides, t.dirty, t.next = rowIndex{}, sideTables{}, nil, 0
	return m
}

// startOver removes all that was kept for the rows of the old rules. Call it after takeAway, when the rules change.
func (t *table) startOver() {
	t.moves++
	t.wheel.clear()
	t.losses.changed = nil
	t.waiting.clear()
	t.staleBuckets = 0
}

// adopt gives row i what other tables hold of the row from, which had the index before. It gives the tracker only if tracksOn is set.
func (t *table) adopt(i, before uint32, from *row, m *movedRows, tracksOn bool) {
	to := t.row(i)
	to.flag(closedByDemand, from.flags&closedByDemand != 0)
	if d := m.sides.earlyWeights[from]; d != nil {
		t.sides.putEarly(to, d)
	}
	t.sides.putSteps(to, m.sides.steps[from])
	to.flag(closeGoesOn, from.flags&closeGoesOn != 0)
	held, changed := hold.Under(t.rules.set.Rules[to.rule].Hold, m.sides.holds[from])
	if t.sides.putHold(to, held); changed {
		t.markDirty(i, to)
	}
	to.flag(tracked, tracksOn && t.predict.Adopt(i, m.trackers, before))
}

// takeRow sets a row to a stored value. changed reports whether it differs from that, because the terms of its rule have changed.
func (t *table) takeRow(r *row, v *StoredRow) (changed bool) {
	r.set(v.State)
	r.closure, r.since = v.Closure, v.since
	t.sides.forgetEarly(r)
	r.flag(closedByDemand, v.byDemand)
	if v.early != nil {
		t.sides.putEarly(r, v.early)
	}
	t.sides.putSteps(r, v.steps)
	r.flag(closeGoesOn, v.goesOn)
	held, changed := hold.Under(t.rules.set.Rules[r.rule].Hold, v.hold)
	t.sides.putHold(r, held)
	return changed
}

// advance moves log time forward. If a new minute has begun, it drops expired rows and returns true.
func (t *table) advance(now int64) bool {
	t.now = now
	due, turned := t.wheel.turn(now)
	for _, i := range due {
		r := t.row(i)
		if r.rule < 0 {
			continue // it was removed, and is in this bucket still
		}
		if at := t.expiry(r); !t.wheel.passed(at) {
			t.wheel.schedule(i, at)
			continue
		}
		t.drop(i, r)
		t.expired++
	}
	if turned {
		t.waiting.sweep(len(t.waiting.callers), t.waiterExpired)
	}
	return turned
}

// awaitEnds makes the list of closures that have not ended at log time anew.
func (t *table) awaitEnds() {
	t.ends.Clear()
	if !t.ends.on {
		return
	}
	t.each(func(_ uint32, r *row) bool {
		r.flags &^= hasEnd
		if r.closure.Nth > 0 && t.now < t.ends.endOf(r) {
			t.ends.await(r, 0)
		}
		return true
	})
}

// predictRow returns a row as package predict reads it.
func (t *table) predictRow(i uint32) predict.Row {
	r := t.row(i)
	v := t.predictUnder(t.rules.set.Rules[r.rule], r)
	v.ByRecord = r.flags&hasRecords != 0 && t.rules.closedByRecord(v.Rule.Kind, r.id)
	if r.flags&hasEarly != 0 {
		v.Early = t.early(v.Rule, r, v.Limit, t.now, v.Rule.Window.View(r.state, v.Limit, t.now))
	}
	return v
}

// predictUnder returns a row as package predict reads it, under a rule that need not be the row's present rule.
func (t *table) predictUnder(rule *rules.Rule, r *row) predict.Row {
	limit, unlimited := t.rules.limitOf(rule, r)
	return predict.Row{
		Rule: rule, ID: r.id, State: r.state, Closure: r.closure, Limit: limit, Unlimited: unlimited, Hold: t.sides.holdOf(r),
	}
}

// endLasting ends the share that gates hold of a row whose rule was removed or changed, and the closure by its requests in flight. from is
// the row's index under the old rules.
func (t *table) endLasting(rule *rules.Rule, from uint32, r *row, old *movedRows, offset int64) {
	v := t.predictUnder(rule, r)
	t.predict.EndLasting(old.trackers, from, &v, t.now, offset)
}

// restoreRecord puts a control record back, as override.Records.Restore does.
func (t *table) restoreRecord(key, value []byte, stored uint64) error {
	effects, err := t.rules.records.Restore(key, value, stored, t.now)
	for _, e := range effects {
		if e.Record.Action == schemas.ControlMode {
			t.rules.set = t.rules.records.Shadows(t.rules.file)
		} else {
			t.flagRows(e.Record.Caller, e.After.Len() > 0)
		}
	}
	return err
}

// noteStaleBucket notes that a dropped row is still in its bucket of the wheel, whose time may be months ahead. When more than MaxRows/2
// such rows are left, it fills all buckets again.
func (t *table) noteStaleBucket() {
	t.staleBuckets++
	if t.staleBuckets > t.maxRows/2 {
		t.reschedule()
	}
}

// reschedule puts each row into exactly one bucket of the wheel, and lists the ends of all closures again.
func (t *table) reschedule() {
	t.staleBuckets = 0
	t.wheel.clear()
	t.each(func(i uint32, r *row) bool {
		t.wheel.schedule(i, t.expiry(r))
		return true
	})
	t.awaitEnds()
}

// compact renumbers the rows without gaps, so that draws find rows in use. The caller must fill the wheel again after it.
func (t *table) compact() {
	old := t.takeAway()
	old.rows.each(func(from uint32, r *row) bool {
		i := t.add(rowHash(t.ids.hash(r.id), int32(r.rule)), int32(r.rule), r.id)
		to := t.row(i)
		to.flag(hasRecords, r.flags&hasRecords != 0)
		to.set(r.state)
		to.closure, to.since = r.closure, r.since
		t.adopt(i, from, r, &old, true)
		if to.stored = r.stored; r.dirty {
			t.markDirty(i, to)
		}
		return true
	})
}
