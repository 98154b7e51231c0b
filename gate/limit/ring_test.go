package limit

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// step is one line of a story: at a time, in milliseconds, so many are asked for.
type step struct {
	at    int64
	n     int
	allow bool
	retry int64 // afterwards, for one more, in milliseconds
}

func tell(t *testing.T, l anyLimiter, story []step) {
	t.Helper()
	start := noon()
	for _, s := range story {
		at := start.Add(time.Duration(s.at) * time.Millisecond)
		if got := l.AllowN(at, s.n); got != s.allow {
			t.Fatalf("%d ms: %d: got %v", s.at, s.n, got)
		}
		if got := l.RetryAfter(at, 1).Milliseconds(); got != s.retry {
			t.Fatalf("%d ms: one more in %d ms, want %d", s.at, got, s.retry)
		}
	}
}

func TestRingForgetsEachAfterAPeriod(t *testing.T) {
	tell(t, NewRing(3, time.Second), []step{
		{0, 1, true, 0},
		{100, 1, true, 0},
		{900, 1, true, 100},
		{999, 1, false, 1},
		{1000, 1, true, 100}, // the one at 0 is a period ago
		{1099, 1, false, 1},
		{1100, 2, false, 0}, // there is room for one
		{1100, 1, true, 800},
		{1900, 1, true, 100},
		{9000, 3, true, 1000},
	})
}

func TestRingByClocksThatDisagree(t *testing.T) {
	tell(t, NewRing(2, time.Second), []step{
		{5000, 1, true, 0},
		{0, 1, true, 6000}, // is kept as if it were at 5000, too
		{0, 1, false, 6000},
		{5999, 1, false, 1},
		{6000, 2, true, 1000},
	})
}

// TestRingKeepsWhatItCountedWhenTheLimitChanges walks through smaller and larger limits, more slots included.
func TestRingKeepsWhatItCountedWhenTheLimitChanges(t *testing.T) {
	r, start := NewRing(2, time.Second), noon()
	for _, s := range []struct {
		at    int64
		limit int
		want  int // admitted then
	}{
		{0, 2, 2},
		{100, 1, 0},
		{200, 100, 98}, // more slots
		{300, 99, 0},
		{400, 1000, 900},
		{1000, 1000, 2}, // those at 0 have left the window
		{1200, 1000, 98},
		{1300, 10, 0},
		{1400, 10, 0},
		{2199, 10, 0},
		{2200, 10, 10}, // 98 at 1200 are gone
		{2200, 0, 0},
	} {
		r.SetLimit(s.limit)
		got := 0
		for r.AllowN(start.Add(time.Duration(s.at)*time.Millisecond), 1) {
			got++
		}
		if got != s.want {
			t.Errorf("%d ms: limit %d: admitted %d, want %d", s.at, s.limit, got, s.want)
		}
	}
}

// TestCancelled gives turns back and looks what comes of it.
func TestCancelled(t *testing.T) {
	for name, c := range map[string]struct {
		last, middle time.Duration // when the next turn is after cancelling the last of 4, or the second
	}{
		"ring":    {time.Second, 2 * time.Second}, // behind the two that are booked
		"fixed":   {time.Second, 0},
		"sliding": {1100 * time.Millisecond, 2200 * time.Millisecond}, // behind the two that are booked
		"token":   {time.Second, 1500 * time.Millisecond},
		"leaky":   {1500 * time.Millisecond, 2 * time.Second},
	} {
		for _, cancel := range []int{1, 3} {
			t.Run(fmt.Sprint(name, "/", cancel), func(t *testing.T) {
				l, at := kinds(2, time.Second)[name], noon()
				turns := make([]Reservation, 4)
				for i := range turns {
					turns[i] = l.ReserveN(at, 1, time.Hour)
				}
				turns[cancel].Cancel()
				turns[cancel].Cancel() // once is enough
				want := c.middle
				if cancel == 3 {
					want = c.last
				}
				if got := l.RetryAfter(at, 1); got != want {
					t.Errorf("the next turn is in %v, want %v", got, want)
				}
				if turns[cancel].OK() || !turns[0].OK() {
					t.Error("the wrong one is cancelled")
				}
			})
		}
	}
	var none Reservation
	none.Cancel()
	if none.OK() || none.Delay() != Never || none.DelayFrom(time.Now()) != Never {
		t.Error("the zero Reservation is a turn")
	}
}

// TestCancelledForEver books and cancels again and again. That costs nobody anything, but for turns of others between.
func TestCancelledForEver(t *testing.T) {
	for name, l := range kinds(3, time.Second) {
		t.Run(name, func(t *testing.T) {
			at := noon()
			for range 10_000 {
				r := l.ReserveN(at, 1+rand.IntN(2), time.Hour)
				r.Cancel()
			}
			want := 3
			if name == "leaky" {
				want = 1
			}
			got := 0
			for at = at.Add(2 * time.Second); l.AllowN(at, 1); {
				got++
			}
			if got != want {
				t.Errorf("admitted %d, want %d", got, want)
			}
		})
	}
}

// call is one call in a history: what was asked, when it began and ended by a counter that all goroutines share.
type call struct {
	begin, end int64
	at         time.Time
	ok         bool
}

// TestRingIsLinearizable has three goroutines ask at times of their own, and looks for an order of their calls that one
// goroutine could have made them in, with the same answers, where no call comes before one that had ended when it began.
// (J. Wing, C. Gong, "Testing and Verifying Concurrent Objects", 1993.)
func TestRingIsLinearizable(t *testing.T) {
	const goroutines, each, rounds = 3, 4, 600
	start := noon()
	for name, fresh := range map[string]func() anyLimiter{
		"ring":    func() anyLimiter { return NewRing(2, 4) },
		"fixed":   func() anyLimiter { return NewFixed(2, 4) },
		"sliding": func() anyLimiter { return NewSliding(2, 4, 2) },
		"token":   func() anyLimiter { return NewTokenBucket(2, 4, 2) },
		"keyed":   func() anyLimiter { return NewKeyed(1, NewRing(2, 4)).Key("a") },
	} {
		t.Run(name, func(t *testing.T) {
			for round := range rounds {
				l := fresh()
				var counter atomic.Int64
				var wg sync.WaitGroup
				var ready atomic.Int32
				history := [goroutines][each]call{}
				for g := range goroutines {
					wg.Go(func() {
						random := rand.New(rand.NewPCG(uint64(round), uint64(g)))
						for ready.Add(1); ready.Load() < goroutines; {
							runtime.Gosched()
						}
						for i := range each {
							c := &history[g][i]
							c.at = start.Add(time.Duration(2*i + random.IntN(5)))
							c.begin = counter.Add(1)
							c.ok = l.AllowN(c.at, 1)
							c.end = counter.Add(1)
						}
					})
				}
				wg.Wait()
				var calls []call
				for g := range history {
					calls = append(calls, history[g][:]...)
				}
				slices.SortFunc(calls, func(a, b call) int { return cmp.Compare(a.begin, b.begin) })
				if !explained(fresh, calls, nil) {
					t.Fatalf("round %d: no order explains %+v", round, calls)
				}
			}
		})
	}
}

// explained reports whether the calls can have come one after the other behind those that are done.
func explained(fresh func() anyLimiter, calls, done []call) bool {
	if len(calls) == 0 {
		return true
	}
	ended := slices.MinFunc(calls, func(a, b call) int { return cmp.Compare(a.end, b.end) }).end
	for i, c := range calls {
		if c.begin > ended {
			break // another was over before it began
		}
		l := fresh()
		for _, d := range done {
			l.AllowN(d.at, 1)
		}
		rest := slices.Delete(slices.Clone(calls), i, i+1)
		if l.AllowN(c.at, 1) == c.ok && explained(fresh, rest, append(slices.Clip(done), c)) {
			return true
		}
	}
	return false
}
