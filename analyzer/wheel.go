package analyzer

import (
	"math"
	"time"
)

// wheel says which rows may have expired. Each row is in one bucket: the minute of log time in which it might expire, as
// far as was known when it was put there. Rows are looked at when their minute has passed and put back if they live on,
// so that a row that is counted a million times an hour moves sixty times. The zero value is empty.
//
// Whether a row is there at a given log time depends on the log alone, not on the order in which rows were added.
type wheel struct {
	buckets map[int64][]uint32
	minute  int64 // the newest one reached; minutes before it are empty
	started bool
	turned  bool // whether the last call of due reached a new minute
}

func minuteOf(t int64) int64 {
	m := t / int64(time.Minute)
	if t%int64(time.Minute) < 0 {
		m--
	}
	return m
}

// schedule puts row into the bucket of at, in Unix nanoseconds; a row that never expires into none.
func (w *wheel) schedule(row uint32, at int64) {
	if at == math.MaxInt64 {
		return
	}
	if w.buckets == nil {
		w.buckets = make(map[int64][]uint32)
	}
	m := max(minuteOf(at)+1, w.minute+1)
	w.buckets[m] = append(w.buckets[m], row)
}

// due returns the rows whose minute has come at t, which are then in no bucket.
func (w *wheel) due(t int64) []uint32 {
	m := minuteOf(t)
	w.turned = !w.started || m > w.minute
	if !w.turned {
		return nil
	}
	passed := m - w.minute
	first := !w.started
	w.started = true
	var rows []uint32
	if !first && passed <= int64(len(w.buckets)) {
		for i := w.minute + 1; i <= m; i++ {
			rows = append(rows, w.buckets[i]...)
			delete(w.buckets, i)
		}
	} else {
		for i, bucket := range w.buckets {
			if i <= m {
				rows = append(rows, bucket...)
				delete(w.buckets, i)
			}
		}
	}
	w.minute = m
	return rows
}
