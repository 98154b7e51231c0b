//go:build lab

package lab

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/gate/limit"
)

// TestWindowsAgreeWithLimiters sends the same callers to the analyzer's windows and to the limiters of gate/limit, which
// were written from the same words with nothing in common: one keeps integers in a slice, the other swaps words that
// goroutines share. With no lag between them, an analyzer closes a caller in the very moment in which a limiter refuses
// the next request, and until the same nanosecond.
func TestWindowsAgreeWithLimiters(t *testing.T) {
	refused := map[string]int{}
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 4))
		length := time.Duration(1+random.IntN(3600)) * time.Second
		slots := 1 + random.IntN(30)
		most := []int{1, 2, 3, 5, 10, 60, 100, 1000}[random.IntN(8)]
		burst := 1 + random.IntN(2*most)
		// A bucket's interval must have no remainder: the analyzer rounds it to nanoseconds, the limiter to a sixth.
		refill := time.Duration(most) * time.Duration(1+random.Int64N(int64(length)/int64(most)))
		for name, pair := range map[string]struct {
			window  window.Algorithm
			limiter interface {
				AllowN(at time.Time, n int) bool
				RetryAfter(at time.Time, n int) time.Duration
			}
		}{
			"log":     {window.NewLog(length), limit.NewRing(most, length)},
			"sliding": {window.NewSliding(length, slots), limit.NewSliding(most, length, slots)},
			"fixed":   {window.NewFixed(length), limit.NewFixed(most, length)},
			"gcra":    {window.NewGCRA(refill, int64(burst)), limit.NewTokenBucket(most, refill, burst)},
		} {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				at := time.Date(2026, time.March, 28, 23, 0, 0, 0, time.UTC).Add(time.Duration(random.Int64N(int64(length))))
				gap := 1.5 * float64(length) / float64(most) * random.ExpFloat64()
				admitted := [2]int{}
				var state window.State
				for i := range 20 * (most + 1) {
					if random.IntN(10) > 0 { // or several at one time
						at = at.Add(time.Duration(random.ExpFloat64() * gap))
					}
					now := at.UnixNano()
					view := pair.window.View(state, int64(most), now)
					if got, want := pair.limiter.RetryAfter(at, 1), time.Duration(view.Until-now); got != want {
						t.Fatalf("request %d: the limiter is to be asked again in %v, the window reopens in %v", i, got, want)
					}
					if !view.Full(now) {
						admitted[0]++
						state, _ = pair.window.Add(state, int64(most), now, 1)
					} else {
						refused[name]++
					}
					if pair.limiter.AllowN(at, 1) {
						admitted[1]++
					}
					if admitted[0] != admitted[1] {
						t.Fatalf("request %d: the window admitted %d, the limiter %d", i, admitted[0], admitted[1])
					}
				}
			})
		}
	}
	for _, name := range []string{"log", "sliding", "fixed", "gcra"} {
		if refused[name] < 1000 {
			t.Errorf("%s: only %d refusals: that is no test", name, refused[name])
		}
	}
}

// TestLimitersAreAsStrictAsTheExactWindow sends one sequence to all and compares what they admit with the exact window's:
// the ring as much, to the unit; a sliding window in slots never more, and less by no more than one slot in the window.
func TestLimitersAreAsStrictAsTheExactWindow(t *testing.T) {
	const most, length, slots = 100, time.Second, 20
	random := rand.New(rand.NewPCG(1, 9))
	exact, sliding := limit.NewRing(most, length), limit.NewSliding(most, length, slots)
	var state window.State
	logged := window.NewLog(length)
	at, admitted := time.Unix(1_800_000_000, 0), map[string]int{}
	for range 30_000 { // 5 times the limit for a minute
		at = at.Add(time.Duration(random.ExpFloat64() * float64(length) / most / 5))
		if exact.AllowN(at, 1) {
			admitted["ring"]++
		}
		if sliding.AllowN(at, 1) {
			admitted["sliding"]++
		}
		if c := logged.View(state, most, at.UnixNano()); !c.Full(at.UnixNano()) {
			admitted["log"]++
			state, _ = logged.Add(state, most, at.UnixNano(), 1)
		}
	}
	if admitted["ring"] != admitted["log"] || admitted["ring"] < 5900 || admitted["ring"] > 6100 {
		t.Errorf("in about a minute, the ring admitted %d and the log %d; want the same, about 6000", admitted["ring"], admitted["log"])
	}
	if s := admitted["sliding"]; s > admitted["ring"] || s < admitted["ring"]*slots/(slots+1)*99/100 {
		t.Errorf("by slots %d, exactly %d", s, admitted["ring"])
	}
}
