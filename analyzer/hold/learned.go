package hold

import (
	"github.com/509da70d/floodgate/analyzer/integer"
)

// Learned is what the responses of a caller have said of what its requests cost: exponentially weighted means, each with fractionBits binary
// digits after the point. The zero value has learned nothing. Costs and durations are those of one request.
type Learned struct {
	Responses int64 // how many
	slow      int64 // mean cost, over memory responses
	fast      int64 // mean cost, over memory/4 responses
	expected  int64 // mean of what was expected
	duration  int64 // mean, in ticks
	distance  int64 // mean distance of a cost from what was expected
	product   int64 // covariance of duration and that distance, in coarser fractions
	square    int64 // variance of duration, in coarser fractions
}

const (
	fractionBits = 16
	coarseBits   = 8 // of product and square

	minMemory, maxMemory = 128, 4096 // responses
	maxTicks             = 1 << 20   // bounds a duration, to about three hours
	maxResponses         = 1 << 40
	maxProduct           = 1 << (62 - coarseBits)
)

// sample is what a response says: sums over its requests, and their mean duration in ticks.
type sample struct{ requests, cost, expected, ticks int64 }

// learn adds a response. limit is that of the caller.
func (l *Learned) learn(t *Terms, s sample, limit int64) {
	ticks := min(max(s.ticks, 0), maxTicks) << fractionBits
	if l.begin(t); l.Responses == 0 {
		l.duration = ticks // nothing was known of durations before
	}
	memory := l.memory(limit)
	l.Responses = min(l.Responses+s.requests, maxResponses)
	// The estimate counts as much as a quarter of the memory.
	weight := min(l.Responses+memory/4, memory)
	cost, expected := integer.MulDiv(s.cost, 1<<fractionBits, s.requests), integer.MulDiv(s.expected, 1<<fractionBits, s.requests)
	off := cost - min(integer.MulDiv(expected, l.mean(), l.expected), MaxCost<<fractionBits)
	late := ticks - l.duration
	l.slow = toward(l.slow, cost, s.requests, weight)
	l.fast = toward(l.fast, cost, s.requests, memory/4)
	l.expected = max(toward(l.expected, expected, s.requests, weight), 1)
	l.distance = toward(l.distance, max(off, -off), s.requests, weight)
	weight = min(l.Responses, memory)
	l.duration = toward(l.duration, ticks, s.requests, weight)
	l.product = toward(l.product, product(off, late), s.requests, weight)
	l.square = toward(l.square, product(late, late), s.requests, weight)
}

// begin sets the means to the estimate, before the first response.
func (l *Learned) begin(t *Terms) {
	if l.Responses > 0 {
		return
	}
	estimate := t.Estimate << fractionBits
	*l = Learned{slow: estimate, fast: estimate, expected: estimate, distance: estimate - estimate/4} // exponentially distributed costs have 0.74
}

// memory returns over how many responses the means go: as many as fit the limit.
func (l *Learned) memory(limit int64) int64 {
	return min(max(integer.MulDiv(limit, 1<<fractionBits, max(l.slow, 1)), minMemory), maxMemory)
}

// mean returns what a request costs. The larger of two means that vary is more than either on average, so the one that varies more counts for
// seven eighths.
func (l *Learned) mean() int64 { return max(l.slow, l.fast-l.fast/8) }

// toward moves a mean toward the value of n new samples. Its memory is weight samples.
func toward(mean, value, n, weight int64) int64 {
	if n >= weight {
		return value
	}
	if value < mean {
		return mean - integer.MulDiv(mean-value, n, weight)
	}
	return mean + integer.MulDiv(value-mean, n, weight)
}

// product returns a·b in coarser fractions. It is cut where a sum of two would overflow.
func product(a, b int64) int64 {
	p := min(integer.MulDiv(max(a, -a), max(b, -b), 1<<(2*fractionBits-coarseBits)), maxProduct)
	if (a < 0) != (b < 0) {
		return -p
	}
	return p
}

// cut bounds the cost of n requests, and makes it at least 0.
func cut(cost, n int64) int64 { return min(max(cost, 0), integer.MulDiv(n, MaxCost, 1)) }
