package limit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// admission is what a limiter let happen.
type admission struct {
	at int64 // the turn
	n  int
}

// gather runs a function in several goroutines and returns all that was admitted.
func gather(goroutines int, run func(g int, random *rand.Rand) []admission) []admission {
	var wg sync.WaitGroup
	got := make([][]admission, goroutines)
	for g := range goroutines {
		wg.Go(func() {
			got[g] = run(g, rand.New(rand.NewPCG(uint64(g), 7)))
		})
	}
	wg.Wait()
	return slices.Concat(got...)
}

// largest returns how much was admitted in the fullest half-open interval of a length.
func largest(all []admission, length int64) int {
	slices.SortFunc(all, func(a, b admission) int { return int(a.at - b.at) })
	first, sum, fullest := 0, 0, 0
	for _, a := range all {
		for ; all[first].at <= a.at-length; first++ {
			sum -= all[first].n
		}
		sum += a.n
		fullest = max(fullest, sum)
	}
	return fullest
}

func total(all []admission) (sum int) {
	for _, a := range all {
		sum += a.n
	}
	return sum
}

// TestNoneLostNoneInvented has goroutines ask for more than the limit at one time. Exactly the limit is admitted: a lost
// increment would admit more, an invented one less.
func TestNoneLostNoneInvented(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 64, 1000} {
		for name, l := range kinds(n, time.Hour) {
			for name, l := range map[string]anyLimiter{name: l, "keyed/" + name: NewKeyed(10, l).Key("a")} {
				t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
					at := noon()
					got := gather(8, func(int, *rand.Rand) (got []admission) {
						for range n {
							if l.AllowN(at, 1) {
								got = append(got, admission{0, 1})
							}
						}
						return got
					})
					want := n
					if _, leaky := l.(*LeakyBucket); leaky || name == "keyed/leaky" {
						want = 1
					}
					if total(got) != want {
						t.Errorf("admitted %d, want %d", total(got), want)
					}
				})
			}
		}
	}
}

// TestBookedOneByOne has goroutines book turns. Those of a Ring are the limit in each period, without a hole.
func TestBookedOneByOne(t *testing.T) {
	const goroutines, each, n = 8, 500, 5
	for name, l := range kinds(n, time.Second) {
		t.Run(name, func(t *testing.T) {
			at := noon()
			all := gather(goroutines, func(int, *rand.Rand) (got []admission) {
				for range each {
					r := l.ReserveN(at, 1, time.Hour)
					if name == "leaky" && !r.OK() {
						continue
					}
					got = append(got, admission{int64(r.DelayFrom(at)), 1})
				}
				return got
			})
			slices.SortFunc(all, func(a, b admission) int { return int(a.at - b.at) })
			last := time.Duration(all[len(all)-1].at)
			want := map[string]time.Duration{
				"ring": 799 * time.Second, "fixed": 799 * time.Second,
				"sliding": 799 * 1100 * time.Millisecond, // a period and a slot
				"token":   3995 * time.Second / 5,
				"leaky":   200 * time.Second, // its queue is 1000
			}[name]
			if last != want {
				t.Errorf("the last turn is in %v, want %v", last, want)
			}
			if name == "ring" && largest(all, int64(time.Second)) != n {
				t.Errorf("%d in a period, want %d", largest(all, int64(time.Second)), n)
			}
		})
	}
}

// bound is what may be admitted in an interval.
type bound func(all []admission, n int) (got, limit int)

// bounds are the promises of the limiters for a period, by name.
func bounds(per time.Duration) map[string]bound {
	anyPeriod := func(all []admission, n int) (int, int) { return largest(all, int64(per)), n }
	return map[string]bound{
		"ring":    anyPeriod,
		"sliding": anyPeriod,
		"fixed": func(all []admission, n int) (int, int) {
			sums := map[int64]int{}
			fullest := 0
			for _, a := range all {
				sums[a.at/int64(per)] += a.n
				fullest = max(fullest, sums[a.at/int64(per)])
			}
			return fullest, n
		},
		// Rate and burst are the limit: two periods are three limits, and the same for less than a nanosecond more.
		"token": func(all []admission, n int) (int, int) { return largest(all, 2*int64(per)), 3 * n },
		// Many at once leave one after the other.
		"leaky": func(all []admission, n int) (int, int) {
			var alone []admission
			for _, a := range all {
				for i := range a.n {
					alone = append(alone, admission{a.at + int64(i)*int64(per)/int64(n), 1})
				}
			}
			return largest(alone, int64(per)), n + 1
		},
	}
}

// TestNeverMoreWhateverTheClocks has goroutines ask at times that jump back and forth between them, alone and many at
// once, book and cancel, while the limit changes. No interval may hold more than the largest limit.
func TestNeverMoreWhateverTheClocks(t *testing.T) {
	const per = time.Millisecond
	check := bounds(per)
	for seed := range uint64(12) {
		largest := 1 + int(seed*seed)
		for name, l := range kinds(largest, per) {
			t.Run(fmt.Sprintf("%s/%d", name, largest), func(t *testing.T) {
				start := noon()
				all := gather(6, func(g int, random *rand.Rand) (got []admission) {
					at := int64(0)
					for range 400 {
						at = max(0, at+random.Int64N(int64(per)/int64(largest)*2+1)-int64(per)/int64(largest)/3)
						if random.IntN(100) == 0 {
							at += random.Int64N(4*int64(per)) - 2*int64(per)
						}
						if g == 0 && random.IntN(20) == 0 && name != "token" && name != "leaky" {
							l.SetLimit(random.IntN(largest + 1))
						}
						n, wait := 1, time.Duration(0)
						if random.IntN(3) == 0 {
							n = 1 + random.IntN(largest)
						}
						if random.IntN(5) == 0 {
							wait = time.Duration(random.Int64N(3 * int64(per)))
						}
						when := start.Add(time.Duration(at))
						r := l.ReserveN(when, n, wait)
						switch {
						case !r.OK():
						case random.IntN(4) == 0:
							r.Cancel()
						default:
							got = append(got, admission{start.Add(r.DelayFrom(when) + time.Duration(at)).UnixNano(), n})
						}
					}
					return got
				})
				if got, limit := check[name](all, largest); got > limit {
					t.Errorf("%d in an interval, want at most %d", got, limit)
				}
				if len(all) < 10 {
					t.Errorf("only %d were admitted: that is no test", len(all))
				}
			})
		}
	}
}

// TestRingGrowsUnderContention changes a Ring's limit up and down, larger than its slots each time, while goroutines ask
// at a time that one of them moves on. Whatever the limit is, there are never more than the largest; and when it is quiet
// the ring holds exactly its limit.
func TestRingGrowsUnderContention(t *testing.T) {
	const per = time.Millisecond
	start := noon()
	for round := range 20 {
		r := NewRing(1, per)
		limit := 1
		all := gather(4, func(g int, random *rand.Rand) (got []admission) {
			for i := range 600 {
				if g == 0 && i%50 == 49 {
					limit += 1 + random.IntN(limit)
					r.SetLimit(limit)
				}
				at := int64(i) * int64(per) / 100
				if n := 1 + random.IntN(2); r.AllowN(start.Add(time.Duration(at)), n) {
					got = append(got, admission{at, n})
				}
			}
			return got
		})
		if got := largest(all, int64(per)); got > limit {
			t.Fatalf("round %d: %d in a period, want at most %d", round, got, limit)
		}
		quiet := start.Add(time.Hour)
		for i := range limit + 1 {
			if ok := r.AllowN(quiet, 1); ok != (i < limit) {
				t.Fatalf("round %d: limit %d: admission %d is %v", round, limit, i+1, ok)
			}
		}
	}
}

// TestManyAtOnce has goroutines ask so often that every place where a word is read and written later is hit between.
func TestManyAtOnce(t *testing.T) {
	const n, goroutines = 100_000, 4
	for name, l := range kinds(n, time.Hour) {
		if name == "leaky" {
			continue // it lets one through
		}
		t.Run(name, func(t *testing.T) {
			at := noon()
			got := gather(goroutines, func(int, *rand.Rand) []admission {
				sum := 0
				for range n/goroutines + 10 {
					if l.AllowN(at, 1) {
						sum++
					}
				}
				return []admission{{0, sum}}
			})
			if total(got) != n {
				t.Errorf("admitted %d of %d, want %d", total(got), n+goroutines*10, n)
			}
		})
	}
}

// TestRateChangesLoseNoToken changes a bucket's rate to and fro at one time, at which goroutines empty it: whatever the
// rate, there are as many tokens as there were.
func TestRateChangesLoseNoToken(t *testing.T) {
	const burst, changes = 20_000, 3000
	at := noon()
	like := NewTokenBucket(1000, time.Hour, burst)
	for name, l := range map[string]anyLimiter{"alone": like, "keyed": NewKeyed(5, like).Key("a")} {
		t.Run(name, func(t *testing.T) {
			var stop sync.WaitGroup
			stop.Go(func() {
				for i := range changes {
					like.SetLimitAt(at, 1000*(1+i%3))
				}
			})
			got := gather(3, func(int, *rand.Rand) []admission {
				sum := 0
				for range burst {
					if l.AllowN(at, 1) {
						sum++
					}
				}
				return []admission{{0, sum}}
			})
			stop.Wait()
			// Each change rounds up to a sixth of a nanosecond, of 1.2 seconds a token.
			if total(got) != burst && total(got) != burst-1 {
				t.Errorf("admitted %d, want %d", total(got), burst)
			}
		})
	}
}
