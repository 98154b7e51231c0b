package limit

import (
	"context"
	"math"
	"testing"
	"time"
)

// anyLimiter is what all limiters have in common, Key included.
type anyLimiter interface {
	Waiter
	Allow() bool
	AllowN(at time.Time, n int) bool
	Reserve() Reservation
	ReserveN(at time.Time, n int, maxWait time.Duration) Reservation
	RetryAfter(at time.Time, n int) time.Duration
	WaitN(ctx context.Context, n int) error
}

// setter is a limiter of its own, which Key is not.
type setter interface {
	anyLimiter
	Pattern
	SetLimit(n int)
}

// kinds are all limiters that admit n in a period, by name.
func kinds(n int, per time.Duration) map[string]setter {
	return map[string]setter{
		"ring":    NewRing(n, per),
		"fixed":   NewFixed(n, per),
		"sliding": NewSliding(n, per, 10),
		"token":   NewTokenBucket(n, per, 0),
		"leaky":   NewLeakyBucket(n, per, 1000),
	}
}

// all are the kinds, and one key of a Keyed like each.
func all(n int, per time.Duration) map[string]anyLimiter {
	limiters := map[string]anyLimiter{}
	for name, l := range kinds(n, per) {
		limiters[name] = l
		limiters["keyed/"+name] = NewKeyed(10, kinds(n, per)[name]).Key("a")
	}
	return limiters
}

// noon is a time at which no period of a test ends.
func noon() time.Time { return time.Now().Truncate(time.Hour).Add(time.Hour) }

func TestLessThanOneIsAlwaysAllowed(t *testing.T) {
	for name, l := range all(1, time.Hour) {
		t.Run(name, func(t *testing.T) {
			at := noon()
			for range 3 {
				for _, n := range []int{0, -1, math.MinInt} {
					r := l.ReserveN(at, n, 0)
					if !l.AllowN(at, n) || l.RetryAfter(at, n) != 0 || !r.OK() || r.DelayFrom(at) != 0 || l.WaitN(t.Context(), n) != nil {
						t.Errorf("%d is not allowed", n)
					}
					r.Cancel()
				}
			}
			if !l.AllowN(at, 1) {
				t.Error("nothing was charged; got a refusal")
			}
			if l.AllowN(at, 1) {
				t.Error("allowed 2 of 1")
			}
		})
	}
}

func TestMoreThanTheLimitIsNever(t *testing.T) {
	for name, l := range all(1, time.Hour) {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1002, 1 << 20, math.MaxInt32, math.MaxInt} { // a leaky bucket's queue has room for 1000
				r := l.ReserveN(noon(), n, math.MaxInt64)
				if l.AllowN(noon(), n) || l.RetryAfter(noon(), n) != Never || r.OK() || r.Delay() != Never {
					t.Errorf("%d of 1 are not refused for ever", n)
				}
				if err := l.WaitN(t.Context(), n); err != ErrNever { //nolint:errorlint // the very error
					t.Errorf("wait for %d: got %v, want %v", n, err, ErrNever)
				}
			}
			if !l.Allow() {
				t.Error("refusals were charged")
			}
		})
	}
}

func TestLimitOfZeroAdmitsNothing(t *testing.T) {
	for name, l := range all(0, time.Second) {
		t.Run(name, func(t *testing.T) {
			if l.Allow() || l.RetryAfter(noon(), 1) != Never {
				t.Error("admitted one of none")
			}
			if r := l.Reserve(); r.OK() {
				t.Error("booked one of none")
			}
		})
	}
}

func TestAnyTimeWillDo(t *testing.T) {
	times := []time.Time{
		{}, time.Unix(0, 0), time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64),
		time.Unix(math.MaxInt64, math.MaxInt64), time.Unix(math.MinInt64, 0), time.Now(), time.Now().Round(0),
	}
	for i := range times {
		for j := range times {
			for name, l := range all(2, time.Hour) {
				t.Run(name, func(t *testing.T) {
					admitted := 0
					for range 5 {
						for _, at := range []time.Time{times[i], times[j], times[i]} {
							if l.AllowN(at, 1) {
								admitted++
							}
							if wait := l.RetryAfter(at, 1); wait < 0 {
								t.Errorf("wait is %v", wait)
							}
							r := l.ReserveN(at, 1, 0)
							r.Cancel()
						}
					}
					if admitted < 1 || admitted > 4 {
						t.Errorf("admitted %d at %v and %v; two times have room for 1 to 4", admitted, times[i], times[j])
					}
				})
			}
		}
	}
}

func TestNoAllocation(t *testing.T) {
	for name, l := range all(3, time.Millisecond) {
		t.Run(name, func(t *testing.T) {
			at := noon()
			if n := testing.AllocsPerRun(100, func() {
				at = at.Add(100 * time.Microsecond)
				l.Allow()
				l.AllowN(at, 2)
				r := l.ReserveN(at, 1, time.Second)
				r.DelayFrom(at)
				if _, copies := l.(*Ring); !copies {
					r.Cancel()
				}
				l.RetryAfter(at, 3)
			}); n != 0 {
				t.Errorf("got %v allocations, want none", n)
			}
		})
	}
}

func TestPanics(t *testing.T) {
	for name, f := range map[string]func(){
		"no period":         func() { NewRing(1, 0) },
		"negative period":   func() { NewFixed(1, -1) },
		"three years":       func() { NewTokenBucket(1, 3*365*24*time.Hour, 1) },
		"negative limit":    func() { NewSliding(-1, 1, 1) },
		"no slots":          func() { NewSliding(1, 1, 0) },
		"too many slots":    func() { NewSliding(1, 1, 1001) },
		"negative burst":    func() { NewTokenBucket(1, 1, -1) },
		"negative queue":    func() { NewLeakyBucket(1, 1, -1) },
		"huge ring":         func() { NewRing(1<<25+1, 1) },
		"negative ring":     func() { NewRing(1, 1).SetLimit(-1) },
		"negative leak":     func() { NewLeakyBucket(1, 1, 1).SetLimit(-1) },
		"no keys":           func() { NewKeyed(0, NewRing(1, 1)) },
		"no queue":          func() { NewSchedule(NewRing(1, 1), 0) },
		"negative set fix":  func() { NewFixed(1, 1).SetLimit(-1) },
		"negative set slid": func() { NewSliding(1, 1, 1).SetLimit(-1) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}
