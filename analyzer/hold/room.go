package hold

import (
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/schemas"
)

// Room is what the limit of a caller has left, in units of weight.
type Room struct {
	InFlight int64 // requests
	Held     int64 // what they are expected to cost
	Margin   int64 // what stays free for what is not known of them
	Mean     int64 // what one more request is expected to cost
	Left     int64 // what is left of the limit; below 0, if more is counted and held
}

// Room returns what a limit has left at a time. start is the begin of the window, in Unix nanoseconds, and counted is the weight in it.
// Requests that arrived before the window hold nothing of it.
func (s *State) Room(t *Terms, limit, counted, start, now int64) Room {
	l := s.Learned
	l.begin(t)
	var n, expected, age int64
	for i, p := range s.cohorts {
		begin := (s.newest - int64(i)) * s.span
		if p.requests <= 0 || integer.Add(begin, s.span) <= start || integer.Add(begin, int64(s.kept)*s.span) <= now {
			continue
		}
		n += min(p.requests, maxInFlight)
		expected = integer.Add(expected, max(p.expected, 0))
		age = integer.Add(age, max(p.requests*(schemas.Tick(now)-schemas.Tick(begin))-p.arrived, 0))
	}
	n = min(n, maxInFlight)
	r := Room{
		InFlight: n, Mean: max(l.mean()>>fractionBits, 1),
		Held: integer.Add(integer.MulDiv(expected, l.mean(), l.expected), l.dearer(age)),
	}
	root := integer.Root(n << (2 * rootBits))
	r.Margin = integer.MulDiv(integer.MulDiv(l.distance, 3*t.Margin, 200<<fractionBits), root, 1<<rootBits)
	r.Left = limit - min(counted, limit)
	for _, part := range []int64{r.Held, r.Margin, r.Mean / 2} {
		r.Left -= min(part, 2*limit)
	}
	return r
}

const (
	maxInFlight = 1 << 32
	rootBits    = 8
)

// dearer returns by how much requests are dearer than the mean because they have run for age ticks, all together. See the package's
// documentation for the slope.
func (l *Learned) dearer(age int64) int64 {
	if l.product <= 0 || l.square <= 0 {
		return 0
	}
	const bits = 14 // squares have up to 48
	steady := (product(l.duration, l.duration) + l.square) / 2
	spread := integer.Root(l.square<<bits) * integer.Root(steady<<bits) >> bits
	bound := integer.MulDiv(age, 2*l.mean(), max(l.duration, 1))
	return min(integer.MulDiv(age, l.product, max(spread, 1)), bound)
}

// Duration returns how long requests run on average, in nanoseconds; 0 before the first response.
func (l *Learned) Duration() int64 { return l.duration >> fractionBits * schemas.MergeTick }
