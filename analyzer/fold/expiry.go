package fold

import (
	"math"
	"time"
)

// expirySlack is how long a row is kept after nothing depends on it any more. Entries that are late by less than that still find
// it, so that they are known to be late.
const expirySlack = 10 * time.Minute

// expires returns the log time from which on nothing depends on a row.
func (f *Fold) expires(r *row) int64 {
	rule := f.set.Rules[r.rule]
	return max(rule.Window.Expiry(r.state), r.closure.Expiry(rule))
}

// expiry returns the log time at which a row is dropped, if its room is not needed earlier.
func (f *Fold) expiry(r *row) int64 {
	at := f.expires(r)
	if at > math.MaxInt64-int64(expirySlack) {
		return math.MaxInt64
	}
	return at + int64(expirySlack)
}

// Advance moves log time forward, ends the control records whose time is over then, and drops what has expired at each full minute.
func (f *Fold) Advance(t int64) {
	if t <= f.now {
		return
	}
	if t >= f.records.NextEnd() {
		f.expireRecords(t)
	}
	if f.ends.due(t) {
		f.reportEnds(t)
	}
	f.now = t
	due, turned := f.wheel.turn(t)
	if !turned {
		return
	}
	for _, i := range due {
		r := f.table.row(i)
		if r.rule < 0 {
			continue // it was removed, and is in this bucket still
		}
		if at := f.expiry(r); !f.wheel.passed(at) {
			f.wheel.schedule(i, at)
			continue
		}
		f.drop(i, r)
		f.stats.Expired++
	}
	f.dedupe.expire(t)
	f.waiting.sweep(len(f.waiting.callers), f.waiterExpired)
}

// drop removes a row, and deletes it from the store. The row may stay in a bucket of the wheel, which ignores it. The
// mark of a marked row becomes one of its rule.
func (f *Fold) drop(i uint32, r *row) {
	if a := &f.accounts[r.rule]; r.since != never && a.lost < min(f.expires(r), f.now) {
		a.lost = min(f.expires(r), f.now)
		f.lossChanged(int32(r.rule))
	}
	f.noteDropped(i, r)
	f.removed.Add(AppendRowKey(nil, f.set.Rules[r.rule].Name, f.set.Rules[r.rule].Kind, r.id), r.stored)
	f.remove(i, r)
}

// insert adds a row that the table does not hold; remove frees one.
func (f *Fold) insert(rule int32, id string) (uint32, *row) {
	i := f.table.insert(rowHash(f.ids.hash(id), rule), rule, id)
	f.accounts[rule].rows++
	row := f.table.row(i)
	f.flagNew(row, f.set.Rules[rule].Kind)
	return i, row
}

func (f *Fold) remove(i uint32, r *row) {
	f.accounts[r.rule].rows--
	if r.beside != 0 {
		f.forgetDemand(r)
		f.putSteps(r, nil)
		if r.beside&tracked != 0 {
			f.predict.Forget(i)
		}
	}
	f.table.remove(i)
}
