package demo

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// TestEachCloseBelongsToItsHalf: by when it began, however late it ended and whichever report names it. A report about a caller
// that was not closed before ends no close.
func TestEachCloseBelongsToItsHalf(t *testing.T) {
	at := func(ms int64) int64 { return 100e9 + ms*1e6 }
	w := newCloseWatch()
	w.predictedFrom(time.Unix(0, 0), rules.PredictOff)
	ended := func(closeAt, peak, nth int64) {
		w.counted(change(t, "a", time.Unix(0, at(9000)), policy.Closure{CloseAt: closeAt, Peak: peak, Nth: nth}), 0)
	}
	ended(0, 0, 0)
	ended(at(0), 110, 1)
	ended(at(1000), 130, 2)
	w.predictedFrom(time.Unix(0, at(2000)), rules.PredictEarly)
	ended(at(1999), 120, 1) // it ends later
	ended(at(2000), 100, 1)
	ended(at(2500), 101, 1)
	got := w.accuracy(map[string]lastClose{"a": {at(4000), 0.05}, "b": {at(1500), 0.40}})
	if len(got) != 2 {
		t.Fatalf("got %+v, want two halves", got)
	}
	for i, want := range []Accuracy{{"off", 4, 0.25, 0.40}, {"early", 3, 0.02, 0.05}} {
		g := got[i]
		if g.Predict != want.Predict || g.Closes != want.Closes || math.Abs(g.Mean-want.Mean) > 1e-9 || math.Abs(g.Largest-want.Largest) > 1e-9 {
			t.Errorf("half %d: got %+v, want %+v", i, g, want)
		}
	}
}

// TestAHalfWithoutClosesIsNotShown: of nothing there is no mean.
func TestAHalfWithoutClosesIsNotShown(t *testing.T) {
	var out strings.Builder
	printAccuracy(&out, []Accuracy{{"off", 3, 0.0345, 0.05}, {"shares", 0, 0, 0}})
	if got, want := out.String(), "overshoot, mean of all closes: 3.5 % with predict: off (3 closes)\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := newCloseWatch().accuracy(nil); len(got) != 0 {
		t.Errorf("of nothing: got %+v", got)
	}
}

// TestPredictsInTheSecondHalf: the analyzer gets rules that predict while it runs. Both halves have closes, no innocent is closed,
// and all three counts agree: what is predicted changes no count. With --predict off there is one half only.
func TestPredictsInTheSecondHalf(t *testing.T) {
	t.Parallel()
	for _, predict := range []rules.Predict{rules.PredictOff, rules.PredictEarly, rules.PredictShares} {
		t.Run(predict.String(), func(t *testing.T) {
			if predict != rules.PredictShares {
				testenv.Long(t)
			}
			t.Parallel()
			var out strings.Builder
			c := small(&out)
			c.Duration, c.NoisyRate, c.Limit, c.Window, c.Predict = 4*time.Second, 400, 40, 400*time.Millisecond, predict
			sum, err := Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if err := sum.Verdict(); err != nil {
				t.Errorf("got %v of %+v", err, sum)
			}
			if got, want := strings.Contains(out.String(), "from now on decisions come ahead of time: predict: "+predict.String()), predict != rules.PredictOff; got != want {
				t.Errorf("got said %v, want %v:\n%s", got, want, &out)
			}
			halves := []rules.Predict{rules.PredictOff, predict}
			if predict == rules.PredictOff {
				halves = halves[:1]
			}
			if len(sum.Accuracy) != len(halves) {
				t.Fatalf("got %+v, want %d parts", sum.Accuracy, len(halves))
			}
			for i, a := range sum.Accuracy {
				if a.Predict != halves[i].String() || a.Closes == 0 || a.Mean < 0 || a.Mean > a.Largest {
					t.Errorf("part %d: got %+v, want closes of predict: %v", i, a, halves[i])
				}
			}
		})
	}
}

// TestInterruptedBeforeTheSecondHalf: nothing was predicted, and the audit holds.
func TestInterruptedBeforeTheSecondHalf(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	var out transcript
	c := small(&out)
	c.Duration, c.Predict = time.Hour, rules.PredictShares
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running errgroup.Group
	var sum *Summary
	running.Go(func() (err error) { sum, err = Run(ctx, c); return err })
	out.waitFor(t, `1s  admitted +[1-9]`)
	stop()
	if err := running.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(sum.Accuracy) != 1 || sum.Accuracy[0].Predict != "off" || !sum.Audit.OK() {
		t.Errorf("got %+v and audit %+v, want one half, and an exact audit", sum.Accuracy, sum.Audit)
	}
}

// TestRulesOfBothHalvesDifferInPredictionAlone, so that counts go on.
func TestRulesOfBothHalvesDifferInPredictionAlone(t *testing.T) {
	c := small(nil)
	off, err := c.Rules()
	if err != nil {
		t.Fatal(err)
	}
	on, err := c.rulesWith(rules.PredictShares)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range off.Rules {
		other := on.Rules[i]
		if other.Name != r.Name || other.Limit != r.Limit || other.Window.Shape() != r.Window.Shape() || other.Mode != r.Mode {
			t.Errorf("got %+v and %+v, want one rule", other, r)
		}
	}
	if off.Rules[0].Predict != rules.PredictOff || on.Rules[0].Predict != rules.PredictShares || off.ID() == on.ID() {
		t.Errorf("got predict %v and %v, want off and shares, and sets that differ", off.Rules[0].Predict, on.Rules[0].Predict)
	}
}
