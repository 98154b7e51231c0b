package gate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"
)

// askers returns n ids of 22 bytes, in random order: those of the first n callers that many closes.
func askers(n int) []string {
	ids := make([]string, n)
	for i, p := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		ids[i] = fmt.Sprintf("caller-%015d", p)
	}
	return ids
}

func closedSet(n int) *Set {
	s := New(Options{MaxClosed: max(n, 1), Logger: quiet()})
	now := time.Now()
	ds := many(0, n, 0, 0)
	for i := range ds {
		ds[i].CloseAt, ds[i].Until = now.UnixNano(), now.Add(time.Hour).UnixNano()
	}
	s.ApplyAt(now, ds)
	return s
}

// keepClock runs the Set's clock until the function that it returns is called.
func keepClock(s *Set) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.RunClock(ctx) })
	for s.clock.unix.Load() == 0 {
		runtime.Gosched()
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// BenchmarkLoop measures the loop that the benchmarks of Closed have around the call.
func BenchmarkLoop(b *testing.B) {
	ids := askers(1 << 10)
	cpu(b, func(n int) {
		sum := 0
		for i := range n {
			sum += len(ids[i&(len(ids)-1)])
		}
		if sum != 22*n {
			b.Fatal("got a sum of lengths that is too small")
		}
	})
}

func BenchmarkClosed(b *testing.B) {
	for _, p := range []struct {
		name            string
		closed, callers int // callers asked for, a power of two
		hit             bool
	}{
		{"nothing closed", 0, 1 << 10, false},
		{"1 closed, miss", 1, 1 << 10, false},
		{"1k closed, miss", 1000, 1 << 10, false},
		{"100k closed, miss", 100_000, 1 << 18, false},
		{"1M closed, miss", 1_000_000, 1 << 18, false},
		{"1 closed, hit", 1, 1, true},
		{"1k closed, hit", 1000, 1 << 9, true},
		{"1M closed, hit", 1_000_000, 1 << 18, true},
	} {
		s := closedSet(p.closed)
		g := s.Gate("key")
		ids := askers(p.callers)
		if !p.hit {
			for i := range ids {
				ids[i] = "other-" + ids[i][6:]
			}
		}
		b.Run(p.name, func(b *testing.B) {
			defer keepClock(s)()
			cpu(b, func(n int) {
				hits := 0
				for i := range n {
					if g.Closed(ids[i&(len(ids)-1)]) {
						hits++
					}
				}
				if p.hit != (hits == n) || !p.hit && hits > 0 {
					b.Fatalf("got %d hits of %d", hits, n)
				}
			})
			b.ReportMetric(float64(s.Status().Bytes)/float64(max(p.closed, 1)), "B/closed")
		})
	}
}

func BenchmarkCheck(b *testing.B) {
	s := closedSet(1000)
	ips, keys := s.Gate("ip"), s.Gate("key")
	ids := askers(1 << 10)
	for i := range ids {
		ids[i] = "other-" + ids[i][6:]
	}
	addr := netip.MustParseAddr("2001:db8:aaaa:bbbb::1")
	for name, ask := range map[string]func(id string) Verdict{
		"one caller": func(id string) Verdict {
			var c Callers
			c.Add(keys, id)
			return s.Check(&c)
		},
		"two callers, one an address": func(id string) Verdict {
			var c Callers
			c.AddAddr(ips, addr)
			c.Add(keys, id)
			return s.Check(&c)
		},
	} {
		b.Run(name, func(b *testing.B) {
			cpu(b, func(n int) {
				for i := range n {
					if v := ask(ids[i&(len(ids)-1)]); v.Closed {
						b.Fatal("got closed")
					}
				}
			})
		})
	}
}

func BenchmarkApply(b *testing.B) {
	for _, n := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprint(n, " new"), func(b *testing.B) {
			ds := many(0, n, 0, 10)
			b.ResetTimer()
			before := processorTime()
			for range b.N {
				New(Options{Logger: quiet()}).ApplyAt(at(0), ds)
			}
			b.ReportMetric(float64(processorTime()-before)/float64(b.N)/float64(n), "cpu-ns/decision")
		})
	}
	b.Run("repeats at 100k", func(b *testing.B) {
		s := New(Options{Logger: quiet()})
		ds := many(0, 100_000, 0, 10)
		s.ApplyAt(at(0), ds)
		i := 0
		for b.Loop() {
			s.ApplyAt(at(0), ds[i:i+1])
			i = (i + 7919) % len(ds)
		}
	})
}

// BenchmarkClosedWhileApplying is a miss at 100k closed, alone and while a writer applies 10 000 decisions a second. The
// processor time includes the writer's.
func BenchmarkClosedWhileApplying(b *testing.B) {
	for _, perSecond := range []int{0, 10_000} {
		b.Run(fmt.Sprint(perSecond, " a second"), func(b *testing.B) {
			s := closedSet(100_000)
			g := s.Gate("key")
			ids := askers(1 << 12)
			for i := range ids {
				ids[i] = "other-" + ids[i][6:]
			}
			stop := make(chan struct{})
			var wg sync.WaitGroup
			defer wg.Wait()
			defer close(stop)
			if perSecond > 0 {
				wg.Go(func() {
					tick := time.NewTicker(10 * time.Millisecond)
					defer tick.Stop()
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						case now := <-tick.C:
							ds := many(i*perSecond/100%90_000, perSecond/100, 0, 0)
							for j := range ds {
								ds[j].CloseAt, ds[j].Until = now.UnixNano(), now.Add(time.Minute).UnixNano()
							}
							s.ApplyAt(now, ds)
							s.Tick(now)
						}
					}
				})
			}
			cpu(b, func(n int) {
				for i := range n {
					if g.Closed(ids[i&(len(ids)-1)]) {
						b.Fatal("got closed")
					}
				}
			})
		})
	}
}
