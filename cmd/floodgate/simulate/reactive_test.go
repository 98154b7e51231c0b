package simulate

import (
	"math"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// run runs a scenario with some seeds, and returns the pooled result.
func run(t *testing.T, name string, o Options, seeds ...uint64) *Result {
	t.Helper()
	s, ok := Find(name)
	if !ok {
		t.Fatalf("got no scenario %q", name)
	}
	var pooled *Result
	for _, seed := range seeds {
		o.Seed = seed
		r, err := s.Run(t.Context(), o)
		if err != nil {
			t.Fatalf("%s, seed %d: %v", name, seed, err)
		}
		if pooled == nil {
			pooled = r
		} else {
			pooled.Pool(r)
		}
	}
	return pooled
}

// TestReactiveOvershootIsRateTimesLag: without prediction, a caller gets what it asks for during the lag. It is what the
// simulation is checked against: nothing else makes an overshoot here.
func TestReactiveOvershootIsRateTimesLag(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	for name, tests := range map[string][]struct {
		lag        time.Duration
		mean, give float64
	}{
		"A":         {{200 * ms, 0.41, 0.01}, {50 * ms, 0.10, 0.01}, {5 * ms, 0.01, 0.003}},
		"A-even":    {{200 * ms, 0.40, 0.015}},
		"step-far":  {{50 * ms, 0.052, 0.005}},
		"step-near": {{50 * ms, 0.315, 0.02}},
		"step-late": {{50 * ms, 0.635, 0.04}},
	} {
		if name != "A" && name != "step-late" && !testenv.IsLong() {
			continue
		}
		for _, tt := range tests {
			got := run(t, name, Options{Lag: tt.lag, Predict: rules.PredictOff}, 1)
			if over := got.Rules[0].Overshoot.Mean; math.Abs(over-tt.mean) > tt.give {
				t.Errorf("%s with a lag of %v: got a mean overshoot of %.3f, want %.3f ± %.3f", name, tt.lag, over, tt.mean, tt.give)
			}
			if sync := got.Rules[0].SyncShare; math.Abs(sync-1) > 0.001 {
				t.Errorf("%s: got %.4f of the limit by the synchronous limiter, want 1", name, sync)
			}
		}
	}
}
