package gate

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// One writer closes, moves, opens and expires callers, so that the table is changed in place, grows and shrinks, while
// readers ask. What must hold at every single answer:
//
//   - a caller that stays closed is always found closed, also in the middle of a swap;
//   - a caller that was never applied is never closed;
//   - a caller whose decision changes is seen with a decision at least as new as the last one applied before asking,
//     whole: the limit, which numbers the decisions here, goes with the until of the same decision.
func TestReadersWhileTheWriterChangesEverything(t *testing.T) {
	const steadies, movers, readers = 50, 20, 3
	rounds := 60
	if testing.Short() {
		rounds = 20
	}
	s := New(exact())
	g := s.Gate("key")
	steady := func(i int) string { return fmt.Sprint("steady", i%steadies) }
	mover := func(i int) string { return fmt.Sprint("mover", i%movers) }
	closed := func(id string, version int) schemas.Decision {
		d := closing("r", "key:"+id, 0, 1e6+float64(version))
		d.Evidence.Limit = int64(version)
		return d
	}
	var applied [movers]atomic.Int64
	for i := range steadies {
		s.ApplyAt(at(0), []schemas.Decision{closed(steady(i), 1)})
	}

	var done atomic.Bool
	var asked atomic.Int64
	var wg sync.WaitGroup
	for r := range readers {
		wg.Go(func() {
			var seen [movers]int64
			for i := r; !done.Load(); i++ {
				asked.Add(1)
				if v := s.CheckAt(callersOf2(g, steady(i)), at(1)); !v.Closed {
					t.Errorf("%s: got %+v, want closed", steady(i), v)
					return
				}
				if v := s.CheckAt(callersOf2(g, fmt.Sprint("stranger", i)), at(1)); v.Closed || v.Shadow {
					t.Errorf("stranger %d: got %+v, want open", i, v)
					return
				}
				m := i % movers
				smallest := max(applied[m].Load(), seen[m])
				v := s.CheckAt(callersOf2(g, mover(i)), at(1))
				if smallest > 0 && (!v.Closed || v.Limit < smallest || !v.Until.Equal(at(1e6+float64(v.Limit)))) {
					t.Errorf("%s: got %+v, want decision %d or newer", mover(i), v, smallest)
					return
				}
				seen[m] = v.Limit
			}
		})
	}
	for round := range rounds {
		now := at(1).Add(time.Duration(round) * time.Microsecond)
		for m := range movers {
			s.ApplyAt(now, []schemas.Decision{closed(mover(m), round+1)})
			applied[m].Store(int64(round + 1))
		}
		n := 20 << (round / 10 % 6) // waves: the table grows and shrinks
		for _, ds := range [][]schemas.Decision{many(n*round, n, 0, 1e6), many(n*round, n, 0, 0)} {
			s.ApplyAt(now, ds)
		}
		s.Tick(now)
	}
	done.Store(true)
	wg.Wait()
	s.verify(t)
	if st := s.Status(); st.Rebuilds < 3 || st.Closed != steadies+movers {
		t.Errorf("got %d rebuilds, %d closed, want several, and %d", st.Rebuilds, st.Closed, steadies+movers)
	}
	t.Logf("%d questions of each kind, %d rebuilds", asked.Load(), s.Status().Rebuilds)
}

func callersOf2(g *Gate, ids ...string) *Callers {
	var c Callers
	for _, id := range ids {
		c.Add(g, id)
	}
	return &c
}

// Everything that may be called from any goroutine is, so that the race detector has its say.
func TestEverythingAtOnce(t *testing.T) {
	s := New(Options{Stale: Open, Logger: quiet()})
	g := s.Gate("key")
	ctx, cancel := context.WithCancel(t.Context())
	var clock, wg sync.WaitGroup
	clock.Go(func() { s.RunClock(ctx) })
	defer clock.Wait()
	defer cancel()
	for _, f := range []func(i int){
		func(i int) { s.Apply(many(i%50, 10, 0, float64(i))) },
		func(i int) { s.ApplyAt(at(float64(i)), many(i%70, 10, 0, float64(i+1))) },
		func(i int) {
			ds := many(i%60, 10, 0, float64(i+1))
			for j := range ds {
				ds[j] = then(ds[j], float64(i+1+j), float64(i+20), j%2 == 0)
				ds[j].Share = sharing("r", "key:x", float64(i%7), float64(i+9), int64(j), int64(1+i), float64(i-2)).Share
			}
			s.ApplyAt(at(float64(i)), ds)
		},
		func(i int) { s.Heartbeat(schemas.Heartbeat{Partition: int32(i % 5)}, time.Now()) },
		func(i int) { s.Partitions(i % 4) },
		func(i int) { s.Tick(at(float64(i))) },
		func(i int) { s.SetMode(Mode(i % 3)) },
		func(int) { s.Status() },
		func(i int) { s.Gate(fmt.Sprint("kind", i%10)).Closed("x") },
		func(i int) { g.Closed(fmt.Sprintf("caller-%015d", i%100)) },
		func(i int) { s.CheckAt(callersOf2(g, fmt.Sprintf("caller-%015d", i%100)), at(float64(i))) },
	} {
		wg.Go(func() {
			for i := range 200 {
				f(i)
			}
		})
	}
	wg.Wait()
	s.verify(t)
}
