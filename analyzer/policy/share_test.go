package policy

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/rules"
)

const second = 1000 * ms

// asker is a caller whose Sharing is asked each 10 ms.
type asker struct {
	s        Sharing
	o        ShareOutlook
	admitted float64 // of what is demanded
	news     []int64 // when there was news, in milliseconds
}

func newAsker(r *rules.Rule, gates int64) *asker {
	a := &asker{admitted: 0.5}
	a.o = ShareOutlook{Rule: r, Limit: r.Limit, Gates: gates, Lag: Lag{Mean: 100 * ms, Deviation: 5 * ms}, LagCap: 250 * ms, Now: 1_790_000_000_000 * ms}
	return a
}

// close notes n closes, each a window after the other.
func (a *asker) close(n int) *asker {
	for range n {
		before := a.o.Closure
		a.o.Closure = Closure{CloseAt: a.o.Now, Until: a.o.Now + a.o.Rule.Window.Length(0)/2, Nth: 1}
		a.s.Closed(a.o.Rule, before, a.o.Closure)
	}
	return a
}

// ask lets a caller demand so much a second for so many milliseconds.
func (a *asker) ask(rate int64, length int64) *asker {
	for end := a.o.Now + length*ms; a.o.Now < end; {
		a.o.Now += 10 * ms
		admitted := int64(float64(rate) / 100 * a.admitted)
		a.s.Asked(a.o.Rule, a.o.Limit, a.o.Now, admitted, true)
		a.s.Asked(a.o.Rule, a.o.Limit, a.o.Now, rate/100-admitted, false)
		a.o.Rate, a.o.AsOf, a.o.Heard = rate*1000, a.o.Now, a.o.Now-20*ms
		a.o.Closure.Until = max(a.o.Closure.Until, a.o.Now+ms) // it is closed
		if a.s.Step(&a.o) {
			a.news = append(a.news, a.o.Now/ms)
		}
	}
	return a
}

// inForce reports whether permits hold, or will.
func (a *asker) inForce() bool { return a.s.Since() != never }

// TestWhoGetsAShare: a caller that asks for twice its limit of 1000 a second gets a share, in force in the fourth second; and others
// do not.
func TestWhoGetsAShare(t *testing.T) {
	const fixed = "limit: 1000, window: 1s, algorithm: fixed"
	for name, test := range map[string]struct {
		rule         string
		closes       int
		rate, before int64 // of requests a second, and before the last four seconds
		gates        int64
		lag          int64 // in milliseconds
		want         bool
	}{
		"twice its limit":                         {fixed, 2, 2000, 2000, 2, 100, true},
		"an exact log":                            {"limit: 1000, window: 1s, algorithm: log", 2, 2000, 2000, 2, 100, true},
		"slots":                                   {"limit: 1000, window: 1s", 2, 2000, 2000, 2, 100, true},
		"was closed once":                         {fixed, 1, 2000, 2000, 2, 100, false},
		"was closed once, but floods":             {fixed, 1, 5000, 5000, 2, 100, true},
		"was never closed":                        {fixed, 0, 5000, 5000, 2, 100, false},
		"barely over its limit":                   {fixed, 2, 1050, 1050, 4, 100, false},
		"the same for one gate and a great limit": {"limit: 100000, window: 1s, algorithm: fixed", 2, 105000, 105000, 1, 100, true},
		"too many gates":                          {fixed, 2, 2000, 2000, 500, 100, false},
		"no gates":                                {fixed, 2, 2000, 2000, 0, 100, false},
		"one permit in a period":                  {"limit: 15, window: 1s, slots: 20", 2, 200, 200, 1, 100, true},
		"a hundredth comes in a lag":              {fixed, 2, 2000, 2000, 2, 5, true},
		"too little comes in a lag":               {fixed, 2, 2000, 2000, 2, 4, false},
		"the lag is too long":                     {fixed, 2, 2000, 2000, 2, 251, false},
		"slots longer than four lags":             {"limit: 1000, window: 1s, slots: 2", 2, 2000, 2000, 2, 100, false},
		"a bucket":                                {"limit: 1000, window: 1s, algorithm: gcra", 2, 2000, 2000, 2, 100, false},
		"a calendar":                              {"limit: 1000, window: hour", 2, 2000, 2000, 2, 100, false},
		"closures that last":                      {fixed + ", close_for: 3s", 2, 2000, 2000, 2, 100, false},
		"closures that grow":                      {fixed + ", close_for: 3s, escalate: {factor: 2, max: 1m}", 2, 2000, 2000, 2, 100, false},
		"blocked requests count":                  {fixed + ", count_blocked: true", 2, 2000, 2000, 2, 100, false},
		"some resources only":                     {fixed + ", match: {resource: /a}", 2, 2000, 2000, 2, 100, false},
		"a status":                                {fixed + ", match: {status: 404}", 2, 2000, 2000, 2, 100, false},
		"costs":                                   {fixed + ", measure: cost", 2, 2000, 2000, 2, 100, false},
		"predicts only early closes":              {fixed + ", predict: early", 2, 2000, 2000, 2, 100, false},
		"very short windows":                      {"limit: 1000, window: 5ms, algorithm: fixed", 2, 2000, 2000, 2, 100, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAsker(rule(t, test.rule), test.gates)
			a.o.Lag = Lag{Mean: test.lag * ms}
			a.close(test.closes).ask(test.before, 1000).ask(test.rate, 4000)
			if a.inForce() != test.want {
				t.Errorf("got %v, want %v; news at %v", a.inForce(), test.want, a.news)
			}
			if s := a.s.Share(a.o.Rule, a.o.Limit, a.o.Now); (s != nil) != test.want {
				t.Errorf("got share %+v", s)
			}
		})
	}
}

// TestAShareBeginsAndEnds tells of one caller.
func TestAShareBeginsAndEnds(t *testing.T) {
	r := rule(t, "limit: 1000, window: 1s, algorithm: fixed")
	a := newAsker(r, 2)
	begin := a.o.Now
	a.close(2).ask(2000, 3000)
	if len(a.news) < 1 || len(a.news) > 2 {
		t.Fatalf("got news at %v, want that gates are to measure, and perhaps the first share", a.news)
	}
	a.ask(2000, 5000)
	s := a.s.Share(r, 1000, a.o.Now)
	if s == nil || s.Permits != 1000 || s.Period != second || s.From%second != 0 || s.Until != s.From+6*second || s.DemandUntil-s.DemandFrom != second || s.Demand != 2000 {
		t.Fatalf("got %+v, want 1000 permits a second by a demand of 2000", s)
	}
	if n := len(a.news); n < 5 || n > 8 {
		t.Errorf("got news at %v, want a renewal a second", a.news)
	}
	if since := a.s.Since(); since < begin+2*second || since > begin+4*second || !a.s.Covers(r, 1000, since) || a.s.Covers(r, 1000, since-1) {
		t.Errorf("got permits from %v ms on", (since-begin)/ms)
	}
	t.Run("what it covers", func(t *testing.T) {
		b := *a
		b.o.Closure = Closure{CloseAt: b.o.Now, Until: b.o.Now + 100*ms, Nth: 1}
		for total, want := range map[int64]bool{1000: true, 1010: true, 1011: false} { // 1 % more than the limit
			if got := b.s.Covered(&b.o, total); got != want {
				t.Errorf("%d of 1000: got covered %v, want %v", total, got, want)
			}
		}
		b.o.Gates = 25
		if !b.s.Covered(&b.o, 1025) || b.s.Covered(&b.o, 1026) {
			t.Error("25 gates: want one request more of each covered, and no more")
		}
		b.o.Closure.CloseAt = b.s.Since() - 1
		if b.s.Covered(&b.o, 1000) {
			t.Error("got a close covered that came before the share")
		}
	})
	t.Run("nobody renews it", func(t *testing.T) {
		b := *a
		b.o.LagCap = b.o.Lag.Mean - 1
		last := *b.s.Share(r, 1000, b.o.Now)
		if b.ask(2000, 4000); len(b.news) != len(a.news) || *b.s.Share(r, 1000, b.o.Now) != last {
			t.Errorf("got news at %v, want the share as it was", b.news)
		}
		if b.ask(2000, 4000); b.s.Share(r, 1000, b.o.Now) != nil || b.s.Covers(r, 1000, b.o.Now) {
			t.Error("got a share after its end, want none")
		}
		n, again := len(b.news), b.o.Now
		b.o.LagCap = 250 * ms
		if b.close(2).ask(2000, 500); len(b.news) != n+1 || b.inForce() {
			t.Errorf("got news at %v, in force %v, want that gates are to measure again", b.news[n:], b.inForce())
		}
		if b.ask(2000, 3500); !b.inForce() || b.s.Since() < again+second {
			t.Errorf("got permits from %v on, want them when gates have measured", b.s.Since()-again)
		}
	})
	t.Run("less is demanded", func(t *testing.T) {
		b := *a
		if b.ask(850, 1500); b.inForce() || len(b.news) > len(a.news)+3 {
			t.Errorf("got news at %v, in force %v, want that it ended", b.news, b.inForce())
		}
		if !b.s.Refuses(r, 1000, b.news[len(b.news)-1]*ms) {
			t.Error("gates that do not know yet refuse requests, but that is not noticed")
		}
	})
	t.Run("permits are left over", func(t *testing.T) {
		b := *a
		b.admitted = 0.4
		ended := int64(0)
		for i := 0; i < 300 && ended == 0; i++ {
			if b.ask(2000, 10); !b.inForce() {
				ended = b.o.Now
			}
		}
		n := len(b.news)
		b.close(2).ask(2000, 1900)
		if ended == 0 || len(b.news) != n {
			t.Errorf("ended after %v ms, then news at %v, want the end within 3 s, and rest for two renewals", (ended-a.o.Now)/ms, b.news[n:])
		}
		b.admitted = 0.5
		if b.close(2).ask(2000, 4000); !b.inForce() {
			t.Error("got no share after the rest, want one")
		}
	})
	t.Run("a tenth of the permits is left over", func(t *testing.T) {
		b := *a
		b.admitted = 0.45
		if b.ask(2000, 3000); !b.inForce() {
			t.Error("the share has ended, want it to go on")
		}
	})
	t.Run("gates hold a closure, and so permits are left over", func(t *testing.T) {
		b := *a
		b.admitted = 0.4
		b.s.Published(b.o.Now + 5*second)
		if b.ask(2000, 3000); !b.inForce() {
			t.Error("the share has ended, want it to go on")
		}
	})
}

// TestPermitsThatAreLeftOverAtOnce: the first renewal period of a share counts already, when all servers have told of it.
func TestPermitsThatAreLeftOverAtOnce(t *testing.T) {
	a := newAsker(rule(t, "limit: 1000, window: 1s, algorithm: fixed"), 2).close(2)
	for !a.inForce() {
		a.ask(2000, 10)
	}
	since := a.s.Since()
	a.ask(2000, (since-a.o.Now)/ms)
	for a.admitted = 0.4; a.inForce() && a.o.Now < since+5*second; {
		a.ask(2000, 10)
	}
	if lasted := a.o.Now - since; lasted < second || lasted > second+50*ms {
		t.Errorf("got a share that lasted %d ms, want it to end after the first second", lasted/ms)
	}
}

// TestAnExactLogIsCoveredForAWhile: it is full for a period and a hundredth of the window at most. A caller that is closed for longer has
// spent more than its permits.
func TestAnExactLogIsCoveredForAWhile(t *testing.T) {
	a := newAsker(rule(t, "limit: 1000, window: 1s, algorithm: log"), 2).close(2).ask(2000, 5000)
	if !a.inForce() {
		t.Fatal("got no share")
	}
	for length, want := range map[int64]bool{60 * ms: true, 60*ms + 1: false} { // periods are of 50 ms
		a.o.Closure = Closure{CloseAt: a.o.Now, Until: a.o.Now + length, Nth: 1}
		if got := a.s.Covered(&a.o, 1000); got != want {
			t.Errorf("closed for %d ns: got covered %v, want %v", length, got, want)
		}
	}
}

// TestHowLongDemandIsMeasured: a second, or longer where gates hear of it late, or where few requests say what part of them each gate has.
func TestHowLongDemandIsMeasured(t *testing.T) {
	const short, long = "limit: 1000, window: 1s, algorithm: fixed", "limit: 1000, window: 8s, algorithm: fixed"
	for name, test := range map[string]struct {
		rule         string
		lag          int64 // ms; 10 more are its margin
		rate         int64 // a second
		ratio, gates int64
		want         int64 // seconds
	}{
		"a short lag":                            {short, 100, 2000, 2000, 2, 1},
		"four times it are a second":             {short, 240, 2000, 2000, 2, 1},
		"four times it are more":                 {short, 241, 2000, 2000, 2, 2},
		"four times it are more than 2 s":        {short, 491, 2000, 2000, 2, 4},
		"many requests":                          {long, 100, 2000, 2000, 2, 1},
		"just as many as are needed":             {long, 100, 1600, 1100, 1, 1},
		"one fewer":                              {long, 100, 1599, 1100, 1, 2},
		"as many, but at two gates":              {long, 100, 1600, 1100, 2, 2},
		"few requests: as long as a period":      {long, 100, 10, 1100, 2, 8},
		"few requests in a period of one second": {short, 100, 10, 1100, 2, 1},
	} {
		r := rule(t, test.rule)
		o := &ShareOutlook{Rule: r, Limit: r.Limit, Rate: test.rate * 1000, Gates: test.gates, Lag: Lag{Mean: test.lag * ms}}
		s := Sharing{length: measuredFor(o, PermitsOf(r, r.Limit), test.ratio)}
		if got := s.measuring(); got != test.want*second {
			t.Errorf("%s: got %d ms, want %d s", name, got/ms, test.want)
		}
	}
}

// TestNoShareUnderTheHysteresis: whatever a caller asks for, and when, gates never get permits for one that by an independent count
// asks for too little.
func TestNoShareUnderTheHysteresis(t *testing.T) {
	r := rule(t, "limit: 1000, window: 1s, algorithm: fixed")
	rapid.Check(t, func(t *rapid.T) {
		gates := rapid.Int64Range(1, 20).Draw(t, "gates")
		a := newAsker(r, gates)
		a.close(2)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		var asked []int64 // by 10 ms
		for range rapid.IntRange(1, 12).Draw(t, "phases") {
			rate := rng.Int64N(3000) / 100 * 100
			for range 1 + rng.IntN(120) {
				before := len(a.news)
				a.ask(rate, 10)
				asked = append(asked, rate/100)
				last := asked[max(0, len(asked)-75):]
				sum := int64(0)
				for _, n := range last {
					sum += n
				}
				if len(a.news) > before && a.inForce() && sum <= 500 {
					t.Fatalf("got a share for %d in %d ms, where 1000 are allowed a second", sum, 10*len(last))
				}
				if s := a.s.Share(r, 1000, a.o.Now); s != nil && (s.From >= s.Until || s.DemandFrom >= s.DemandUntil || s.Demand < 1 || s.Permits != 1000) {
					t.Fatalf("got %+v", s)
				}
			}
		}
	})
}

// TestPermits: what all gates together are given a period.
func TestPermits(t *testing.T) {
	for text, want := range map[string]struct{ period, whole, measured, demand int64 }{
		"limit: 1000, window: 1s, algorithm: fixed":  {second, 1000, 777, 777},
		"limit: 5, window: 1m, algorithm: fixed":     {60 * second, 5, 777, 777},
		"limit: 500, window: 1s":                     {50 * ms, 24, 10_000, 10_080},    // 23.81
		"limit: 500, window: 1s, slots: 100":         {50 * ms, 25, 10_000, 10_100},    // 24.75
		"limit: 500, window: 1s, slots: 32":          {62_500_000, 31, 10_000, 10_230}, // 30.30 in two slots, which are nearest to 50 ms
		"limit: 500, window: 1s, slots: 7":           {142_857_143, 63, 777, 784},      // 62.5
		"limit: 500, window: 1s, algorithm: log":     {50 * ms, 25, 777, 777},
		"limit: 10, window: 1m, algorithm: log":      {3 * second, 1, 1000, 2000}, // 0.5
		"limit: 500, window: 100ms, algorithm: log":  {10 * ms, 50, 777, 777},
		"limit: 500, window: 100ms, slots: 20":       {10 * ms, 48, 10_000, 10_080},
		"limit: 100000000000, window: 1s":            {50 * ms, 4_761_904_762, 2_000_000_000, 2_000_000_000}, // a part of a permit matters no more
		"limit: 500, window: 10ms, algorithm: log":   {},
		"limit: 500, window: 1s, algorithm: gcra":    {},
		"limit: 500, window: month":                  {},
		"limit: 500, window: 1s, close_for: 1s":      {},
		"limit: 500, window: 1s, predict: off":       {},
		"limit: 500, window: 1s, predict: early":     {},
		"limit: 500, window: 1s, measure: responses": {},
	} {
		p := PermitsOf(rule(t, text), rule(t, text).Limit)
		if p.Period != want.period || p.Whole != want.whole {
			t.Errorf("%s: got %d permits in %d ns, want %d in %d", text, p.Whole, p.Period, want.whole, want.period)
		}
		if p.Whole > 0 && p.demand(want.measured) != want.demand {
			t.Errorf("%s: got a demand of %d for %d, want %d", text, p.demand(want.measured), want.measured, want.demand)
		}
	}
}

// TestPermitsFitBesideWhatTheWindowHolds: weight must leave as fast as permits are spent. What came just now leaves a second later.
func TestPermitsFitBesideWhatTheWindowHolds(t *testing.T) {
	r := rule(t, "limit: 500, window: 1s")
	for name, test := range map[string]struct {
		at, weight, rate int64 // ms, and a second
		want             bool
	}{
		"nothing came":      {10_000, 0, 0, true},
		"all came just now": {10_000, 500, 0, false},
		"22 come until then, beside 21 times 23 permits":  {10_000, 0, 220, true}, // 505: a hundredth more than the limit
		"23 come until then":                              {10_000, 0, 230, false},
		"all will have left, and until then no more come": {9_000, 500, 5000, true},
	} {
		o := &ShareOutlook{Rule: r, Limit: 500, Gates: 2, Rate: test.rate * 1000, Now: 10_000 * ms, AsOf: 10_000 * ms, State: held(r, test.at, test.weight)}
		if got := PermitsOf(r, 500).fits(o, 10_100*ms); got != test.want {
			t.Errorf("%s: got fits %v, want %v", name, got, test.want)
		}
	}
}

// TestGatesMayRefuseForTwoLagsAfterAShare: until they have heard of its end for sure.
func TestGatesMayRefuseForTwoLagsAfterAShare(t *testing.T) {
	r := rule(t, "limit: 1000, window: 1s, algorithm: fixed")
	a := newAsker(r, 2).close(2).ask(2000, 5000)
	a.s.end(&a.o)
	for after, want := range map[int64]bool{239 * ms: true, 240 * ms: false} { // twice 100 ms and a margin of 20 ms
		if got := a.s.Refuses(r, 1000, a.o.Now+after); got != want {
			t.Errorf("%d ms after the end: got refuses %v, want %v", after/ms, got, want)
		}
	}
}

// TestHowLongAShareHolds: three periods, and six seconds at least. Nothing waits for a server that is silent for a lag and its margin, and
// 200 ms at least.
func TestHowLongAShareHolds(t *testing.T) {
	for text, want := range map[string]int64{"limit: 5, window: 1m, algorithm: fixed": 180 * second, "limit: 5, window: 1s, algorithm: fixed": 6 * second} {
		if got := PermitsOf(rule(t, text), 5).hold(); got != want {
			t.Errorf("%s: got %d s, want %d", text, got/second, want/second)
		}
	}
	for lag, want := range map[Lag]int64{{Mean: 300 * ms, Deviation: 5 * ms}: 320 * ms, {Mean: 100 * ms}: 200 * ms} {
		if got := lag.Silence(); got != want {
			t.Errorf("%+v: got a silence of %d ms, want %d", lag, got/ms, want/ms)
		}
	}
}

// TestAShareIsSmall: a row with a share takes 320 bytes with its tracker, which takes up to 160.
func TestAShareIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Sharing{}); size > 160 {
		t.Errorf("got %d bytes, want at most 160", size)
	}
}

// TestShareBound: what a share exceeds the limit by at most.
func TestShareBound(t *testing.T) {
	for text, want := range map[string]float64{
		"limit: 1000, window: 1s, algorithm: fixed": 0.003, // 2 gates, a request and a fifth each
		"limit: 500, window: 1s":                    0.008, // 4 of 500, in 21 periods
		"limit: 500, window: 1s, algorithm: log":    0.058, // and 25
		"limit: 500, window: 1s, algorithm: gcra":   0,
	} {
		if got := ShareBound(rule(t, text), rule(t, text).Limit, 2); got.Bound < want-1e-9 || got.Bound > want+1e-9 || got.Expected != 0 {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

// TestSharesThatEndSoonComeBackLater: a caller rests for two renewals of a second; for twice as long each time that its share had been in
// force for less than three, but not forever; and for two again after one that lasted.
func TestSharesThatEndSoonComeBackLater(t *testing.T) {
	r := rule(t, "limit: 1000, window: 1s, algorithm: fixed")
	p, o := PermitsOf(r, 1000), &ShareOutlook{Rule: r, Limit: 1000, Now: 100 * second}
	var s Sharing
	for n, test := range []struct{ lasted, rest int64 }{ // seconds
		{10, 2}, {2, 4}, {1, 8}, {2, 16}, {0, 32}, {2, 32}, {1, 32}, {3, 2}, {1, 4},
	} {
		s.since = o.Now - test.lasted*second
		s.restAfter(o, p)
		if got := s.rest - o.Now; got != test.rest*second {
			t.Errorf("share %d, which lasted %d s: got a rest of %d s, want %d", n, test.lasted, got/second, test.rest)
		}
		o.Now += 100 * second
	}
}

// TestTheFirstShareAnnounces: gates measure for a second, from when they have heard of it for sure. It comes into force two renewals after the
// next one must, and for one nanosecond.
func TestTheFirstShareAnnounces(t *testing.T) {
	for later := range int64(4) {
		a := newAsker(rule(t, "limit: 1000, window: 1s, algorithm: fixed"), 2)
		a.o.Now += later * 250 * ms
		for a.close(2); len(a.news) == 0; {
			a.ask(2000, 10)
		}
		s, heard := a.s.Share(a.o.Rule, 1000, a.o.Now), a.o.Now+120*ms
		if s.DemandFrom < heard || s.DemandFrom >= heard+250*ms || s.DemandUntil != s.DemandFrom+second || s.Demand != 1 {
			t.Errorf("got %+v, which gates hear of at %d, want them to measure for a second then", s, heard)
		}
		if next := s.From - 2*second; next < s.DemandUntil+240*ms || next >= s.DemandUntil+1240*ms || s.Until != s.From+1 {
			t.Errorf("got %+v, want two seconds and two lags after the demand is measured", s)
		}
	}
}

// TestWhenAShareIsRenewed: a lag, its margin and 20 ms before the next second, if servers were heard until then. A late one begins when gates
// will have it.
func TestWhenAShareIsRenewed(t *testing.T) {
	for _, text := range []string{"limit: 1000, window: 1s, algorithm: fixed", "limit: 1000, window: 1s, algorithm: log"} {
		a := newAsker(rule(t, text), 2).close(2).ask(2000, 5000)
		r, p := a.o.Rule, PermitsOf(a.o.Rule, 1000)
		last := a.s.Share(r, 1000, a.o.Now)
		if published := a.news[len(a.news)-1] * ms; last.From-published != 140*ms {
			t.Errorf("%s: got a renewal %d ms ahead, want 140", text, (last.From-published)/ms)
		}
		a.ask(2000, (last.From+p.renewal()-150*ms-a.o.Now)/ms)
		deaf, late, quiet := *a, *a, *a
		quiet.o.Now += 3 * second
		if quiet.o.Heard = quiet.o.Now - 20*ms; quiet.s.renew(&quiet.o, p) {
			t.Errorf("%s: got a share by no demand", text)
		}
		deaf.o.Now += 10 * ms
		if deaf.o.Heard = deaf.o.Now - 880*ms; deaf.s.renew(&deaf.o, p) {
			t.Errorf("%s: got a share by a demand that gates do not remember", text)
		}
		late.o.Now += 210 * ms
		from := up(late.o.Now+120*ms, p.Period)
		if !late.s.renew(&late.o, p) || late.s.Share(r, 1000, late.o.Now).From != from {
			t.Errorf("%s: got %+v, want one from %d on", text, late.s.Share(r, 1000, late.o.Now), from)
		}
	}
}

// TestNoShareBesideAFullWindow: the permits would be spent in addition to what the window holds.
func TestNoShareBesideAFullWindow(t *testing.T) {
	a := newAsker(rule(t, "limit: 1000, window: 1s, algorithm: log"), 2).close(2)
	a.o.State, _ = a.o.Rule.Window.Add(nil, 1000, a.o.Now+20*second, 1000)
	if a.ask(2000, 3000); a.inForce() || len(a.news) != 1 {
		t.Errorf("got news at %v, in force %v, want that gates are to measure, and no more", a.news, a.inForce())
	}
	a.o.State = nil
	if a.ask(2000, 500); !a.inForce() {
		t.Error("got no share of an empty window")
	}
}

// TestWhatAShareOfSlotsCovers: where a period has several slots, also the permits of one period. With 100 slots, only a part of the last
// period lies in the window: when it was counted in full, callers of such rules never got a share.
func TestWhatAShareOfSlotsCovers(t *testing.T) {
	for text, want := range map[string]int64{"limit: 1000, window: 1s, slots: 20": 1010, "limit: 1000, window: 1s, slots: 100": 1060} {
		a := newAsker(rule(t, text), 2).close(2).ask(2000, 5000)
		a.o.Closure = Closure{CloseAt: a.o.Now, Until: a.o.Now + 100*ms, Nth: 1}
		if !a.s.Covered(&a.o, want) || a.s.Covered(&a.o, want+1) {
			t.Errorf("%s: want %d covered, and no more", text, want)
		}
		until := a.s.Share(a.o.Rule, 1000, a.o.Now).Until
		if a.s.Covers(a.o.Rule, 1000, until) || !a.s.Covers(a.o.Rule, 1000, until-1) || a.s.Share(a.o.Rule, 1000, until) != nil {
			t.Errorf("%s: want it to end at its end", text)
		}
	}
	if (&Sharing{}).Refuses(rule(t, "limit: 1000, window: 1s"), 1000, second) {
		t.Error("a caller without a share is refused for want of permits")
	}
}

// TestClosesInARow: a close counts as one in a row if it follows within a window. Gates know of each closure up to the published one.
func TestClosesInARow(t *testing.T) {
	r := rule(t, "limit: 1000, window: 1s, algorithm: fixed")
	for pause, want := range map[int64]uint8{second - 1: 2, second: 1} {
		var s Sharing
		first := Closure{CloseAt: 5 * second, Until: 6 * second, Nth: 1}
		s.Closed(r, Closure{}, first)
		s.Closed(r, first, Closure{CloseAt: 6*second + pause, Until: 8 * second, Nth: 1})
		if s.closesInRow != want {
			t.Errorf("after %d ns: got %d closes in a row, want %d", pause, s.closesInRow, want)
		}
	}
	var s Sharing
	if s.Published(6 * second); !s.IsPublished(6*second) || s.IsPublished(6*second+1) {
		t.Error("want a closure until the sixth second published, and no later one")
	}
}
