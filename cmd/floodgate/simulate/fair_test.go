package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// crowd is requests of some callers, at random times (Poisson).
type crowd struct {
	callers []string
	share   []float64                         // of the requests, added up, of each caller; nil: all callers have the same share
	rate    func(since time.Duration) float64 // requests a second
	most    float64                           // the largest rate
	next    time.Duration
}

func constant(rate float64) (func(time.Duration) float64, float64) {
	return func(time.Duration) float64 { return rate }, rate
}

func during(rate float64, from, to time.Duration) (func(time.Duration) float64, float64) {
	return func(at time.Duration) float64 {
		if at < from || at >= to {
			return 0
		}
		return rate
	}, rate
}

func (s *crowd) advance(r *rand.Rand) {
	for {
		s.next += time.Duration(r.ExpFloat64() / s.most * float64(time.Second))
		if r.Float64()*s.most < s.rate(s.next) || s.next > time.Hour {
			return
		}
	}
}

func (s *crowd) caller(r *rand.Rand) string {
	if s.share == nil {
		return s.callers[r.IntN(len(s.callers))]
	}
	i, _ := slices.BinarySearch(s.share, r.Float64()*s.share[len(s.share)-1])
	return s.callers[min(i, len(s.callers)-1)]
}

// zipf returns n callers whose shares are as 1/i^exponent.
func zipfCrowd(n int, exponent float64) (callers []string, share []float64) {
	sum := 0.0
	for i := range n {
		sum += math.Pow(float64(i+1), -exponent)
		callers, share = append(callers, fmt.Sprintf("quiet-%d", i)), append(share, sum)
	}
	return callers, share
}

// fairRun is what a run of streams under a pool came to.
type fairRun struct {
	asked, got map[string][]int // by caller and second
	decisions  []int            // by second
}

func (f *fairRun) sum(of map[string][]int, from, to int, match func(string) bool) (n int) {
	for c, by := range of {
		if match(c) {
			for s := from; s < to && s < len(by); s++ {
				n += by[s]
			}
		}
	}
	return n
}

func isQuiet(c string) bool { return len(c) > 6 && c[:6] == "quiet-" }
func isNoisy(c string) bool { return !isQuiet(c) }
func anyone(string) bool  { return true }

func runFair(t testing.TB, fields string, lag time.Duration, seconds int, seed uint64, c Config, streams ...*crowd) *fairRun {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte("version: 1\nrules:\n  - {name: pool, callers: tenant, "+fields+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	c.Rules, c.Start, c.Servers, c.Lag, c.Seed = set, 1_700_000_000_000_000_000, 3, LagOf(lag), seed
	if c.Partitions == 0 {
		c.Partitions = 4
	}
	sim, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	run := &fairRun{asked: map[string][]int{}, got: map[string][]int{}}
	r := rand.New(rand.NewPCG(seed, 77)) //nolint:gosec // no secret
	for _, s := range streams {
		s.next = 0
		s.advance(r)
	}
	callers := make([]schemas.Caller, 1)
	for {
		s := streams[0]
		for _, o := range streams {
			if o.next < s.next {
				s = o
			}
		}
		if s.next >= time.Duration(seconds)*time.Second {
			break
		}
		id := s.caller(r)
		callers[0] = schemas.Caller{Kind: "tenant", ID: id}
		ok, err := sim.Request(&Request{At: c.Start + int64(s.next), Server: r.IntN(3), Callers: callers, Resource: "GET /"})
		if err != nil {
			t.Fatal(err)
		}
		second := int(s.next / time.Second)
		if run.asked[id] == nil {
			run.asked[id], run.got[id] = make([]int, seconds), make([]int, seconds)
		}
		run.asked[id][second]++
		if ok {
			run.got[id][second]++
		}
		s.advance(r)
	}
	if _, err := sim.Finish(c.Start + int64(seconds)*int64(time.Second)); err != nil {
		t.Fatal(err)
	}
	return run
}

func TestTryFair(t *testing.T) {
	lag, _ := time.ParseDuration(os.Getenv("LAG"))
	if lag == 0 {
		lag = 5 * time.Millisecond
	}
	callers, share := zipfCrowd(1000, 1)
	for name, rates := range map[string][]float64{"0.18": {1800, 1800, 1800}, "C each": {10000, 10000, 10000}, "10 C": {100000}} {
		for seed := range uint64(1) {
			rate, most := constant(7000)
			streams := []*crowd{{callers: callers, share: share, rate: rate, most: most}}
			for i, r := range rates {
				rate, most := during(r, 20*time.Second, 40*time.Second)
				streams = append(streams, &crowd{callers: []string{fmt.Sprint("noisy-", i)}, rate: rate, most: most})
			}
			run := runFair(t, "capacity: 10000, window: 1s", lag, 45, seed, Config{}, streams...)
			t.Logf("%s: admitted/C %.3f; innocents blocked %.4f %%", name,
				float64(run.sum(run.got, 22, 40, anyone))/180000,
				100-100*float64(run.sum(run.got, 20, 45, isQuiet))/float64(run.sum(run.asked, 20, 45, isQuiet)))
			for i := range rates {
				t.Log(run.got[fmt.Sprint("noisy-", i)][18:45])
			}
			line := ""
			for s := 18; s < 45; s++ {
				line += fmt.Sprintf(" %d", run.sum(run.got, s, s+1, anyone))
			}
			t.Log(line)
		}
	}
}
