package policy

import (
	"math"
	"time"

	"github.com/509da70d/floodgate/analyzer/integer"
)

// Meter counts weight by slots of time, and forgets all but the newest of them. The zero value has counted nothing.
type Meter struct {
	newest  int64 // the number of the newest slot, since 1970-01-01
	weights [meterSlots]uint32
}

const meterSlots = 8

// add adds weight at t.
func (m *Meter) add(slot, t, weight int64) {
	n := integer.FloorDiv(t, slot)
	if n > m.newest {
		m.shift(n)
	}
	if i := m.newest - n; i < meterSlots {
		m.weights[i] = uint32(min(int64(m.weights[i])+weight, math.MaxUint32))
	}
}

func (m *Meter) shift(n int64) {
	by := n - m.newest
	for i := int64(meterSlots) - 1; i >= 0; i-- {
		if m.weights[i] = 0; i >= by {
			m.weights[i] = m.weights[i-by]
		}
	}
	m.newest = n
}

// sum returns the weight that was counted from one time until another; both are multiples of the slot. ok is false if some of it is
// forgotten.
func (m *Meter) sum(slot, from, until int64) (sum int64, ok bool) {
	first, end := from/slot, until/slot
	if first <= m.newest-meterSlots {
		return 0, false
	}
	for n := first; n < end; n++ {
		if i := m.newest - n; i >= 0 {
			sum += int64(m.weights[i])
		}
	}
	return sum, true
}

// rate returns the mean over the slot that t lies in and the given number of slots before it, in thousandths of weight a second.
func (m *Meter) rate(slot, slots, t int64) int64 {
	n := integer.FloorDiv(t, slot)
	first, sum := n-slots, int64(0)
	for i := range int64(meterSlots) {
		if m.newest-i >= first {
			sum += int64(m.weights[i])
		}
	}
	return integer.MulDiv(sum*1000, int64(time.Second), max(1, t-first*slot))
}

// admittedByInterval counts admitted weight by intervals from one renewal of a share to the next: for the newest interval, and for the one
// before it.
type admittedByInterval struct {
	number      int64 // of the newest interval
	now, before uint32
}

// add adds weight at t, and reports whether a new interval has begun.
func (u *admittedByInterval) add(every, t, weight int64) (newInterval bool) {
	n := integer.FloorDiv(t, every)
	if newInterval = n > u.number; newInterval {
		if u.before = 0; n == u.number+1 {
			u.before = u.now
		}
		u.number, u.now = n, 0
	}
	to := &u.now
	if n < u.number {
		to = &u.before
	}
	if n < u.number-1 {
		return false
	}
	*to = uint32(min(int64(*to)+weight, math.MaxUint32))
	return newInterval
}
