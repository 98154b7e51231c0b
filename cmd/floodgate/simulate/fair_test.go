package simulate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/replay"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
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

// fairRun is what a run of crowds under a pool came to.
type fairRun struct {
	asked, got map[string][]int         // by caller and second
	refused    map[string]time.Duration // when a caller was refused first
	last       map[string]time.Duration // and last
	decisions  int64
	levels     []fold.PoolLevel // that the home has made
	pool       replay.Pool
}

// sum adds up the requests of the callers that match, of some seconds.
func sum(of map[string][]int, from, to int, match func(string) bool) (n int) {
	for c, by := range of {
		if match(c) {
			for _, v := range by[from:to] {
				n += v
			}
		}
	}
	return n
}

func isQuiet(c string) bool { return strings.HasPrefix(c, "quiet-") }
func anyone(string) bool    { return true }

// blocked returns the share of requests of quiet callers that were refused, in percent.
func (f *fairRun) blocked(from, to int) float64 {
	return 100 - 100*float64(sum(f.got, from, to, isQuiet))/float64(sum(f.asked, from, to, isQuiet))
}

// jain returns Jain's index of what callers got: 1 if all got the same.
func (f *fairRun) jain(from, to int, callers ...string) float64 {
	total, squares := 0.0, 0.0
	for _, c := range callers {
		x := float64(sum(f.got, from, to, func(o string) bool { return o == c }))
		total, squares = total+x, squares+x*x
	}
	return total * total / squares / float64(len(callers))
}

// held returns when the last of some callers was refused first, from a second on.
func (f *fairRun) held(from int, callers ...string) (at time.Duration) {
	for _, c := range callers {
		if f.refused[c] == 0 {
			return time.Hour
		}
		at = max(at, f.refused[c]-time.Duration(from)*time.Second)
	}
	return at
}

const fairStart = 1_700_000_000 * int64(time.Second)

// fairConfig is four partitions and three servers at a lag.
func fairConfig(t testing.TB, fields string, lag time.Duration, seed uint64) Config {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte("version: 1\nrules:\n  - {name: pool, callers: tenant, "+fields+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return Config{Rules: set, Start: fairStart, Servers: 3, Partitions: 4, Lag: LagOf(lag), Seed: seed}
}

// runFair runs crowds for some seconds.
func runFair(t testing.TB, c Config, seconds int, crowds ...*crowd) *fairRun {
	t.Helper()
	sim, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	run := &fairRun{asked: map[string][]int{}, got: map[string][]int{}, refused: map[string]time.Duration{}, last: map[string]time.Duration{}}
	r := rand.New(rand.NewPCG(c.Seed, 77))
	for _, s := range crowds {
		s.next = 0
		s.advance(r)
	}
	callers := make([]schemas.Caller, 1)
	for {
		s := slices.MinFunc(crowds, func(a, b *crowd) int { return cmp.Compare(a.next, b.next) })
		if s.next >= time.Duration(seconds)*time.Second {
			break
		}
		id := s.caller(r)
		callers[0] = schemas.Caller{Kind: "tenant", ID: id}
		admitted, err := sim.Request(&Request{At: c.Start + int64(s.next), Server: r.IntN(c.Servers), Callers: callers, Resource: "GET /"})
		if err != nil {
			t.Fatal(err)
		}
		if run.asked[id] == nil {
			run.asked[id], run.got[id] = make([]int, seconds), make([]int, seconds)
		}
		run.asked[id][s.next/time.Second]++
		if admitted {
			run.got[id][s.next/time.Second]++
		} else {
			run.last[id] = s.next
			run.refused[id] = cmp.Or(run.refused[id], s.next)
		}
		s.advance(r)
	}
	result, err := sim.Finish(c.Start + int64(seconds)*int64(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	run.decisions, run.pool = result.Decisions, result.Pools[0]
	if len(result.Rules) > 0 {
		t.Errorf("got %+v, want nothing said of limits", result.Rules)
	}
	for _, p := range sim.w.partitions {
		run.levels = append(run.levels, p.levels...)
	}
	return run
}

// noisyCrowds are a quiet crowd that asks for 0.7 of a capacity of 10,000, and callers who come from second 20 to an end.
func noisyCrowds(end time.Duration, rates ...float64) (crowds []*crowd, noisy []string) {
	callers, share := zipfCrowd(1000, 1)
	rate, most := constant(7000)
	crowds = append(crowds, &crowd{callers: callers, share: share, rate: rate, most: most})
	for i, r := range rates {
		rate, most := during(r, 20*time.Second, end)
		noisy = append(noisy, fmt.Sprint("noisy-", i))
		crowds = append(crowds, &crowd{rate: rate, most: most})
	}
	for i := range noisy {
		crowds[i+1].callers = noisy[i : i+1]
	}
	return crowds, noisy
}

// fairSeeds is how many seeds a scenario runs with.
func fairSeeds() uint64 {
	if testenv.IsLong() {
		return 5
	}
	return 1
}

// between fails a test if a figure is not between two bounds.
func between(t *testing.T, what string, got, low, high float64) {
	t.Helper()
	if !(got >= low && got <= high) {
		t.Errorf("%s: got %.4f, want %v to %v", what, got, low, high)
	}
}

const fairPool = "capacity: 10000, window: 1s"

// TestOnlyWhoOverloadsWaits: a quiet crowd of 1,000 asks for 0.7 of the capacity. Some callers ask for more than is left. They wait, and nobody
// else does.
func TestOnlyWhoOverloadsWaits(t *testing.T) {
	scenarios := map[string]struct {
		rates     []float64
		held      time.Duration
		decisions float64 // a second
	}{
		"three of 0.18 C": {[]float64{1800, 1800, 1800}, 2 * time.Second, 20},
		"three of C":      {[]float64{10_000, 10_000, 10_000}, time.Second, 20},
		"one of 10 C":     {[]float64{100_000}, time.Second, 20},
	}
	end := 40
	if !testenv.IsLong() {
		end = 26
		delete(scenarios, "one of 10 C") // a million requests
	}
	for name, s := range scenarios {
		t.Run(name, func(t *testing.T) {
			for seed := range fairSeeds() {
				crowds, noisy := noisyCrowds(time.Duration(end)*time.Second, s.rates...)
				run := runFair(t, fairConfig(t, fairPool, 5*time.Millisecond, seed), end+5, crowds...)
				used := float64(sum(run.got, 22, end, anyone)) / float64(end-22) / 10_000
				decisions := float64(run.decisions) / float64(end-20)
				t.Logf("seed %d: admitted/C %.3f, quiet blocked %.4f %%, Jain %.4f, held after %v, %.1f decisions/s, open %v after the end", seed, used,
					run.blocked(0, end+5), run.jain(22, end, noisy...), run.held(20, noisy...), decisions, run.last[noisy[0]]-time.Duration(end)*time.Second)
				t.Log(run.beside(22, end))
				if p := run.pool; p.Limited != int64(len(noisy)) || p.Contended < float64(end-22) || p.Contended > float64(end-18) {
					t.Errorf("got %+v, want %d callers limited for %d s", p, len(noisy), end-20)
				}
				between(t, "admitted/C", used, 0.98, 1.02)
				between(t, "quiet blocked %", run.blocked(0, end+5), 0, 0.05)
				between(t, "Jain", run.jain(22, end, noisy...), 0.999, 1)
				between(t, "held after s", run.held(20, noisy...).Seconds(), 0, s.held.Seconds())
				between(t, "decisions/s", decisions, 0, s.decisions)
			}
		})
	}
}
