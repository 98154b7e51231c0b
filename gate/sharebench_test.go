package gate

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// sharedSet returns a Set in which one caller has a share of so many permits a second, and the caller.
func sharedSet(permits int64) (*Set, *Gate) {
	s := New(Options{Logger: quiet()})
	now := time.Now()
	s.ApplyAt(now, []schemas.Decision{shareDecision(now.Add(-time.Second), permits)})
	return s, s.Gate("key")
}

// shareDecision gives the caller of sharedSet a share from a time on, for an hour.
func shareDecision(from time.Time, permits int64) schemas.Decision {
	d := decision("r", from, from)
	d.Share = &schemas.Share{
		From: from.UnixNano(), Until: from.Add(time.Hour).UnixNano(), Period: int64(time.Second), Permits: permits,
		Demand: 1, DemandFrom: from.UnixNano(), DemandUntil: from.Add(time.Second).UnixNano(),
	}
	return d
}

// BenchmarkShare asks about a caller that has a share, with permits left and without, at a time that is given: what time.Now
// costs is not in it. A closed caller, judged at a given time, is there to compare with.
func BenchmarkShare(b *testing.B) {
	for _, p := range []struct {
		name    string
		share   bool
		permits int64
		renewed bool // the next share waits
		workers int
	}{
		{"a closed caller", false, 0, false, 1},
		{"a caller that will be closed", false, 1, false, 1},
		{"permits left", true, 1 << 31, false, 1},
		{"permits left, and a renewal waits", true, 1 << 31, true, 1},
		{"no permits left", true, 0, false, 1},
		{"permits left, on two processors", true, 1 << 31, false, 2},
	} {
		b.Run(p.name, func(b *testing.B) {
			s, g := sharedSet(p.permits)
			now := time.Now()
			if !p.share {
				s.ApplyAt(now, []schemas.Decision{decision("r", now.Add(time.Duration(p.permits)*time.Minute), now.Add(time.Hour))})
			} else if p.permits > 0 { // as many as it is given: as if it had measured
				s.mu.Lock()
				cc := s.writer.table.find(g.sum("abc"), g.tag(), "abc")
				s.writer.table.arena.share(cc.terms).quota.whole = 1<<32 - 2
				s.mu.Unlock()
				if p.renewed {
					renewal := shareDecision(now.Add(time.Minute), p.permits)
					s.ApplyAt(now, []schemas.Decision{renewal})
				}
			}
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(p.workers))
			cpu(b, func(n int) {
				var wg sync.WaitGroup
				for range p.workers {
					wg.Go(func() {
						var c Callers
						c.Add(g, "abc")
						for range n / p.workers {
							s.CheckAt(&c, now)
						}
					})
				}
				wg.Wait()
			})
		})
	}
}
