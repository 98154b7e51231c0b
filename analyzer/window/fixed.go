package window

import (
	"math"
	"strconv"
	"time"
)

// NewFixed returns windows that start at the multiples of length since the Unix epoch. It panics if length is not
// positive.
func NewFixed(length time.Duration) Algorithm { return fixed{length: nanoseconds(length)} }

// fixed keeps {index of the window, weight}. Where the window starts and ends is computed from the index alone.
type fixed struct{ length int64 }

func (f fixed) Add(s State, limit, t, weight int64) (State, Count) {
	if weight <= 0 {
		return s, f.View(s, limit, t)
	}
	switch index := floorDiv(t, f.length); {
	case len(s) == 0 || index > s[0]:
		s = append(s[:0], index, weight)
	case index == s[0]:
		s[1] = add(s[1], weight)
	default:
		return s, f.count(s[0], s[1], limit, t, true)
	}
	return s, f.count(s[0], s[1], limit, t, false)
}

func (f fixed) View(s State, limit, t int64) Count {
	index := floorDiv(t, f.length)
	if len(s) == 0 || index > s[0] {
		return f.count(index, 0, limit, t, false)
	}
	return f.count(s[0], s[1], limit, t, index < s[0])
}

func (f fixed) count(index, total, limit, t int64, late bool) Count {
	c := Count{Total: total, Start: mul(index, f.length), Until: t, Late: late}
	if total >= max(limit, 1) {
		c.Until = f.end(index)
	}
	return c
}

func (f fixed) Expiry(s State) int64 {
	if len(s) == 0 {
		return math.MinInt64
	}
	return f.end(s[0])
}

// end returns where the window at index ends and the next one starts.
func (f fixed) end(index int64) int64 { return mul(add(index, 1), f.length) }

func (f fixed) Length(int64) int64 { return f.length }

func (f fixed) Valid(s State) bool { return len(s) == 0 || len(s) == 2 && s[1] > 0 }

func (f fixed) Shape() string { return NameFixed + "/" + strconv.FormatInt(f.length, 10) }

func (f fixed) Name() string { return NameFixed }
