package simulate

import (
	"math"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
)

// lastsOf returns the books of a rule of costs, or of requests in flight, with a limit of 10, in a run without warm-up.
func lastsOf(t testing.TB, inFlight bool, window string) *measure {
	t.Helper()
	set := rulesOf(t, 10, window, ", measure: cost")
	m := newMeasure(&Config{Rules: set, Start: start, Holds: true}, set.Rules[0])
	if m.lasts == nil {
		t.Fatal("got no books for a rule of costs")
	}
	if inFlight {
		m.lasts.inFlight, m.aligned = true, false
	}
	return m
}

// measured returns what a limiter shows of a run of one caller.
func measured(m *measure, end int64) (l Limiter) {
	s := m.order[0]
	m.close(s, end)
	l.tally.last(m, s, &Result{start: start, from: m.lasts.from}, end)
	l.compute(&l.tally)
	return l
}

// TestWhatIsServedOfAWindow: over, used, what was refused for nothing, and who got it.
func TestWhatIsServedOfAWindow(t *testing.T) {
	type request struct {
		at     float64 // seconds
		cost   int64
		client int
		ours   bool
	}
	for name, tt := range map[string]struct {
		requests []request
		class    func(time.Duration) class
		warmup   time.Duration
		want     Limiter
	}{
		"over by 3 of 10, and half used": {
			[]request{{0.1, 13, 0, true}, {0.2, 5, 0, false}, {1.5, 5, 0, true}, {1.6, 15, 0, false}},
			nil, 0, Limiter{Overshoot: Quantiles{2, 0.15, 0.3, 0.3}, Used: 0.75},
		},
		"refused what would have fitted": {
			[]request{{0, 2, 0, true}, {0.5, 6, 0, false}, {1, 10, 0, true}}, nil, 0,
			Limiter{Overshoot: Quantiles{2, 0, 0, 0}, Used: 12. / 18, Refused: 6. / 8},
		},
		"one of two clients gets all": {
			[]request{{0, 5, 0, true}, {0.5, 6, 1, false}, {1.5, 10, 0, true}}, nil, 0,
			Limiter{Overshoot: Quantiles{2, 0, 0, 0}, Used: 0.75, Fairness: 0.5},
		},
		"the warm-up is apart": {
			[]request{{0.5, 20, 1, true}, {1.5, 10, 0, true}}, nil, time.Second,
			Limiter{Overshoot: Quantiles{1, 0, 0, 0}, Warmup: Quantiles{1, 1, 1, 1}, Used: 1},
		},
		"so is what changes": {
			[]request{{0.5, 20, 0, true}, {1.5, 15, 0, true}, {2.5, 10, 0, true}},
			func(since time.Duration) class { return []class{changed, ignored, ordinary}[since/time.Second] }, 0,
			Limiter{Overshoot: Quantiles{1, 0, 0, 0}, Changed: Quantiles{1, 1, 1, 1}, Used: 1},
		},
	} {
		m := lastsOf(t, false, "1s, algorithm: fixed")
		m.lasts.from, m.lasts.class = start+int64(tt.warmup), tt.class
		for _, r := range tt.requests {
			q := Request{At: start + int64(r.at*1e9), Cost: r.cost, Client: r.client}
			m.last(m.subject("c"), &q, q.At, r.ours)
		}
		got := measured(m, start+int64(3*time.Second))
		got.tally = tally{}
		if !same(&got, &tt.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}

// same compares what was measured, apart from rounding.
func same(a, b *Limiter) bool {
	near := func(x, y float64) bool { return math.Abs(x-y) < 1e-9 }
	quantiles := func(x, y Quantiles) bool {
		return x.N == y.N && near(x.Mean, y.Mean) && near(x.P99, y.P99) && near(x.Max, y.Max)
	}
	return quantiles(a.Overshoot, b.Overshoot) && quantiles(a.Changed, b.Changed) && quantiles(a.Warmup, b.Warmup) &&
		quantiles(a.InTime, b.InTime) && near(a.Used, b.Used) && near(a.Refused, b.Refused) && near(a.Fairness, b.Fairness)
}

// TestCostsOfMovingWindows: the peak of a period is the largest cost of any second that ends with a request in it.
func TestCostsOfMovingWindows(t *testing.T) {
	m := lastsOf(t, false, "1s, slots: 10")
	for _, r := range []weighted{{700, 6}, {900, 2}, {1200, 9}, {1650, 3}, {1750, 1}} {
		q := Request{At: start + r.at*int64(ms), Cost: r.weight}
		m.last(m.subject("c"), &q, q.At, true)
	}
	if got := measured(m, start+int64(2*time.Second)); got.Overshoot != (Quantiles{2, 0.5, 1, 1}) {
		t.Errorf("got %+v, want 8 in the first second, and 20 up to 1.65 s", got.Overshoot)
	}
}

// TestOnlyRulesThatLastHaveLimiters: those of other rules, and of other scenarios, are measured as ever.
func TestOnlyRulesThatLastHaveLimiters(t *testing.T) {
	requests, costs := rulesOf(t, 10, "1s", fixed1), rulesOf(t, 10, "1s", fixed1+", measure: cost")
	for name, tt := range map[string]struct {
		set   *rules.Set
		holds bool
		want  bool
	}{"requests": {requests, true, false}, "costs": {costs, true, true}, "costs at once": {costs, false, false}} {
		if m := newMeasure(&Config{Rules: tt.set, Start: start, Holds: tt.holds}, tt.set.Rules[0]); (m.lasts != nil) != tt.want {
			t.Errorf("%s: got %+v, want books of what lasts: %t", name, m.lasts, tt.want)
		}
	}
	r := run(t, "A", Options{Duration: 8 * time.Second}, 1)
	if len(r.Rules[0].Limiters) != 0 || r.Rules[0].Overshoot.N == 0 {
		t.Errorf("got %+v of scenario A", r.Rules[0].Limiters)
	}
}

// TestJain: 1 if all get the same, 1/n if one gets all.
func TestJain(t *testing.T) {
	for _, tt := range []struct {
		got  []int64
		want float64
	}{{[]int64{5, 5, 5}, 1}, {[]int64{7, 0, 0, 0}, 0.25}, {[]int64{1, 3}, 0.8}, {[]int64{0, 0}, 0}} {
		if got := jain(tt.got); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%d: got %v, want %v", tt.got, got, tt.want)
		}
	}
}
