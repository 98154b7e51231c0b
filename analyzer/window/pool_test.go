package window

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// poolKinds is Pool as a kind, for the properties that it shares with what rules name.
func poolKinds() []Kind {
	return []Kind{{New: func(length time.Duration, _ int, _ int64) Algorithm { return NewPool(length) }}}
}

// TestPoolProperties: a Pool has the properties of all algorithms, but it may be full with less than the limit, and closes whom no order
// of entries would close: it goes by log time.
func TestPoolProperties(t *testing.T) {
	all := properties()
	delete(all, "full at the capacity")
	delete(all, "no order closes an innocent")
	for name, property := range all {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { property(t, poolKinds()) })
		})
	}
}

// holdsItsLimit reports whether windows of an algorithm are full when they hold the limit.
func holdsItsLimit(a Algorithm) bool {
	_, shared := a.(Pool)
	return !shared
}

// TestPoolStories: of a window of 10 s and a limit of 5, so that an admitted request costs 2 s, and 5 s are half a window.
func TestPoolStories(t *testing.T) {
	tests := map[string][]step{
		"open until more than half a window is owed": {
			{at: 0, weight: 1, total: 1, until: open},
			{at: 0, weight: 1, total: 2, until: open},
			{at: 0, weight: 1, total: 3, until: sec},
			{at: sec, weight: 0, total: 3, until: open},
			{at: sec, weight: 1, total: 4, until: 3 * sec},
		},
		"just half a window is no more": {
			{at: 0, weight: 2, total: 2, until: open},
			{at: 1 * sec, weight: 1, total: 3, until: open}, // owed until 6 s
			{at: 1 * sec, weight: 1, total: 4, until: 3 * sec},
		},
		"what drained is not saved up": {
			{at: 0, weight: 1, total: 1, until: open},
			{at: 100 * sec, weight: 2, total: 2, until: open},
			{at: 100 * sec, weight: 1, total: 3, until: 101 * sec},
		},
		"five windows are owed at most": {
			{at: 0, weight: 25, total: 25, until: 45 * sec},
			{at: 0, weight: 1, total: 26, until: 45 * sec},
			{at: 0, weight: math.MaxInt64, total: math.MaxInt64, until: 45 * sec},
			{at: 4 * sec, weight: 1, total: math.MaxInt64, until: 47 * sec},
			{at: 20 * sec, weight: 1, total: 1, until: 49 * sec},
		},
		"demand leaves a quarter of a window at a time": {
			{at: 2400 * ms, weight: 1, total: 1, until: open},
			{at: 2500 * ms, weight: 1, total: 2, until: open},
			{at: 9999 * ms, weight: 1, total: 3, until: open},
			{at: 10 * sec, weight: 0, total: 2, until: open},
			{at: 12500*ms - 1, weight: 0, total: 2, until: open},
			{at: 12500 * ms, weight: 0, total: 1, until: open},
			{at: 17500 * ms, weight: 0, total: 0, until: open},
		},
		"an older entry counts as if it came now": {
			{at: 100 * sec, weight: 1, total: 1, until: open},
			{at: 80 * sec, weight: 2, total: 3, until: 101 * sec},
			{at: 109 * sec, weight: 0, total: 3, until: open},
		},
		"before 1970": {
			{at: -100 * sec, weight: 3, total: 3, until: -99 * sec},
			{at: -91 * sec, weight: 1, total: 4, until: open},
			{at: -90 * sec, weight: 0, total: 1, until: open},
		},
		"nothing is nothing": {
			{at: 7 * sec, weight: 0, total: 0, until: open},
			{at: 7 * sec, weight: -5, total: 0, until: open},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) { story(t, NewPool(10*sec), 5, steps...) })
	}
}

// TestWhatAPoolRefusesIsDemand, and costs nothing. Nor does what it admits while there is no limit.
func TestWhatAPoolRefusesIsDemand(t *testing.T) {
	p := NewPool(10 * sec)
	s := p.Ask(nil, second, 3)
	s = p.Ask(s, second, -4)
	s = p.Spend(s, math.MaxInt64, second, 1000)
	if got, want := p.View(s, 5, second), (Count{Total: 1003, Start: -7500 * int64(ms), Until: second}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	s = p.Spend(s, 5*PoolUnit, second, 3)
	if got, want := p.View(s, 5, second), (Count{Total: 1006, Start: -7500 * int64(ms), Until: 2 * second}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestALimitThatChangesCostsFromThenOn: a bucket holds time, so that what is owed stays what it is.
func TestALimitThatChangesCostsFromThenOn(t *testing.T) {
	p := NewPool(10 * sec)
	s := p.Spend(nil, 5*PoolUnit, 0, 3) // 6 s
	for _, step := range []struct{ limit, owed int64 }{{10 * PoolUnit, 7}, {PoolUnit, 17}, {math.MaxInt64, 17}, {2 * PoolUnit, 22}} {
		s = p.Spend(s, step.limit, 0, 1)
		if got := p.View(s, 5, 0).Until + 5*second; got != step.owed*second {
			t.Errorf("one request of %d: got %d ns owed, want %d s", step.limit, got, step.owed)
		}
	}
	if once := p.Spend(nil, 5*PoolUnit, 0, 1); p.View(once, 5, 0).Full(0) {
		t.Error("got a caller closed for one of five requests")
	}
	for limit, full := range map[int64]bool{1e17: true, math.MaxInt64: false} {
		if _, got := p.Add(nil, limit, 0, limit); got.Full(0) != full {
			t.Errorf("limit %d, and as many requests: got %+v, want full %v", limit, got, full)
		}
	}
	if none := p.Spend(nil, 0, 0, 1); p.View(none, 5, 0).Until != 45*second {
		t.Errorf("got until %d with no share at all, want the longest time", p.View(none, 5, 0).Until)
	}
}

// TestAskedIsAboutQuarters: what was asked for in the four quarters that end with one, for tallies of quarters that are over.
func TestAskedIsAboutQuarters(t *testing.T) {
	p := NewPool(10 * sec)
	var s State
	for i, weight := range []int64{1, 10, 0, 100, 1000, 10_000} {
		s = p.Ask(s, int64(i)*p.Quarter()+1, weight)
	}
	for quarter, want := range map[int64]int64{1: 0, 2: 0, 3: 100, 4: 1100, 5: 11_100, 6: 11_100, 7: 11_000, 8: 10_000, 9: 0, math.MinInt64: 0, math.MaxInt64: 0} {
		if got := p.Asked(s, quarter); got != want {
			t.Errorf("quarter %d: got %d, want %d", quarter, got, want)
		}
	}
	if got := p.Asked(nil, 5); got != 0 {
		t.Errorf("got %d of no state", got)
	}
	if got := p.Newest(s); got != 12500*int64(ms) {
		t.Errorf("got %v, want the begin of the newest quarter", time.Duration(got))
	}
	if s = p.Ask(s, 8*p.Quarter(), 5); p.Asked(s, 8) != 10_005 {
		t.Errorf("after three quarters: got %d, want 10,005", p.Asked(s, 8))
	}
	if got := NewPool(1).Quarter(); got != 1 {
		t.Errorf("got a quarter of %d", got)
	}
	for limit, want := range map[int64]int64{-3: 1, 0: 1, 7: 7} {
		if got := p.Capacity(limit); got != want {
			t.Errorf("limit %d: got a capacity of %d, want %d", limit, got, want)
		}
	}
}

// TestACallerOfAPoolGetsItsShare: whatever it asks for and however late gates learn of closures, what it got too much is paid back.
func TestACallerOfAPoolGetsItsShare(t *testing.T) {
	const windows = 200
	rapid.Check(t, func(t *rapid.T) {
		p, length := NewPool(time.Second), second
		share := rapid.Int64Range(20*PoolUnit, 400*PoolUnit).Draw(t, "share")
		rate := rapid.Float64Range(1.2, 7).Draw(t, "times of it that are asked for")
		maxLag := rapid.Int64Range(0, length/2).Draw(t, "longest lag")
		type closure struct{ from, until int64 } // as the gate learns it
		var s State
		var closures []closure
		admitted, pause := 0, int64(float64(length)*PoolUnit/float64(share)/rate)
		for now := int64(0); now < windows*length; now += pause {
			closures = slices.DeleteFunc(closures, func(c closure) bool { return c.until <= now })
			if slices.ContainsFunc(closures, func(c closure) bool { return c.from <= now }) {
				s = p.Ask(s, now, 1)
				continue
			}
			admitted++
			s = p.Spend(s, share, now, 1)
			if until := p.View(s, 0, now).Until; until > now && len(closures) == 0 || len(closures) > 0 && until > closures[len(closures)-1].until {
				closures = append(closures, closure{now + rapid.Int64Range(0, maxLag).Draw(t, "lag"), until})
			}
		}
		got, want := float64(admitted), windows*float64(share)/PoolUnit
		if off := math.Abs(got-want) / want; off > float64(maxDebt+1)/windows {
			t.Fatalf("got %.0f requests admitted, want %.0f", got, want)
		}
	})
}

// TestASmallShareIsARequestNowAndThen: less than one in a window, but at least one in four and a half windows, because no more is ever owed.
func TestASmallShareIsARequestNowAndThen(t *testing.T) {
	p, length := NewPool(time.Second), second
	for _, test := range []struct{ share, want int64 }{{2 * PoolUnit, 200}, {PoolUnit, 100}, {300, 30}, {250, 25}, {100, 22}, {1, 22}} {
		var s State
		var admitted int64
		for now := int64(0); now < 100*length; now += length / 100 {
			if p.View(s, 0, now).Full(now) {
				s = p.Ask(s, now, 1)
				continue
			}
			admitted++
			s = p.Spend(s, test.share, now, 1)
		}
		if admitted < test.want || admitted > test.want+1 {
			t.Errorf("a share of %d thousandths: got %d requests in 100 windows, want %d, and one at the start", test.share, admitted, test.want)
		}
	}
}

// TestCoarsePools: who has no row keeps the demand of three quarters, and owes nothing when it gets one.
func TestCoarsePools(t *testing.T) {
	p := NewPool(10 * sec)
	c := p.Coarse()
	var s State
	for i, weight := range []int64{1, 10, 100, 1000} {
		s = p.Spend(s, PoolUnit, int64(i)*p.Quarter()+1, weight)
	}
	now := 4*p.Quarter() - 1
	coarse := c.Coarsen(slices.Clone(s), now)
	if want := (State{p.Quarter(), 1110}); !slices.Equal(coarse, want) {
		t.Errorf("got %v, want %v", coarse, want)
	}
	if got := c.View(coarse, 5, now).Total; got != 1110 {
		t.Errorf("got %d of what was kept, want all", got)
	}
	refined := c.Refine(coarse, 5, now)
	if got := p.View(refined, 5, now); got.Total != 1110 || got.Full(now) {
		t.Errorf("got %+v, want all, and nothing owed", got)
	}
	if got := c.Coarsen(s, now+10*second); len(got) > 0 {
		t.Errorf("got %v a window later, want nothing", got)
	}
}

// TestAChargeIsWhatWasAskedForTooMuch, in a window of a second under a limit of 100, up to the brim, and never takes anything away.
func TestAChargeIsWhatWasAskedForTooMuch(t *testing.T) {
	const now = 1000 * int64(time.Second)
	p := NewPool(time.Second)
	for _, c := range []struct {
		asked  int64
		drains time.Duration // after now
	}{{50, 0}, {100, 0}, {110, 100 * time.Millisecond}, {149, 490 * time.Millisecond}, {150, 500 * time.Millisecond}, {900, 500 * time.Millisecond}} {
		s := p.Ask(nil, now, c.asked)
		p.Charge(s, 100*PoolUnit, now, 0)
		if got := s[poolTAT] - now; got != int64(c.drains) {
			t.Errorf("%d asked for: the bucket drains in %v, want %v", c.asked, time.Duration(got), c.drains)
		}
		if full := p.View(p.Spend(s, 100*PoolUnit, now, 1), 100, now).Full(now); full != (c.drains >= 500*time.Millisecond) {
			t.Errorf("%d asked for: after one more request, got full %v", c.asked, full)
		}
	}
	for _, phase := range []uint64{0, 1, 249_999_999, 250_000_000, math.MaxUint64} {
		s := p.Ask(nil, now, 900)
		p.Charge(s, 100*PoolUnit, now, phase)
		if got, want := s[poolTAT]-now, 500_000_000+int64(phase%250_000_000); got != want {
			t.Errorf("phase %d: the bucket drains in %d, want %d", phase, got, want)
		}
	}
	s := p.Spend(nil, PoolUnit, now, 3)
	drains := s[poolTAT]
	if p.Charge(s, 2*PoolUnit, now, 0); s[poolTAT] != drains {
		t.Errorf("got a bucket that drains at %d, want %d as before", s[poolTAT], drains)
	}
}
