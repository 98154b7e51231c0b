package window

import (
	"math"
	"strconv"
	"time"

	"github.com/509da70d/floodgate/analyzer/integer"
)

const nameFixed = "fixed"

// NewFixed returns windows that start at the multiples of length since the Unix epoch. It panics if length is not
// positive.
func NewFixed(length time.Duration) Algorithm { return fixed{length: nanoseconds(length)} }

// grace is how long after the end of a window its entries still count, in nanoseconds of log time. Servers' clocks differ and
// their logs arrive in turns: the first entry of a window comes from the server whose clock is ahead, while others still send
// entries of the window before.
const grace = int64(2 * time.Second)

// fixed keeps {index of the newest window, its weight}. In the first grace of the window, a third integer is the weight of the window
// before, whose entries still count then. Where a window starts and ends is computed from its index.
type fixed struct{ length int64 }

func (f fixed) Add(s State, limit, t, weight int64) (State, Count) {
	if weight <= 0 {
		return s, f.View(s, limit, t)
	}
	index := integer.FloorDiv(t, f.length)
	switch {
	case len(s) == 0:
		s = append(s, index, weight, 0)
	case index == s[0]:
		s[1] = add(s[1], weight)
	case index < s[0]:
		if f.past(s, index) {
			s[2] = add(s[2], weight)
		}
		return s, f.older(s, index, limit, t)
	case since(index, s[0]) == 1:
		s = append(s[:0], index, weight, s[1])
	default:
		s = append(s[:0], index, weight, 0)
	}
	c := f.count(index, s[1], limit, t)
	if len(s) == 3 && since(t, c.Start) >= uint64(f.grace()) {
		s = s[:2]
	}
	return s, c
}

func (f fixed) View(s State, limit, t int64) Count {
	index := integer.FloorDiv(t, f.length)
	switch {
	case len(s) == 0 || index > s[0]:
		return f.count(index, 0, limit, t)
	case index == s[0]:
		return f.count(index, s[1], limit, t)
	}
	return f.older(s, index, limit, t)
}

// grace is no longer than a window, so that never more than one before the newest counts.
func (f fixed) grace() int64 { return min(grace, f.length) }

// past reports whether index is that of the window before the newest one, and entries of that window still count. index is less than
// the newest.
func (f fixed) past(s State, index int64) bool { return len(s) == 3 && since(s[0], index) == 1 }

// older returns the count for an entry whose window is older than the newest.
func (f fixed) older(s State, index, limit, t int64) Count {
	if f.past(s, index) {
		c := f.count(index, s[2], limit, t)
		c.Place = Past
		return c
	}
	c := f.count(s[0], s[1], limit, t)
	c.Place = Late
	return c
}

func (f fixed) count(index, total, limit, t int64) Count {
	c := Count{Total: total, Start: mul(index, f.length), Until: t}
	if total >= max(limit, 1) {
		c.Until = f.end(index)
	}
	return c
}

func (f fixed) Expiry(s State) int64 {
	if len(s) == 0 {
		return math.MinInt64
	}
	return add(f.end(s[0]), f.grace())
}

// end returns where the window at index ends and the next one starts.
func (f fixed) end(index int64) int64 { return mul(add(index, 1), f.length) }

func (f fixed) Length(int64) int64 { return f.length }

func (f fixed) Valid(s State) bool {
	return len(s) == 0 || (len(s) == 2 || len(s) == 3 && s[2] >= 0) && s[1] > 0
}

func (f fixed) Shape() string { return nameFixed + "/" + strconv.FormatInt(f.length, 10) }

func (fixed) Capacity(limit int64) int64 { return max(limit, 1) }

func (f fixed) Traits() Traits { return Traits{Aligned: true, Slot: f.length} }

// Forgets returns the end of the grace after lost's window: an entry has no effect after that.
func (f fixed) Forgets(_ State, _, lost int64) int64 {
	return add(f.end(integer.FloorDiv(lost, f.length)), f.grace())
}

func (f fixed) Coarse() Coarse { return itself{f} }
