package simulate

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// lastingBar is what a scenario of requests that last must show. Shares are of 1. A bound of 0 is none; of a tiny number it is none at all.
type lastingBar struct {
	scenario string
	lag      time.Duration
	short    int // seeds of a short run; 0 is none
	seeds    int // of a long run; 0 is 5

	mean, p99, used float64 // overshoot at most, and used at least
	inTime          Quantiles
	more            float64 // by which changed may be above mean
	refused         float64 // in windows that are never filled, at most
	fairness        float64 // at least
}

// lastingBars are what ACCURACY.md promises. Comments say what was measured with seeds 1 to 5, in per cent: overshoot (mean, 0.99-quantile)
// and used; and what the aim is, where it is missed.
func lastingBars() (list []lastingBar) {
	for _, lag := range []time.Duration{5 * ms, 50 * ms, 200 * ms} {
		list = append(list,
			lastingBar{scenario: "tokens-2x", lag: lag, mean: 0.025, p99: 0.22, used: 0.95},
			lastingBar{scenario: "tokens-10x", lag: lag, mean: 0.025, p99: 0.22, used: 0.95},
		)
	}
	list[2].short = 1
	return append(list, []lastingBar{
		{scenario: "tokens-independent", mean: 0.025, p99: 0.22, used: 0.95},         // 1.2, 11, 98.3
		{scenario: "tokens-spread", mean: 0.025, p99: 0.22, used: 0.95},              // 2.2, 18, 98.1
		{scenario: "tokens-declared", seeds: 40, mean: 0.015, p99: 0.14, used: 0.95}, // 1.4, 9, 99.2; 1.51 with the first five
		{scenario: "tokens-declared-near", mean: 0.01, p99: 0.1, used: 0.95},         // 0.9, 7, 99.5
		{scenario: "tokens-1m", mean: 0.02, p99: 0.09, used: 0.98},                   // 0.4, 3, 99.5
		// 2.2, 17, 98.5, and a fairness of 0.989 with seeds 1 to 40; 2.65, 16, 98.3 with the first five
		{scenario: "agents", short: 1, seeds: 40, mean: 0.025, p99: 0.22, used: 0.96, fairness: 0.97},
		{scenario: "two-models", mean: 0.045, p99: 0.28, used: 0.96},                          // 3.7, 22, 97.9
		{scenario: "tokens-half", refused: 1e-9},                                              // 0
		{scenario: "tokens-near", refused: 0.012},                                             // 1.05: the aim is 1
		{scenario: "tokens-restart", more: 0.03},                                              // 1.8, and 1.9 with a restart
		{scenario: "tokens-dearer", mean: 0.35},                                               // 19 in the second minute, after 117 in the first
		{scenario: "flights", short: 1, inTime: Quantiles{Mean: 0.02, P99: 0.15}, used: 0.95}, // 0.3, 5, 95.8; the oracle has 95.9
		// 5.1, 20, 99.8: the aim is 2, 15. The oracle has 4.9: some 30 agents ask in a second, and at each end 1.6 of them in a lag.
		{scenario: "flights-agents", inTime: Quantiles{Mean: 0.06, P99: 0.2}, used: 0.98, fairness: 0.97},
	}...)
}

// closedDecisions is how many decisions a minute about a caller that is closed by what its requests hold are published at most.
const closedDecisions = 60

// TestLastingMustShow: how well limits hold while requests run, by scenario. FLOODGATE_LONG=1 runs all.
func TestLastingMustShow(t *testing.T) {
	for _, b := range lastingBars() {
		seeds := b.short
		if testenv.IsLong() {
			seeds = cmp.Or(b.seeds, 5)
		}
		if seeds == 0 {
			continue
		}
		t.Run(fmt.Sprintf("%s-%s", b.scenario, b.lag), func(t *testing.T) {
			t.Parallel()
			list, _ := seedsOf(seeds)
			b.check(t, run(t, b.scenario, Options{Lag: b.lag, Predict: rules.PredictShares}, list...))
		})
	}
}

// check compares.
func (b *lastingBar) check(t *testing.T, r *Result) {
	t.Helper()
	rule := &r.Rules[0]
	got := &rule.Limiters[0]
	atMost := func(what string, got, want float64) {
		t.Helper()
		if want != 0 && got > want {
			t.Errorf("got %s %.5g, want at most %.5g", what, got, want)
		}
	}
	atMost("a mean overshoot of", got.Overshoot.Mean, b.mean)
	atMost("a 0.99-quantile of", got.Overshoot.P99, b.p99)
	atMost("a mean overshoot in time of", got.InTime.Mean, b.inTime.Mean)
	atMost("a 0.99-quantile in time of", got.InTime.P99, b.inTime.P99)
	atMost("a refused share of", got.Refused, b.refused)
	if got.InTime.N == 0 {
		atMost("decisions a minute:", 60*rule.DecisionRate, closedDecisions)
	}
	if b.more > 0 {
		atMost("an overshoot after a change of", got.Changed.Mean, got.Overshoot.Mean+b.more)
	}
	if got.Used < b.used || got.Fairness < b.fairness {
		t.Errorf("got %.4f used and a fairness of %.4f, want at least %.4f and %.4f", got.Used, got.Fairness, b.used, b.fairness)
	}
	if oracle := rule.Limiters[len(rule.Limiters)-1]; oracle.Name != "oracle" || got.Used > oracle.Used+0.005 {
		t.Errorf("got %.4f used, and %.4f by the limiter %s, want no more than an oracle uses", got.Used, oracle.Used, oracle.Name)
	}
}

// TestWithoutPredictionNobodyIsHeld: requests in flight hold nobody then. The caller is closed when its cost is counted, as by a limiter that
// checks and reports.
func TestWithoutPredictionNobodyIsHeld(t *testing.T) {
	r := run(t, "tokens-10x", Options{Predict: rules.PredictOff, Duration: 5 * time.Minute}, 1)
	floodgate, flat := r.Rules[0].Limiters[0], r.Rules[0].Limiters[2]
	if flat.Name != "flat hold 0" || floodgate.Overshoot.Mean < 0.9*flat.Overshoot.Mean || floodgate.Overshoot.Mean < 1 {
		t.Errorf("got %+v, want about what comes before the first costs are known: %+v", floodgate.Overshoot, flat.Overshoot)
	}
}

// TestLimitersArePooled: the windows of several runs are those of one long run, for each limiter.
func TestLimitersArePooled(t *testing.T) {
	o := Options{Duration: 4 * time.Minute, Predict: rules.PredictShares}
	one, two, both := run(t, "agents", o, 1), run(t, "agents", o, 2), run(t, "agents", o, 1, 2)
	for i := range both.Rules[0].Limiters {
		a, b, got := one.Rules[0].Limiters[i], two.Rules[0].Limiters[i], both.Rules[0].Limiters[i]
		mean := (a.Overshoot.Mean + b.Overshoot.Mean) / 2
		if got.Name != a.Name || got.Overshoot.N != a.Overshoot.N+b.Overshoot.N || math.Abs(got.Overshoot.Mean-mean) > 1e-9 ||
			math.Abs(got.Fairness-(a.Fairness+b.Fairness)/2) > 1e-9 || got.Used < min(a.Used, b.Used) || got.Used > max(a.Used, b.Used) {
			t.Errorf("got %+v, want the mean of %+v and %+v", got, a, b)
		}
	}
}

// TestTheSameSeedLastsTheSame: a run with requests that last gives the same result, to the byte, whatever the process does.
func TestTheSameSeedLastsTheSame(t *testing.T) {
	for _, name := range []string{"tokens-declared", "flights-agents", "tokens-restart"} {
		o := Options{Duration: 3 * time.Minute, Predict: rules.PredictShares}
		if a, b := bytesOf(t, run(t, name, o, 3)), bytesOf(t, run(t, name, o, 3)); !bytes.Equal(a, b) {
			t.Errorf("%s: got\n%s\nand\n%s", name, a, b)
		}
	}
}
