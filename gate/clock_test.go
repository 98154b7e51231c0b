package gate

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// running runs the Set's clock, in a bubble, until the function that it returns is called.
func running(t *testing.T, s *Set) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { s.RunClock(ctx) })
	synctest.Wait()
	return func() {
		cancel()
		wg.Wait()
	}
}

// In virtual time the ticker is never late, so coarse answers must be those of time.Now at every instant, and most of
// all around those at which something changes.
func TestCoarseAnswersAreExactWhileTheClockRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(exact())
		g := s.Gate("key")
		start := time.Now()
		edges := []time.Duration{2500 * time.Millisecond, 4 * time.Second, 7*time.Second + 50*time.Millisecond}
		s.Apply([]schemas.Decision{
			decision("a", start.Add(edges[0]), start.Add(edges[1])),
			decision("b", start.Add(3*time.Second), start.Add(edges[2])),
		})
		stop := running(t, s)
		for _, edge := range edges {
			for _, at := range []time.Duration{-time.Second - 1, -time.Second, -clockBeat, -1, 0, 1, clockBeat, time.Second} {
				<-time.After(time.Until(start.Add(edge + at)))
				since := time.Since(start)
				want := edges[0] <= since && since < edges[2]
				if got := g.Closed("abc"); got != want {
					t.Errorf("Closed at %v: got %v, want %v", since, got, want)
				}
				if v := s.Check(callersOf2(g, "abc")); v.Closed != want {
					t.Errorf("Check at %v: got %+v, want closed %v", since, v, want)
				}
			}
		}
		stop()
		if s.clock.unix.Load() != 0 {
			t.Error("the coarse clock decides although RunClock does not run")
		}
	})
}

// TestACoarseAnswerKeepsToTheMode: only the mode Enforce refuses, whether a caller is an address, a text or an id under a second
// secret.
func TestACoarseAnswerKeepsToTheMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, addr := exact(), netip.MustParseAddr("203.0.113.9")
		o.IDs.Hash = hasher(t, "ab")
		s := New(o)
		closeNow(s, "ip", addr.String())
		closeNow(s, "user", "u")
		closeNow(s, "key", hasher(t, "b").Kind("key").ID("k"))
		stop := running(t, s)
		defer stop()
		for _, mode := range []Mode{Enforce, Shadow, Off} {
			s.SetMode(mode)
			for name, got := range map[string]bool{
				"an address": s.Gate("ip").ClosedAddr(addr), "an address as text": s.Gate("ip").Closed("::ffff:203.0.113.9"),
				"a text": s.Gate("user").Closed("u"), "an id under the second secret": s.Gate("key").Closed("k"),
			} {
				if got != (mode == Enforce) {
					t.Errorf("mode %v: %s: got closed %v, want %v", mode, name, got, mode == Enforce)
				}
			}
			if s.Gate("ip").ClosedAddr(addr.Next()) || s.Gate("user").Closed("v") || s.Gate("key").Closed("l") {
				t.Errorf("mode %v: another caller is closed", mode)
			}
		}
	})
}

// A share's period may begin between two beats of the coarse clock. Its permits can be spent from then on, whatever the other
// callers of the request are.
func TestAPeriodBeginsBetweenTwoBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(exact())
		g, start := s.Gate("key"), time.Now()
		const from = 2*time.Second + clockBeat/2
		shares := &schemas.Share{ // a permit a period: nobody has measured the demand
			From: start.Add(from).UnixNano(), Until: start.Add(time.Hour).UnixNano(), Period: int64(time.Second),
			Permits: 10, Demand: 1, DemandFrom: start.Add(-time.Second).UnixNano(), DemandUntil: start.UnixNano(),
		}
		for _, id := range []string{"alone", "first", "second"} {
			d := decision("r", start, start)
			d.Caller.ID, d.Share = id, shares
			s.Apply([]schemas.Decision{d})
		}
		s.Apply([]schemas.Decision{shadowed(decision("r", start, start.Add(time.Hour)))})
		stop := running(t, s)
		defer stop()
		for period := range 3 {
			<-time.After(time.Until(start.Add(from + time.Duration(period)*time.Second + 1)))
			for _, ids := range [][]string{{"alone"}, {"first", "second", "abc"}} {
				for n, want := range []bool{false, true} {
					if v := s.Check(callersOf2(g, ids...)); v.Closed != want {
						t.Errorf("period %d, %v, request %d: got %+v, want closed %v", period, ids, n, v, want)
					}
				}
			}
		}
	})
}

// A closure begins or ends when the clock is late by exactly the time for which it is trusted.
func TestAClockThatIsAsLateAsItMayBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(exact())
		g, now := s.Gate("key"), time.Now()
		for id, d := range map[string]schemas.Decision{
			"begins": decision("r", now, now.Add(time.Hour)), "ends": decision("r", now.Add(-time.Hour), now),
			"lasts": decision("r", now.Add(-time.Hour), now.Add(time.Hour)),
		} {
			d.Caller.ID = id
			s.ApplyAt(now.Add(-time.Minute), []schemas.Decision{d})
		}
		s.clock.unix.Store(now.Add(-clockSlack).UnixNano())
		for id, want := range map[string]bool{"begins": true, "ends": false, "lasts": true} {
			if closed, v := g.Closed(id), s.Check(callersOf2(g, id)); closed != want || v.Closed != want {
				t.Errorf("%s: got closed %v and %+v, want closed %v", id, closed, v, want)
			}
			for i, ids := range [][]string{{id, "lasts"}, {"lasts", id}} {
				if v := s.Check(callersOf2(g, ids...)); v.ClosedFor(i) != want || !v.ClosedFor(1-i) {
					t.Errorf("%v: got %+v, want %s closed %v", ids, v, id, want)
				}
			}
		}
	})
}

// A clock that is late by anything up to clockSlack changes no answer; one that is later may, and CheckAt never.
func TestALateClockChangesNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(exact())
		g := s.Gate("key")
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		span := func() time.Duration { return time.Duration(r.Int64N(int64(4*time.Second))) - 2*time.Second }
		for range 20_000 {
			now := time.Now()
			var ds []schemas.Decision
			for _, rule := range []string{"a", "b"} {
				from := now.Add(span())
				ds = append(ds, decision(rule, from, from.Add(max(1, span()))))
			}
			ds[1].Mode = schemas.Mode(1 + r.IntN(2))
			s.ApplyAt(now.Add(-4*time.Second), ds) // so that none has ended when it comes
			s.clock.unix.Store(now.Add(-time.Duration(r.Int64N(int64(clockSlack) + 1))).UnixNano())
			want := s.CheckAt(callersOf2(g, "abc"), now)
			got := s.Check(callersOf2(g, "abc"))
			if g.Closed("abc") != want.Closed || got.Closed != want.Closed || got.Shadow != want.Shadow || !got.Until.Equal(want.Until) {
				t.Fatalf("%+v with a clock late by %v: got %+v, want %+v", ds, now.Sub(time.Unix(0, s.clock.unix.Load())), got, want)
			}
			if got.RetryAfter < want.RetryAfter || got.RetryAfter > want.RetryAfter+clockSlack {
				t.Fatalf("got to retry after %v, want %v or as much more as the clock is late", got.RetryAfter, want.RetryAfter)
			}
		}
	})
}

// After a pause the first tick corrects the clock. Before it, answers of CheckAt at time.Now are right.
func TestPausedClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(exact())
		g := s.Gate("key")
		s.Apply([]schemas.Decision{decision("a", time.Now(), time.Now().Add(time.Minute))})
		s.clock.unix.Store(time.Now().UnixNano())
		<-time.After(3 * time.Minute) // the ticker stood still
		if v := s.CheckAt(callersOf2(g, "abc"), time.Now()); v.Closed {
			t.Errorf("got %+v, want open by the time that was given", v)
		}
		stop := running(t, s) // and runs again
		defer stop()
		if g.Closed("abc") || s.Check(callersOf2(g, "abc")).Closed {
			t.Error("got closed after the first tick, want open")
		}
	})
}

func decision(rule string, closeAt, until time.Time) schemas.Decision {
	return schemas.Decision{
		Rule: rule, Caller: schemas.Caller{Kind: "key", ID: "abc"}, Mode: schemas.ModeEnforce,
		CloseAt: closeAt.UnixNano(), Until: until.UnixNano(),
	}
}

// The policy Open asks at each hit whether the closure's partition is stale, whatever the clock says.
func TestTheCoarseClockHidesNoStalePartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := exact()
		o.Stale = Open
		s := New(o)
		g := s.Gate("key")
		s.Partitions(1)
		s.Heartbeat(schemas.Heartbeat{Epoch: 1}, time.Now())
		s.Apply([]schemas.Decision{decision("a", time.Now(), time.Now().Add(time.Hour))})
		stop := running(t, s)
		defer stop()
		if !g.Closed("abc") {
			t.Error("got open while fresh, want closed")
		}
		<-time.After(DefaultStaleAfter)
		if g.Closed("abc") || s.Check(callersOf2(g, "abc")).Closed {
			t.Error("got closed while stale, want open")
		}
	})
}
