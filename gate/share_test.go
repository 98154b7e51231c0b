package gate

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// sharing returns a decision that opens the caller and gives it a share, from and to seconds after noon, by the demand of the
// second that ends at measured.
func sharing(rule, caller string, from, to float64, permits, demand int64, measured float64) schemas.Decision {
	d := closing(rule, caller, 0, 0)
	d.Share = &schemas.Share{
		From: at(from).UnixNano(), Until: at(to).UnixNano(), Period: int64(time.Second), Permits: permits, Demand: demand,
		DemandFrom: at(measured - 1).UnixNano(), DemandUntil: at(measured).UnixNano(),
	}
	return d
}

// ask asks n times for a caller at a time, and returns how many requests were admitted, and the last verdict.
func ask(t *testing.T, s *Set, n int, seconds float64, callers ...string) (admitted int, v Verdict) {
	t.Helper()
	for range n {
		if v = check(t, s, seconds, callers...); !v.Closed {
			admitted++
		}
	}
	return admitted, v
}

// announced returns a Set that has counted demand requests of the caller in the second after noon.
func announced(t *testing.T, o Options, caller string, demand int) *Set {
	t.Helper()
	s := New(o)
	s.ApplyAt(at(0), []schemas.Decision{sharing("r", caller, 2, 4, 100, 1, 0)})
	if n, _ := ask(t, s, demand, 0.5, caller); n != demand {
		t.Fatalf("got %d of %d admitted before the share begins, want all", n, demand)
	}
	return s
}

func TestAShareInTime(t *testing.T) {
	const key = "key:x"
	s := announced(t, exact(), key, 30) // of 60 in all gates
	s.ApplyAt(at(1.2), []schemas.Decision{sharing("r", key, 2, 4, 100, 60, 1)})
	if n, _ := ask(t, s, 200, 1.9, key); n != 200 {
		t.Errorf("got %d of 200 admitted before From", n)
	}
	for _, period := range []float64{2, 3} {
		n, v := ask(t, s, 200, period+0.25, key)
		if n != 50 || !v.ClosedFor(0) || v.EarlyFor(0) || v.Rule != "r" || v.RetryAfter != 750*time.Millisecond ||
			!v.Until.Equal(at(period+1)) || !v.CloseAt.Equal(at(period)) || v.Limit != 100 || v.Stale {
			t.Errorf("period %v: got %d admitted, want 50, and then %+v", period, n, v)
		}
		if s.Gate("key").kind != "key" || refusalsOf(s)["r"][0] != uint64(150*(period-1)) {
			t.Errorf("got refusals %v, want 150 a period by the rule", refusalsOf(s))
		}
	}
	if n, _ := ask(t, s, 200, 4, key); n != 200 {
		t.Errorf("got %d of 200 admitted at the share's end, want all", n)
	}
	st := s.Status()
	if st.Closed != 0 || st.Shadow != 0 || st.Shares != 1 || st.Bytes < cellsPerChunk*cellSize {
		t.Errorf("got %+v, want one share and nobody closed", st)
	}
	s.Tick(at(5))
	if st := s.Status(); st.Shares != 0 || st.Expired != 1 {
		t.Errorf("got %d shares, %d expired, want 0 and 1 after a sweep", st.Shares, st.Expired)
	}
	s.verify(t)
}

// TestAGateThatJoins measures nothing before it hears of the share: it has one permit until the next renewal.
func TestAGateThatJoins(t *testing.T) {
	const key = "key:x"
	s := New(exact())
	s.ApplyAt(at(10.2), []schemas.Decision{sharing("r", key, 10, 13, 100, 60, 10)})
	for _, now := range []float64{10.5, 11.5} {
		if n, _ := ask(t, s, 30, now, key); n != 1 {
			t.Errorf("at %v: got %d admitted, want 1", now, n)
		}
	}
	s.ApplyAt(at(12.2), []schemas.Decision{sharing("r", key, 13, 16, 100, 60, 12)})
	if n, _ := ask(t, s, 30, 12.5, key); n != 1 {
		t.Errorf("got %d admitted by the old share, want 1", n)
	}
	if n, _ := ask(t, s, 60, 13, key); n != 50 { // 30 of 60
		t.Errorf("got %d admitted, want 50 by the demand that it has measured", n)
	}
	// A renewal that comes so late that the demand is forgotten changes no permits.
	s.ApplyAt(at(15.5), []schemas.Decision{sharing("r", key, 14, 19, 100, 60, 12)})
	for _, now := range []float64{15.6, 16.1} {
		if n, _ := ask(t, s, 60, now, key); n != 50 {
			t.Errorf("at %v: got %d admitted, want 50 as before", now, n)
		}
	}
}

// TestTheOldShareHoldsUntilThePeriodOfTheNew: a renewal never adds permits to a period.
func TestTheOldShareHoldsUntilThePeriodOfTheNew(t *testing.T) {
	const key = "key:x"
	for name, p := range map[string]struct {
		arrives, from float64
		again         bool // the renewal arrives twice
	}{
		"in time":                  {2.6, 3, false},
		"in time, twice":           {2.6, 3, true},
		"late, within its period":  {2.6, 2, false},
		"late by periods, twice":   {2.6, 1, true},
		"exactly when it begins":   {3, 3, false},
		"late, as a period begins": {3, 2, false},
		"in time, for later on":    {2.6, 5, true},
		"the renewal is the first": {2.6, 2.0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := announced(t, exact(), key, 30)
			s.ApplyAt(at(1.2), []schemas.Decision{sharing("r", key, 2, 9, 100, 60, 1)})
			ask(t, s, 30, 1.5, key)
			total := 0
			n, _ := ask(t, s, 40, 2.5, key)
			total += n
			renewal := sharing("r", key, p.from, 9, 100, 300, 2.25) // 10 permits instead of 50
			s.ApplyAt(at(p.arrives), []schemas.Decision{renewal})
			if p.again {
				s.ApplyAt(at(p.arrives+0.1), []schemas.Decision{renewal})
			}
			if n, _ := ask(t, s, 40, 2.8, key); p.arrives < 2.8 {
				if total += n; total != 50 {
					t.Errorf("got %d admitted in the period in which the renewal came, want 50 of the old share", total)
				}
			}
			want := map[bool]int{true: 10, false: 50}
			for _, now := range []float64{3.5, 4.5, 5.5} {
				begins := math.Max(p.from, math.Ceil(p.arrives))
				if n, _ := ask(t, s, 90, now, key); n != want[now >= begins] {
					t.Errorf("at %v: got %d admitted, want %d", now, n, want[now >= begins])
				}
				s.mu.Lock()
				s.rebuild(at(now).UnixNano())
				s.publish()
				s.mu.Unlock()
				if n, _ := ask(t, s, 9, now, key); n != 0 {
					t.Errorf("at %v: got %d admitted after a rebuild, want none: the permits are spent", now, n)
				}
			}
			if st := s.Status(); st.Shares != 1 || st.Applied == 0 || st.Invalid != 0 {
				t.Errorf("got %+v, want one cell", st)
			}
			s.verify(t)
		})
	}
}

func TestADecisionWithoutAShareTakesItAway(t *testing.T) {
	const key = "key:x"
	s := announced(t, exact(), key, 60)
	s.ApplyAt(at(1.2), []schemas.Decision{sharing("r", key, 2, 9, 10, 60, 1), sharing("other", key, 2, 9, 10, 60, 1)})
	if st := s.Status(); st.Shares != 2 {
		t.Errorf("got %d shares, want one of each rule", st.Shares)
	}
	s.ApplyAt(at(2.1), []schemas.Decision{closing("other", key, 2, 3)})
	if v := check(t, s, 2.5, key); !v.Closed || v.Rule != "other" {
		t.Errorf("got %+v, want closed by the other rule", v)
	}
	if n, _ := ask(t, s, 50, 3.5, key); n != 10 {
		t.Errorf("got %d admitted, want 10 by the share that is left", n)
	}
	s.ApplyAt(at(4), []schemas.Decision{closing("r", key, 0, 0)})
	if n, _ := ask(t, s, 50, 4.5, key); n != 50 {
		t.Errorf("got %d admitted, want all", n)
	}
	if st := s.Status(); st.Shares != 0 {
		t.Errorf("got %d shares, want none", st.Shares)
	}
	s.verify(t)
}

// TestSpansComeBeforeShares: while a closure is in force no permit is spent, but demand counts on.
func TestSpansComeBeforeShares(t *testing.T) {
	const key = "key:x"
	s := announced(t, exact(), key, 30)
	d := sharing("r", key, 2, 9, 100, 60, 1)
	d.CloseAt, d.Until, d.Early = at(1.5).UnixNano(), at(2.5).UnixNano(), true
	s.ApplyAt(at(1.2), []schemas.Decision{d})
	if n, v := ask(t, s, 40, 2.2, key); n != 0 || !v.EarlyFor(0) || !v.Until.Equal(at(2.5)) {
		t.Errorf("got %d admitted, %+v, want none, and early until the closure ends", n, v)
	}
	if n, v := ask(t, s, 60, 2.6, key); n != 50 || v.EarlyFor(0) || !v.ClosedFor(0) {
		t.Errorf("got %d admitted, %+v, want the 50 permits of the period, and then not early", n, v)
	}
	s.ApplyAt(at(3.2), []schemas.Decision{sharing("r", key, 4, 9, 100, 100, 3)})
	if n, _ := ask(t, s, 200, 4.5, key); n != 100 {
		t.Errorf("got %d admitted, want 100: all demand was here, blocked or not", n)
	}
}

// TestWhatAnotherCallerIsRefusedIsNoDemand: the recorder does not record such a request for the caller with the share.
func TestWhatAnotherCallerIsRefusedIsNoDemand(t *testing.T) {
	const key, tenant = "key:x", "tenant:t"
	for _, mode := range []Mode{Enforce, Shadow} {
		s := announced(t, exact(), key, 30)
		s.SetMode(mode)
		s.ApplyAt(at(0.6), []schemas.Decision{closing("b", tenant, 0.6, 0.9)})
		if n, _ := ask(t, s, 30, 0.7, key, tenant); (n == 0) != (mode == Enforce) {
			t.Errorf("%v: got %d admitted", mode, n)
		}
		s.SetMode(Enforce)
		s.ApplyAt(at(1.2), []schemas.Decision{sharing("r", key, 2, 4, 100, 100, 1)})
		want := map[Mode]int{Enforce: 30, Shadow: 60}[mode]
		if n, _ := ask(t, s, 100, 2.5, key); n != want {
			t.Errorf("%v: got %d admitted, want %d", mode, n, want)
		}
	}
}

// TestSharesWithOneCellFreeItOnce: the share in force, and renewals that wait, have one cell.
func TestSharesWithOneCellFreeItOnce(t *testing.T) {
	const key = "key:x"
	for name, end := range map[string]func(*Set){
		"opened":            func(s *Set) { s.ApplyAt(at(2.7), []schemas.Decision{closing("r", key, 0, 0)}) },
		"closed":            func(s *Set) { s.ApplyAt(at(2.7), []schemas.Decision{closing("r", key, 0, 9)}) },
		"swept":             func(s *Set) { s.Tick(at(99)) },
		"gone in a rebuild": func(s *Set) { s.rebuild(at(99).UnixNano()) },
	} {
		s := announced(t, exact(), key, 30)
		for i := range 9 { // of which some wait
			s.ApplyAt(at(2.5), []schemas.Decision{sharing("r", key, 3+float64(i), 20, 100, int64(60+i), 1)})
		}
		g := s.Gate("key")
		cc := s.writer.table.find(g.sum("x"), g.tag(), "x")
		if st := s.Status(); st.Shares != 1 || cc.len() != maxHeld+1 {
			t.Errorf("%s: got %d cells, %d shares of the rule, want 1 and %d", name, st.Shares, cc.len(), maxHeld+1)
		}
		if end(s); s.Status().Shares != 0 {
			t.Errorf("%s: got %d cells in use, want none", name, s.Status().Shares)
		}
		s.verify(t)
	}
}

func TestShadowSharesAdmit(t *testing.T) {
	const key = "key:x"
	s := announced(t, exact(), key, 60)
	s.ApplyAt(at(1.2), []schemas.Decision{shadowed(sharing("r", key, 2, 9, 10, 60, 1))})
	n, v := ask(t, s, 50, 2.5, key)
	if n != 50 || !v.Shadow || v.ClosedFor(0) || v.Rule != "r" || refusalsOf(s)["r"] != [2]uint64{0, 40} {
		t.Errorf("got %d admitted, %+v, %v, want all, and 40 of them flagged", n, v, refusalsOf(s))
	}
	s.ApplyAt(at(3), []schemas.Decision{sharing("r", key, 4, 9, 10, 50, 3)})
	s.SetMode(Shadow)
	if n, v := ask(t, s, 50, 4.5, key); n != 50 || !v.Shadow || v.ClosedFor(0) {
		t.Errorf("got %d admitted, %+v, in mode shadow, want all", n, v)
	}
	s.SetMode(Off)
	if n, v := ask(t, s, 50, 5.5, key); n != 50 || v.Shadow {
		t.Errorf("got %d admitted, %+v, in mode off, want all", n, v)
	}
}

// TestStaleGatesAndShares: the policy Open ignores shares of a stale partition. Hold keeps them until they end.
func TestStaleGatesAndShares(t *testing.T) {
	for policy, want := range map[Policy]int{Hold: 10, Open: 50, Closed: 0} {
		o := exact()
		o.Stale = policy
		s := New(o)
		s.liveness.start = at(0)
		s.Partitions(1)
		s.Heartbeat(schemas.Heartbeat{Epoch: 1}, at(0))
		s.ApplyAt(at(0), []schemas.Decision{sharing("r", "key:x", 2, 90, 10, 1, 0)})
		ask(t, s, 60, 0.5, "key:x")
		s.ApplyAt(at(1.2), []schemas.Decision{sharing("r", "key:x", 2, 90, 10, 60, 1)})
		if n, _ := ask(t, s, 50, 2.5, "key:x"); n != 10 {
			t.Errorf("%v: got %d admitted while fresh, want 10", policy, n)
		}
		if n, _ := ask(t, s, 50, 7.5, "key:x"); n != want {
			t.Errorf("%v: got %d admitted while stale, want %d", policy, n, want)
		}
	}
}

func TestSharesThatMakeNoSense(t *testing.T) {
	for name, spoil := range map[string]func(*schemas.Share){
		"no period":           func(s *schemas.Share) { s.Period = 0 },
		"negative period":     func(s *schemas.Share) { s.Period = -1 },
		"endless period":      func(s *schemas.Share) { s.Period = math.MaxInt64 },
		"too long a period":   func(s *schemas.Share) { s.Period = int64(schemas.MaxClosure) + 1 },
		"negative permits":    func(s *schemas.Share) { s.Permits = -1 },
		"no demand":           func(s *schemas.Share) { s.Demand = 0 },
		"negative demand":     func(s *schemas.Share) { s.Demand = math.MinInt64 },
		"demand of no time":   func(s *schemas.Share) { s.DemandUntil = s.DemandFrom },
		"demand reversed":     func(s *schemas.Share) { s.DemandUntil = s.DemandFrom - 1 },
		"demand of all times": func(s *schemas.Share) { s.DemandFrom, s.DemandUntil = math.MinInt64, math.MaxInt64 },
		"reversed":            func(s *schemas.Share) { s.Until = s.From - 1 },
		"of no time":          func(s *schemas.Share) { s.Until = s.From },
		"too long":            func(s *schemas.Share) { s.Until = s.From + int64(schemas.MaxClosure) + 1 },
		"for ever":            func(s *schemas.Share) { s.Until = math.MaxInt64 },
		"since ever":          func(s *schemas.Share) { s.From = math.MinInt64 },
	} {
		t.Run(name, func(t *testing.T) {
			s := New(exact())
			d := sharing("r", "key:x", 1, 9, 10, 10, 0)
			d.Until = at(9).UnixNano()
			spoil(d.Share)
			s.ApplyAt(at(0), []schemas.Decision{d})
			if st := s.StatusAt(at(0)); st.Invalid != 1 || st.Shares != 0 || st.Closed != 0 || check(t, s, 1, "key:x").Closed {
				t.Errorf("got %+v, want the whole decision refused", st)
			}
		})
	}
}

// TestMoreSharesThanCells: further ones are ignored and counted, and closures are applied all the same.
func TestMoreSharesThanCells(t *testing.T) {
	s := New(exact())
	ds := make([]schemas.Decision, 0, maxShares+10)
	for i := range maxShares + 10 {
		d := sharing("r", fmt.Sprint("key:", i), 1, 9, 10, 10, 0)
		d.CloseAt, d.Until = at(3).UnixNano(), at(4).UnixNano()
		ds = append(ds, d)
	}
	s.ApplyAt(at(0), ds)
	if st := s.Status(); st.Shares != maxShares || st.Ignored != 10 || st.Closed != len(ds) {
		t.Errorf("got %d shares, %d ignored, %d closed, want %d, 10, %d", st.Shares, st.Ignored, st.Closed, maxShares, len(ds))
	}
	last := fmt.Sprint("key:", maxShares+9)
	if n, _ := ask(t, s, 50, 1.5, last); n != 50 || !check(t, s, 3, last).Closed {
		t.Errorf("got %d admitted without a share, want all until the closure", n)
	}
	s.verify(t)
	s.Tick(at(10))
	for range 10 {
		s.Tick(at(10))
	}
	if st := s.Status(); st.Shares != 0 {
		t.Errorf("got %d shares after all have ended, want none", st.Shares)
	}
}

// TestClosedSpendsPermits: who asks a Gate and not the Set is limited too, by time.Now, whatever the coarse clock says.
func TestClosedSpendsPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(exact())
		g, now := s.Gate("key"), time.Now()
		stop := running(t, s)
		defer stop()
		d := decision("r", now, now)
		d.Share = &schemas.Share{
			From: now.Add(2 * time.Second).UnixNano(), Until: now.Add(time.Hour).UnixNano(), Period: int64(time.Second),
			Permits: 10, Demand: 1, DemandFrom: now.UnixNano(), DemandUntil: now.Add(time.Second).UnixNano(),
		}
		s.Apply([]schemas.Decision{d})
		admit := func(n int) (admitted int) {
			for range n {
				if !g.Closed("abc") {
					admitted++
				}
			}
			return admitted
		}
		<-time.After(500 * time.Millisecond)
		if n := admit(40); n != 40 {
			t.Errorf("got %d admitted before From, want 40", n)
		}
		<-time.After(time.Second)
		renewed := *d.Share
		renewed.Demand = 80
		d.Share = &renewed
		s.Apply([]schemas.Decision{d})
		for range 3 {
			<-time.After(time.Second)
			if n := admit(40); n != 5 {
				t.Errorf("got %d admitted, want 5", n)
			}
			if v := s.Check(callersOf2(g, "abc")); !v.Closed || v.RetryAfter != 500*time.Millisecond {
				t.Errorf("got %+v, want closed until the period ends", v)
			}
		}
		s.SetMode(Shadow)
		if n := admit(40); n != 40 {
			t.Errorf("got %d admitted in mode shadow, want 40", n)
		}
	})
}

// TestSharesUnderChange: decisions, sweeps and rebuilds run while readers ask, for the race detector; the permits of one
// period are never exceeded, whatever the writer does.
func TestSharesUnderChange(t *testing.T) {
	const key, permits = "key:x", 700
	s := announced(t, exact(), key, 60)
	renewal := sharing("r", key, 2, 9, permits, 60, 1)
	s.ApplyAt(at(1.2), []schemas.Decision{renewal})
	g := s.Gate("key")
	var mu sync.Mutex
	admitted := 0
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			mine := 0
			for range 3000 {
				if v := s.CheckAt(callersOf2(g, "x"), at(2.5)); !v.Closed {
					mine++
				}
			}
			mu.Lock()
			admitted += mine
			mu.Unlock()
		})
	}
	wg.Go(func() {
		for i := range 300 {
			ds := []schemas.Decision{renewal, sharing("other", fmt.Sprint("key:y", i%20), 2, 9, 10, 60, 1)}
			if i%3 == 0 {
				ds[1] = closing("other", fmt.Sprint("key:y", i%20), 0, 0)
			}
			s.ApplyAt(at(2.5), ds)
			s.Tick(at(2.5))
			s.mu.Lock()
			s.rebuild(at(2.5).UnixNano())
			s.publish()
			s.mu.Unlock()
		}
	})
	wg.Wait()
	if admitted != permits {
		t.Errorf("got %d admitted, want %d", admitted, permits)
	}
	s.verify(t)
}
