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
		f.forgetEarly(r)
		f.putSteps(r, nil)
		if r.beside&tracked != 0 {
			f.predict.Forget(i)
		}
	}
	f.table.remove(i)
}

// wheel says which rows may have expired. Each row is in one bucket: the minute of log time in which it might expire, as
// far as was known when it was put there. Rows are looked at when their minute has passed and put back if they live on,
// so that a row that is counted a million times an hour moves sixty times. The zero value is empty.
//
// Whether a row is there at a given log time depends on the log alone: not on the order in which rows were added, nor on
// when they were put into their buckets, as after a restart. A row is dropped at the first minute that log time reaches
// after the minute of its expiry, and not earlier, even if it is checked earlier.
type wheel struct {
	buckets map[int64][]uint32
	minute  int64 // the newest one reached; this one and those before it are empty
	started bool
}

func minuteOf(t int64) int64 {
	m := t / int64(time.Minute)
	if t%int64(time.Minute) < 0 {
		m--
	}
	return m
}

// start sets the minute that log time has reached. The wheel must be empty.
func (w *wheel) start(t int64) { w.minute, w.started = minuteOf(t), true }

// passed reports whether a row that expires at the given time, in Unix nanoseconds, is to be dropped now.
func (w *wheel) passed(at int64) bool { return w.started && minuteOf(at) < w.minute }

// schedule puts row into the bucket of at, in Unix nanoseconds; a row that never expires into none.
func (w *wheel) schedule(row uint32, at int64) {
	if at == math.MaxInt64 {
		return
	}
	if w.buckets == nil {
		w.buckets = make(map[int64][]uint32)
	}
	m := minuteOf(at) + 1
	if w.started {
		m = max(m, w.minute+1)
	}
	w.buckets[m] = append(w.buckets[m], row)
}

// turn moves to the minute of t. It returns the rows whose minute has come, which are then in no bucket, and whether
// the minute is a new one.
func (w *wheel) turn(t int64) (due []uint32, turned bool) {
	m := minuteOf(t)
	if w.started && m <= w.minute {
		return nil, false
	}
	if w.started && m-w.minute <= int64(len(w.buckets)) {
		for i := w.minute + 1; i <= m; i++ {
			due = append(due, w.buckets[i]...)
			delete(w.buckets, i)
		}
	} else {
		for i, bucket := range w.buckets {
			if i <= m {
				due = append(due, bucket...)
				delete(w.buckets, i)
			}
		}
	}
	w.minute, w.started = m, true
	return due, true
}
