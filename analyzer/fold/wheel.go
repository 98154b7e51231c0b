package fold

import (
	"maps"
	"math"
	"slices"
	"time"
)

// expirySlack is how long a row is kept when nothing depends on it any more. A late entry still finds the row in that time, so that it is
// known to be late.
const expirySlack = 10 * time.Minute

// wheel says which rows may have expired. Each row is in the bucket of a minute of log time: the one in which it may expire, as far as was
// known when the row was put there. When the minute of a bucket has passed, its rows are checked, and those that have not expired are put
// into a later bucket. So a row that is counted a million times an hour moves sixty times. The zero value is empty.
//
// Whether a row exists at a given log time depends on the log alone. It does not depend on the order in which rows were added, nor on when
// they were put into their buckets, as after a restart. A row is dropped at the first minute that log time reaches after the minute of its
// expiry, and not earlier, even if it is checked earlier.
type wheel struct {
	buckets map[int64][]uint32
	minute  int64 // the newest minute that log time has reached; its bucket and those before it are empty
	started bool
}

func minuteOf(t int64) int64 {
	m := t / int64(time.Minute)
	if t%int64(time.Minute) < 0 {
		m--
	}
	return m
}

// clear takes all rows out of their buckets.
func (w *wheel) clear() { w.buckets = nil }

// start sets the minute that log time has reached. The wheel must be empty.
func (w *wheel) start(t int64) { w.minute, w.started = minuteOf(t), true }

// passed reports whether a row that expires at the given time, in Unix nanoseconds, must be dropped now.
func (w *wheel) passed(at int64) bool { return w.started && minuteOf(at) < w.minute }

// schedule puts a row into the bucket of at, in Unix nanoseconds. A row that never expires gets no bucket.
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

// turn moves to the minute of t. It takes the rows whose minute has passed out of their buckets and returns them, the oldest minute first:
// which row a newcomer gets follows from that order. turned reports whether the minute is a new one.
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
		for _, i := range slices.Sorted(maps.Keys(w.buckets)) {
			if i <= m {
				due = append(due, w.buckets[i]...)
				delete(w.buckets, i)
			}
		}
	}
	w.minute, w.started = m, true
	return due, true
}
