package simulate

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestQuantiles of samples that one can count: the 0.99-quantile by nearest rank.
func TestQuantiles(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for name, tt := range map[string]struct {
		sample []float64
		want   Quantiles
	}{
		"none":    {nil, Quantiles{}},
		"one":     {[]float64{3}, Quantiles{1, 3, 3, 3}},
		"two":     {[]float64{0, 1}, Quantiles{2, 0.5, 1, 1}},
		"hundred": {hundred, Quantiles{100, 50.5, 99, 100}},
	} {
		before := slices.Clone(tt.sample)
		if got := quantilesOf(tt.sample); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
		if !slices.Equal(tt.sample, before) {
			t.Errorf("%s: the sample was changed", name)
		}
	}
}

// TestPoolingIsOneLongRun: periods, callers and seconds of several runs add up.
func TestPoolingIsOneLongRun(t *testing.T) {
	o := Options{Duration: 20 * time.Second}
	one, two := run(t, "A", o, 1), run(t, "A", o, 2)
	both := run(t, "A", o, 1, 2)
	a, b, got := one.Rules[0], two.Rules[0], both.Rules[0]
	if got.Overshoot.N != a.Overshoot.N+b.Overshoot.N || got.First.N != 2 || both.Requests != one.Requests+two.Requests {
		t.Errorf("got %+v of %d requests, want the sum of %+v and %+v", got.Overshoot, both.Requests, a.Overshoot, b.Overshoot)
	}
	for what, x := range map[string][3]float64{
		"mean": {a.Overshoot.Mean, b.Overshoot.Mean, got.Overshoot.Mean}, "admitted": {a.AdmittedShare, b.AdmittedShare, got.AdmittedShare},
		"decisions": {a.DecisionRate, b.DecisionRate, got.DecisionRate}, "lag": {one.LagMean, two.LagMean, both.LagMean},
	} {
		if mean := (x[0] + x[1]) / 2; math.Abs(x[2]-mean) > 1e-3*mean {
			t.Errorf("%s: got %v, want the mean of %v and %v", what, x[2], x[0], x[1])
		}
	}
	if got.Overshoot.Max != max(a.Overshoot.Max, b.Overshoot.Max) || got.MostOver != max(a.MostOver, b.MostOver) {
		t.Errorf("got a maximum of %v and %d, want the larger of both", got.Overshoot.Max, got.MostOver)
	}
}

// measureOf returns the books of one rule.
func measureOf(t testing.TB, limit int, window, more string) *measure {
	t.Helper()
	return newReference(&Config{Rules: rulesOf(t, limit, window, more), Start: start}).measure[0]
}

// TestPeaksAgainstEachInterval: for windows that move, the peak of a period is the largest number of requests in any interval of
// the window's length that ends with a request of the period.
func TestPeaksAgainstEachInterval(t *testing.T) {
	m := measureOf(t, 10, "1s", ", algorithm: log")
	rapid.Check(t, func(t *rapid.T) {
		s := &subject{limit: 10}
		times := rapid.SliceOfN(rapid.Int64Range(0, 50), 1, 40).Draw(t, "times")
		for _, at := range times {
			m.count(s, start+at*int64(100*ms), start+at*int64(100*ms), true, true)
		}
		m.peaks(s)
		want := map[int64]int64{}
		for _, at := range times {
			n := int64(0)
			for _, other := range times {
				if at-10 < other && other <= at {
					n++
				}
			}
			begin := start + at/10*int64(time.Second)
			want[begin] = max(want[begin], n)
		}
		for _, p := range s.periods {
			if p.peak != want[p.start] {
				t.Fatalf("period %v: got a peak of %d, want %d", time.Duration(p.start-start), p.peak, want[p.start])
			}
			delete(want, p.start)
		}
		if len(want) > 0 || !slices.IsSortedFunc(s.periods, func(a, b period) int { return int(a.start - b.start) }) {
			t.Fatalf("got periods %+v, and none for %v", s.periods, want)
		}
	})
}

// TestTheReferenceIsALimiter: it admits no more than the limit in any window, and all below it, by each algorithm.
func TestTheReferenceIsALimiter(t *testing.T) {
	for _, more := range []string{fixed1, "", ", slots: 100", ", algorithm: log", ", algorithm: gcra"} {
		m := measureOf(t, 50, "1s", more)
		below, over := &subject{limit: 50}, &subject{limit: 50}
		for i := range int64(2000) {
			at := start + i*int64(5*ms)
			m.count(over, at, at, true, !over.closure.ClosedAt(at)) // 200/s
			if i%8 == 0 {
				m.count(below, at, at, true, !below.closure.ClosedAt(at)) // 25/s
			}
		}
		for i, p := range over.periods {
			if most := int64(50); i > 0 && (p.sync > most+1 || p.exact > most) || p.sync < 40 || p.demand != 200 {
				t.Errorf("%q: got %d of %d admitted at once, and %d by the log, in period %d; want about 50", more, p.sync, p.demand, p.exact, i)
			}
		}
		for i, p := range below.periods {
			if p.sync != p.demand || m.exact != nil && p.exact != p.demand {
				t.Errorf("%q: got %d of %d admitted below the limit in period %d", more, p.sync, p.demand, i)
			}
		}
		if below.full || !over.full {
			t.Errorf("%q: want the one below its limit an innocent, and not the other", more)
		}
	}
}

// TestOvershootIsWhatExceedsTheLimit, and lost is what the synchronous limiter admits and we do not: windows do not make up for
// each other.
func TestOvershootIsWhatExceedsTheLimit(t *testing.T) {
	m := measureOf(t, 100, "1s", fixed1)
	s := &subject{limit: 100, full: true}
	for i, x := range []struct{ ours, sync int64 }{{150, 100}, {100, 100}, {80, 100}, {120, 100}, {40, 40}} {
		s.periods = append(s.periods, period{start: start + int64(i)*int64(time.Second), demand: max(x.ours, x.sync) + 1, ours: x.ours, sync: x.sync, peak: x.ours})
	}
	r := &Result{start: start, from: start + int64(time.Second)}
	tl := tally{}
	tl.subject(m, s, r, start+int64(5*time.Second))
	r.Rules = []RuleResult{{tally: tl}}
	r.compute()
	got := r.Rules[0]
	if got.Warmup != (Quantiles{1, 0.5, 0.5, 0.5}) || got.First != (Quantiles{1, 0.5, 0.5, 0.5}) {
		t.Errorf("got %+v in the warm-up and %+v first, want 0.5", got.Warmup, got.First)
	}
	if q := got.Overshoot; q.N != 4 || math.Abs(q.Mean-0.05) > 1e-9 || math.Abs(q.Max-0.2) > 1e-9 || got.MostOver != 20 {
		t.Errorf("got %+v and %d requests over, want 4 periods, a mean of 0.05, and 0.2 or 20 at most", q, got.MostOver)
	}
	if want := 20.0 / 340; math.Abs(got.Lost-want) > 1e-9 {
		t.Errorf("got %v lost, want %v", got.Lost, want)
	}
	if want := 1.0; math.Abs(got.AdmittedShare-want) > 1e-9 || got.SyncShare != 1 {
		t.Errorf("got %v and %v admitted per limit, want 1: of the three periods whose demand reached it", got.AdmittedShare, got.SyncShare)
	}
}

// TestAPeriodThatIsCutDoesNotCount: the run may end within it.
func TestAPeriodThatIsCutDoesNotCount(t *testing.T) {
	m := measureOf(t, 100, "1s", fixed1)
	s := &subject{limit: 100, periods: []period{{start: start, demand: 300, ours: 200, peak: 200}}}
	var tl tally
	tl.subject(m, s, &Result{start: start, from: start}, start+int64(time.Second)-1)
	if len(tl.over) != 0 {
		t.Errorf("got %v, want nothing of half a window", tl.over)
	}
}
