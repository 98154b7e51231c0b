package window

import (
	"math"
	"slices"
	"strconv"
	"time"
)

const nameGCRA = "gcra"

// NewGCRA returns a token bucket that refills by a limit in each length and holds burst; a burst of 0 is the limit. Seen
// from the other side it is a leaky bucket. The algorithm is the Generic Cell Rate Algorithm (ATM Forum Traffic
// Management 4.0, 1996), whose theoretical arrival time TAT is when the bucket has drained if nothing more comes. It panics if length is
// not positive or burst is negative.
func NewGCRA(length time.Duration, burst int64) Algorithm {
	if burst < 0 {
		panic("BUG: gcra with a burst of " + strconv.FormatInt(burst, 10))
	}
	n := nanoseconds(length)
	return gcra{length: n, burst: burst, memory: min(n, maxMemory)}
}

// Bounds of what a bucket remembers.
const (
	maxMemory  = int64(time.Minute)
	maxPeriods = 7
)

// gcra keeps {TAT, time of the newest entry, length of a period, pause before it, length of the period before that, …}, all in nanoseconds.
// A period is a time in which the bucket was never empty. The newest period comes first, and ends at TAT.
//
// The state does not depend on the order of entries. What an entry puts into the bucket drains at its own time or at the first time after it
// that is not used by other entries. So each entry makes the period in which it comes longer, or begins one, and a period that reaches the
// next one becomes one with it. (Queueing theory calls these the busy periods of a work-conserving server.) What comes late only fills the
// pauses that there were, and TAT is later only by what found no pause.
//
// A bucket forgets periods that ended as long before the newest entry as its memory is. Of the rest it keeps maxPeriods. If there are more,
// it moves the second oldest one back to the end of the oldest. Both can only make it emptier than it was. They never touch the newest
// period. So the TAT of entries that come in order is exact, and so it is if no entry comes after more than maxPeriods-2 newer ones.
type gcra struct {
	length, burst int64
	memory        int64
}

func (g gcra) Add(s State, limit, t, weight int64) (State, Count) {
	if weight <= 0 {
		return s, g.View(s, limit, t)
	}
	i := 2
	switch {
	case len(s) == 0 || t > s[0] && since(t, s[0]) >= uint64(g.memory):
		s = append(s[:0], t, t, 0)
	case t > s[0]:
		s = slices.Insert(s, 2, 0, t-s[0])
		s[0] = t
	default:
		var start int64
		var inside bool
		if i, start, inside = s.period(t); inside {
			break
		}
		if g.forgotten(s, t) {
			return s, g.View(s, limit, t)
		}
		pause := start - t
		if i+1 < len(s) {
			s[i+1] -= pause
		}
		s = slices.Insert(s, i+1, pause, 0)
		i += 2
	}
	interval, burst := g.resolve(limit)
	full := addMul(g.length, burst, interval)
	s[1] = max(s[1], t)
	s = g.forget(s.fill(i, min(addMul(0, weight, interval), full), add(s[1], full)))
	return s, g.count(s[0], s[1], interval, burst, t)
}

// period returns the index of the period that t falls into, or that ends at t, and when it began. inside is false if there is none, and
// then they are those of the first period after t. t is not after TAT.
func (s State) period(t int64) (i int, start int64, inside bool) {
	end := s[0]
	for i = 2; ; i += 2 {
		if start = sub(end, s[i]); t >= start {
			return i, start, true
		}
		if i+1 == len(s) {
			return i, start, false
		}
		if end = sub(start, s[i+1]); t > end {
			return i, start, false
		}
	}
}

// fill makes the period at i longer by the time that an entry takes to drain. TAT does not become later than maxTAT by that.
func (s State) fill(i int, drains, maxTAT int64) State {
	for ; i > 2 && drains >= s[i-1]; i -= 2 { // it reaches the next period
		drains -= s[i-1]
		s[i-2] = add(s[i-2], add(s[i-1], s[i]))
		s = slices.Delete(s, i-1, i+1)
	}
	if i > 2 {
		s[i] = add(s[i], drains)
		s[i-1] -= drains
		return s
	}
	tat := max(s[0], min(add(s[0], drains), maxTAT))
	s[2] = add(s[2], sub(tat, s[0]))
	s[0] = tat
	return s
}

// forget drops the periods that ended too long ago, and keeps maxPeriods of the others.
func (g gcra) forget(s State) State {
	end := s[0]
	for i := 3; i < len(s); i += 2 {
		if end = sub(end, add(s[i-1], s[i])); g.forgotten(s, end) {
			s = s[:i]
		}
	}
	if n := len(s); n > 2*maxPeriods+1 {
		s[n-4] = add(s[n-4], s[n-2])
		s[n-3] = add(s[n-3], s[n-1])
		s = s[:n-2]
	}
	return s
}

// forgotten reports whether a time is so long before the newest entry that the bucket does not remember when it was empty then.
func (g gcra) forgotten(s State, t int64) bool { return t < s[1] && since(s[1], t) >= uint64(g.memory) }

func (g gcra) View(s State, limit, t int64) Count {
	interval, burst := g.resolve(limit)
	if len(s) == 0 {
		return g.count(t, t, interval, burst, t)
	}
	c := g.count(s[0], max(s[1], t), interval, burst, t)
	if g.forgotten(s, t) {
		if _, _, inside := s.period(t); !inside {
			c.Place = Late
		}
	}
	return c
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

// Expiry returns when the bucket will have been empty for as long as it remembers.
func (g gcra) Expiry(s State) int64 {
	if len(s) == 0 {
		return math.MinInt64
	}
	return add(s[0], g.memory)
}

func (g gcra) Length(int64) int64 { return g.length }

func (gcra) Valid(s State) bool {
	n := len(s)
	if n == 0 {
		return true
	}
	if n%2 == 0 || n < 3 || n > 2*maxPeriods+1 || s[0] < s[1] || s[2] < sub(s[0], s[1]) {
		return false
	}
	if s[2] < 0 || s[2] == 0 && s[0] < math.MaxInt64 { // only at the end of time an entry has no time to drain
		return false
	}
	for _, length := range s[3:] {
		if length <= 0 {
			return false
		}
	}
	return true
}

func (g gcra) Shape() string { return nameGCRA + "/" + strconv.FormatInt(g.length, 10) }

func (g gcra) Capacity(limit int64) int64 {
	_, burst := g.resolve(limit)
	return burst
}

func (gcra) Traits() Traits { return Traits{Endless: true} }

// Forgets returns when two buckets are surely equal, of which one got the lost entry and the other did not. Buckets that get the same
// entries never move apart, and the difference is at most a full bucket. So both are empty when a full bucket has drained. From then on
// they differ only in what they remember, until that is over, too.
func (g gcra) Forgets(s State, limit, lost int64) int64 {
	interval, burst := g.resolve(limit)
	from := lost
	if len(s) > 0 {
		from = max(s[0], lost)
	}
	return add(add(addMul(from, burst, interval), g.length), g.memory)
}

func (g gcra) Coarse() Coarse { return newestPeriod{g} }

// newestPeriod is the Coarse of a bucket: it keeps the newest period only.
type newestPeriod struct{ gcra }

func (p newestPeriod) Add(s State, limit, t, weight int64) (State, Count) {
	s, c := p.gcra.Add(s, limit, t, weight)
	return p.Coarsen(s, t), c
}

func (p newestPeriod) Valid(s State) bool { return len(s) <= 3 && p.gcra.Valid(s) }

func (newestPeriod) Refine(s State, _, _ int64) State { return s }

func (newestPeriod) Coarsen(s State, _ int64) State { return s[:min(3, len(s))] }
