package window

import (
	"math"
	"strconv"
	"time"
)

const nameGCRA = "gcra"

// NewGCRA returns a token bucket that refills by a limit in each length and holds burst; a burst of 0 is the limit. Seen
// from the other side it is a leaky bucket. The algorithm is the Generic Cell Rate Algorithm (ATM Forum Traffic
// Management 4.0, 1996): its one integer is the theoretical arrival time TAT. It panics if length is not positive or
// burst is negative.
func NewGCRA(length time.Duration, burst int64) Algorithm {
	if burst < 0 {
		panic("BUG: gcra with a burst of " + strconv.FormatInt(burst, 10))
	}
	return gcra{length: nanoseconds(length), burst: burst}
}

// gcra keeps {TAT, time of the newest entry}. TAT is when the bucket is full again, if nothing more comes; it never goes
// back. No entry is late: an older one counts at the newest one's time, because a bucket does not know what it held
// before. At the older time it would seem fuller than it ever was, and would close callers that did nothing.
type gcra struct{ length, burst int64 }

func (g gcra) Add(s State, limit, t, weight int64) (State, Count) {
	if weight <= 0 {
		return s, g.View(s, limit, t)
	}
	interval, burst := g.resolve(limit)
	tat, newest := t, t
	if len(s) > 0 {
		tat, newest = max(s[0], t), max(s[1], t)
	}
	maxTAT := add(addMul(newest, burst, interval), g.length)
	tat = max(tat, min(addMul(tat, weight, interval), maxTAT))
	return append(s[:0], tat, newest), g.count(tat, newest, interval, burst, t)
}

func (g gcra) View(s State, limit, t int64) Count {
	interval, burst := g.resolve(limit)
	if len(s) == 0 {
		return g.count(t, t, interval, burst, t)
	}
	return g.count(s[0], max(s[1], t), interval, burst, t)
}

// resolve returns the nanoseconds that one unit takes to refill, and the burst in force.
func (g gcra) resolve(limit int64) (interval, burst int64) {
	limit = max(limit, 1)
	if burst = g.burst; burst == 0 {
		burst = limit
	}
	return max(g.length/limit, 1), burst
}

// count describes the bucket at the time of its newest entry, which is t or later.
func (g gcra) count(tat, newest, interval, burst, t int64) Count {
	c := Count{Start: sub(newest, g.length), Until: t}
	if until := subMul(tat, burst-1, interval); until > newest {
		c.Until = until
	}
	if tat > newest {
		units := (since(tat, newest)-1)/uint64(interval) + 1
		c.Total = int64(min(units, math.MaxInt64))
	}
	return c
}

func (g gcra) Expiry(s State) int64 {
	if len(s) == 0 {
		return math.MinInt64
	}
	return s[0]
}

func (g gcra) Length(int64) int64 { return g.length }

func (g gcra) Valid(s State) bool { return len(s) == 0 || len(s) == 2 && s[0] >= s[1] }

func (g gcra) Shape() string { return nameGCRA + "/" + strconv.FormatInt(g.length, 10) }

func (g gcra) Capacity(limit int64) int64 {
	_, burst := g.resolve(limit)
	return burst
}

func (gcra) Traits() Traits { return Traits{Endless: true} }

// Forgets returns when two buckets are surely equal, of which one got the lost entry and the other did not. Buckets that get the same
// entries never move apart, and the difference is at most a full bucket. So both are equal when a full bucket has drained.
func (g gcra) Forgets(s State, limit, lost int64) int64 {
	interval, burst := g.resolve(limit)
	from := lost
	if len(s) > 0 {
		from = max(s[0], lost)
	}
	return add(addMul(from, burst, interval), g.length)
}

func (g gcra) Coarse() Coarse { return itself{g} }
