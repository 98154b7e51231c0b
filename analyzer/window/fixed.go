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
func NewFixed(length time.Duration) Algorithm {
	n := nanoseconds(length)
	return fixed{spans: multiples{length: n}, head: 1, grace: min(grace, n)}
}

// grace is how long after the end of a window its entries still count, in nanoseconds of log time. Servers' clocks differ and
// their logs arrive in turns: the first entry of a window comes from the server whose clock is ahead, while others still send
// entries of the window before.
const grace = int64(2 * time.Second)

// WithGrace returns windows in which the entries of the window before the newest count for at least grace of log time, and no longer than a
// window. Only fixed windows have a grace. Other algorithms are returned as they are.
func WithGrace(a Algorithm, atLeast time.Duration) Algorithm {
	f, ok := a.(fixed)
	if ok {
		f.grace = max(f.grace, min(int64(atLeast), f.Length(0)))
		return f
	}
	return a
}

// fixed counts in windows that follow each other without a gap. It keeps {which window is the newest, its weight}. In the first grace of
// that window, one more integer is the weight of the window before, whose entries still count then. Its own grace is no longer than a
// window, so that never more than one before the newest counts.
type fixed struct {
	spans
	head  int // how many integers say which window a State is of
	grace int64
}

// spans divides time into windows.
type spans interface {
	// bounds returns the window that t falls into.
	bounds(t int64) span
	// begin appends the head of a State: the integers that say which window it is.
	begin(s State, w span) State
	// newest returns the window that the head of s says.
	newest(s State) span

	Length(t int64) int64
	Shape() string
	Traits() Traits
}

// span is a window: from start until before end, in Unix nanoseconds. The last window of all ends with time itself, and holds that moment.
type span struct{ start, end int64 }

// before reports whether the window is over at t.
func (w span) before(t int64) bool { return t >= w.end && w.end < math.MaxInt64 }

func (f fixed) Add(s State, limit, t, weight int64) (State, Count) {
	if weight <= 0 {
		return s, f.View(s, limit, t)
	}
	var newest span
	n := f.head
	if len(s) > 0 {
		newest = f.newest(s)
	}
	switch {
	case len(s) == 0 || newest.before(t):
		w, past := f.bounds(t), int64(0)
		if len(s) > 0 && w.start == newest.end {
			past = s[n]
		}
		s, newest = append(f.begin(s[:0], w), weight, past), w
	case t >= newest.start:
		s[n] = add(s[n], weight)
	default:
		c := f.older(newest, s[n:], limit, t, weight)
		if c.Place == Past {
			s[n+1] = c.Total
		}
		return s, c
	}
	c := newest.count(s[n], limit, t)
	if len(s) > n+1 && since(t, newest.start) >= uint64(f.grace) {
		s = s[:n+1]
	}
	return s, c
}

func (f fixed) View(s State, limit, t int64) Count {
	if len(s) == 0 {
		return f.bounds(t).count(0, limit, t)
	}
	newest, n := f.newest(s), f.head
	switch {
	case newest.before(t):
		return f.bounds(t).count(0, limit, t)
	case t >= newest.start:
		return newest.count(s[n], limit, t)
	}
	return f.older(newest, s[n:], limit, t, 0)
}

// older returns the count for an entry that is older than the newest window. weights are those of the newest one and of the one before it.
func (f fixed) older(newest span, weights State, limit, t, weight int64) Count {
	if len(weights) == 2 {
		if w := f.bounds(t); w.end == newest.start {
			c := w.count(add(weights[1], weight), limit, t)
			c.Place = Past
			return c
		}
	}
	c := newest.count(weights[0], limit, t)
	c.Place = Late
	return c
}

// count describes the window that holds total, for an entry at t.
func (w span) count(total, limit, t int64) Count {
	c := Count{Total: total, Start: w.start, Until: t}
	if total >= max(limit, 1) {
		c.Until = w.end
	}
	return c
}

func (f fixed) Expiry(s State) int64 {
	if len(s) == 0 {
		return math.MinInt64
	}
	return add(f.newest(s).end, f.grace)
}

func (f fixed) Valid(s State) bool {
	if len(s) == 0 {
		return true
	}
	n := f.head
	if len(s) != n+1 && len(s) != n+2 || s[n] <= 0 || s[len(s)-1] < 0 {
		return false
	}
	newest := f.newest(s)
	return newest.start < newest.end
}

func (fixed) Capacity(limit int64) int64 { return max(limit, 1) }

// Forgets returns the end of the grace after lost's window: an entry has no effect after that.
func (f fixed) Forgets(_ State, _, lost int64) int64 { return add(f.bounds(lost).end, f.grace) }

func (f fixed) Coarse() Coarse { return itself{f} }

// multiples is the windows of one length that start at its multiples. A head is the number of a window, from which its bounds are computed.
type multiples struct{ length int64 }

// bounds returns for the end of time the window of the moment before it.
func (m multiples) bounds(t int64) span {
	return m.newest(State{integer.FloorDiv(min(t, math.MaxInt64-1), m.length)})
}

func (m multiples) begin(s State, w span) State {
	return append(s, integer.FloorDiv(w.start, m.length))
}

func (m multiples) newest(s State) span {
	return span{mul(s[0], m.length), mul(add(s[0], 1), m.length)}
}

func (m multiples) Length(int64) int64 { return m.length }

func (m multiples) Shape() string { return nameFixed + "/" + strconv.FormatInt(m.length, 10) }

func (m multiples) Traits() Traits { return Traits{Aligned: true, Slot: m.length} }
