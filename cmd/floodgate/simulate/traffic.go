package simulate

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// traffic is requests in order of time.
type traffic interface {
	// next sets r to the next request, and reports whether there is one. The request's callers are valid until the next call.
	next(r *Request) bool
	// decided says whether the request that next has returned last was admitted.
	decided(r *Request, admitted bool)
}

// stream is the requests of one caller or of a population, at a rate that may vary.
type stream struct {
	rate func(at time.Duration) float64 // requests per second at a time since the start, at most peak; nil is peak
	peak float64

	even  bool // requests are evenly spaced; otherwise they are a Poisson process
	burst int  // how many come at one moment; 0 is 1. The rate of requests does not depend on it

	id   string                 // of the only caller
	pick func(u float64) string // the caller, of a u in [0, 1); instead of id

	next int64 // when the next burst comes, in Unix nanoseconds
	left int   // of the present burst
}

// generator makes the traffic of a scenario: all its streams together, in order of time.
type generator struct {
	streams []*stream
	random  *rand.Rand
	servers int
	weights func(at time.Duration) []float64 // which share of the requests each server gets; nil is equal shares
	callers [1]schemas.Caller
}

// streamTraffic is the stream of random numbers of traffic.
const streamTraffic = 2

func newGenerator(seed uint64, servers int, weights func(time.Duration) []float64, streams ...stream) *generator {
	g := &generator{
		random: rand.New(rand.NewPCG(seed, streamTraffic)), servers: servers, weights: weights, //nolint:gosec // no secret
	}
	for i := range streams {
		s := streams[i]
		s.burst = max(s.burst, 1)
		s.next = start
		g.advance(&s)
		g.streams = append(g.streams, &s)
	}
	return g
}

// next sets r to the next request, and reports whether there is one. The request's callers are valid until the next call.
func (g *generator) next(r *Request) bool {
	var s *stream
	for _, x := range g.streams {
		if s == nil || x.next < s.next {
			s = x
		}
	}
	if s == nil || s.next == math.MaxInt64 {
		return false
	}
	id := s.id
	if s.pick != nil {
		id = s.pick(g.random.Float64())
	}
	g.callers[0] = schemas.Caller{Kind: Kind, ID: id}
	*r = Request{At: s.next, Server: g.server(s.next), Callers: g.callers[:]}
	if s.left--; s.left <= 0 {
		g.advance(s)
	}
	return true
}

func (*generator) decided(*Request, bool) {}

// server draws the server that a request comes to.
func (g *generator) server(at int64) int {
	if g.weights == nil {
		return g.random.IntN(g.servers)
	}
	weights := g.weights(time.Duration(at - start))
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	u := g.random.Float64() * sum
	for i, w := range weights {
		if u -= w; u < 0 {
			return i
		}
	}
	return len(weights) - 1
}

// horizon is how far ahead a stream looks for its next request.
const horizon = int64(24 * time.Hour)

// advance draws when the stream's next burst comes: of a Poisson process by thinning (Lewis and Shedler, 1979), of an even
// stream one period of its present rate later.
func (g *generator) advance(s *stream) {
	s.left = s.burst
	for limit := s.next + horizon; s.next < limit; {
		rate, peak := s.peak, s.peak
		if s.even && s.rate != nil {
			peak = max(s.rate(time.Duration(s.next-start)), s.peak/1000)
		}
		if peak <= 0 {
			break
		}
		wait := float64(s.burst) / peak
		if !s.even {
			wait *= g.random.ExpFloat64()
		}
		s.next += max(1, int64(wait*1e9))
		if s.rate != nil {
			rate = s.rate(time.Duration(s.next - start))
		}
		if s.even && rate > 0 || !s.even && g.random.Float64()*s.peak < rate {
			return
		}
	}
	s.next = math.MaxInt64
}

// fleetOf returns a population: each caller is asked for as often as its weight says.
func fleetOf(ids []string, weights []float64) func(u float64) string {
	sums := make([]float64, len(weights))
	sum := 0.0
	for i, w := range weights {
		sum += w
		sums[i] = sum
	}
	return func(u float64) string {
		i := sort.SearchFloat64s(sums, u*sum)
		return ids[min(i, len(ids)-1)]
	}
}

// names returns n ids that begin with a prefix.
func names(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = prefix + strconv.Itoa(i)
	}
	return ids
}

// zipf returns n weights that fall as 1/rank^s.
func zipf(n int, s float64) []float64 {
	w := make([]float64, n)
	for i := range w {
		w[i] = math.Pow(float64(i+1), -s)
	}
	return w
}

// until returns weights that change at a time.
func until(at time.Duration, before, from []float64) func(time.Duration) []float64 {
	return func(now time.Duration) []float64 {
		if now < at {
			return before
		}
		return from
	}
}

// rotating returns weights that move on by one server in each period.
func rotating(period time.Duration, weights ...float64) func(time.Duration) []float64 {
	return func(at time.Duration) []float64 {
		n := int(at/period) % len(weights)
		return slices.Concat(weights[n:], weights[:n])
	}
}
