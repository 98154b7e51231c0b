package predict

import (
	"math"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// predictorOf returns a predictor of rows of one rule that have counted nothing, at a lag.
func predictorOf(rule *rules.Rule, o Options, lag time.Duration) *Predictor {
	p := New(o, func(uint32) Row { return Row{Rule: rule, ID: "a", Limit: rule.Limit} })
	p.Measure(0, int64(lag), 0)
	return p
}

// TestRowsAreTrackedFromAWeightOn: half of a burst or of the limit, whichever is less. Where the cap of the lag was raised, each row of a rule
// whose closes are predicted may be tracked.
func TestRowsAreTrackedFromAWeightOn(t *testing.T) {
	const bucket, fixed = "{name: r, callers: key, limit: 100, window: 1s, algorithm: gcra, burst: 8", "{name: r, callers: key, limit: 100, window: 1s"
	early := Options{MaxPredict: rules.PredictEarly, LagCap: DefaultLagCap}
	raised := Options{MaxPredict: rules.PredictEarly, LagCap: 0.4}
	for name, test := range map[string]struct {
		rule string
		o    Options
		want int64
	}{
		"a bucket":                         {bucket + "}", early, 8},
		"a window":                         {fixed + "}", early, math.MaxInt64},
		"a bucket under a raised cap":      {bucket + "}", raised, 0},
		"a window under a raised cap":      {fixed + "}", raised, 0},
		"no prediction under a raised cap": {fixed + ", predict: off}", raised, math.MaxInt64},
		"responses under a raised cap":     {bucket + ", measure: cost}", raised, 8},
	} {
		if got := test.o.TracksFrom(foldtest.Rules(t, test.rule).Rules[0]); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}

// TestWhoIsTracked: a row gets a tracker at half of its limit; at a tenth where the lag is long; and earlier if one entry says that it
// will pass half of its limit within a lag. A row that may not have one gets none.
func TestWhoIsTracked(t *testing.T) {
	rule := foldtest.Rules(t, "{name: r, callers: key, limit: 100, window: 1s, algorithm: fixed}").Rules[0]
	for name, test := range map[string]struct {
		lag  time.Duration
		sent Sent
		want bool
	}{
		"below half":                    {50 * time.Millisecond, Sent{Weight: 1, Total: 49, Near: true}, false},
		"at half":                       {50 * time.Millisecond, Sent{Weight: 1, Total: 50, Near: true}, true},
		"at half, but may not":          {50 * time.Millisecond, Sent{Weight: 1, Total: 50}, false},
		"half comes in just a lag":      {50 * time.Millisecond, Sent{Weight: 10, Total: 10, Near: true}, false},
		"more than half comes in a lag": {50 * time.Millisecond, Sent{Weight: 11, Total: 11, Near: true}, true},
		"a lag below a tick is a tick":  {5 * time.Millisecond, Sent{Weight: 30, Total: 30, Near: true}, false},
		"one request is no rush":        {250 * time.Millisecond, Sent{Weight: 1, Total: 1, Near: true}, false},
		"two requests may be one":       {250 * time.Millisecond, Sent{Weight: 3, Total: 3, Near: true}, true},
		"a quarter of the window":       {250 * time.Millisecond, Sent{Weight: 1, Total: 49, Near: true}, false},
		"a longer lag, at a tenth":      {251 * time.Millisecond, Sent{Weight: 1, Total: 10, Near: true}, true},
		"a longer lag, below a tenth":   {251 * time.Millisecond, Sent{Weight: 1, Total: 9, Near: true}, false},
	} {
		p := predictorOf(rule, Options{MaxPredict: rules.PredictEarly, LagCap: 0.5}, test.lag)
		test.sent.Rule, test.sent.Limit = rule, rule.Limit
		if got := p.Admitted(&test.sent); got != test.want {
			t.Errorf("%s: got tracked %v, want %v", name, got, test.want)
		}
		if got := p.Stats(0).Tracked; (got == 1) != test.want {
			t.Errorf("%s: got %d trackers", name, got)
		}
	}
}

// TestALongLagTracksFromATenth of the limit on. Nothing is announced of a row that was not predicted.
func TestALongLagTracksFromATenth(t *testing.T) {
	rule := foldtest.Rules(t, "{name: r, callers: key, limit: 1000, window: 1s, algorithm: fixed}").Rules[0]
	p := predictorOf(rule, Options{MaxPredict: rules.PredictEarly, LagCap: 0.5}, 300*time.Millisecond)
	for _, total := range []int64{99, 100} {
		if got := p.Admitted(&Sent{Rule: rule, Limit: 1000, Weight: 1, Total: total, Near: true}); got != (total == 100) {
			t.Errorf("%d of 1000: got tracked %v", total, got)
		}
	}
	if got := p.Ahead(0, rule, 1000, 0).Span; got != (schemas.Span{}) {
		t.Errorf("got %+v announced, want nothing", got)
	}
}

// TestAClosedRowIsTrackedByWhatIsRefused: of a closed caller without a tracker, a blocked request begins one. Its demand is known then.
func TestAClosedRowIsTrackedByWhatIsRefused(t *testing.T) {
	rule := foldtest.Rules(t, "{name: r, callers: key, limit: 100, window: 1s, algorithm: fixed}").Rules[0]
	closed := policy.Closure{CloseAt: 100 * millisecond, Until: second, Nth: 1, Peak: 100}
	for _, near := range []bool{true, false} {
		p := predictorOf(rule, Options{MaxPredict: rules.PredictEarly, LagCap: DefaultLagCap}, 100*time.Millisecond)
		for at := 200 * millisecond; at < 700*millisecond; at += 10 * millisecond {
			s := Sent{Row: 7, Rule: rule, Limit: 100, Weight: 5, At: at, Now: at, Closure: closed, Near: near}
			if got := p.Refused(&s); got != near {
				t.Fatalf("near %v: got tracked %v", near, got)
			}
		}
		if rate := p.Ahead(7, rule, 100, 700*millisecond).Rate; near != (rate > 499 && rate < 501) || !near && rate != 0 {
			t.Errorf("near %v: got a demand of %v a second, want 500 of a caller with a tracker", near, rate)
		}
	}
}

// TestATrackerRests: a row that is far from its limit is tracked for 10 s more. Under a longer window it is tracked for twice the window, but
// not longer than a minute.
func TestATrackerRests(t *testing.T) {
	for window, want := range map[string]time.Duration{"1s": 10 * time.Second, "5s": 10 * time.Second, "20s": 40 * time.Second, "1h": time.Minute} {
		rule := foldtest.Rules(t, "{name: r, callers: key, limit: 100, window: "+window+", algorithm: fixed}").Rules[0]
		p := predictorOf(rule, Options{MaxPredict: rules.PredictEarly, LagCap: DefaultLagCap}, 50*time.Millisecond)
		p.Admitted(&Sent{Rule: rule, Limit: 100, Weight: 60, Total: 60, Near: true})
		if p.TakePlans(int64(want), 0); p.Stats(0).Tracked != 1 {
			t.Errorf("window %s: not tracked for %v", window, want)
		}
		if p.TakePlans(int64(want)+1, 0); p.Stats(0).Tracked != 0 {
			t.Errorf("window %s: still tracked after more than %v", window, want)
		}
	}
}

// TestMovedRowsKeepTheirTrackers: a row that gets another number keeps what was measured of it. A row without a tracker has none afterwards.
func TestMovedRowsKeepTheirTrackers(t *testing.T) {
	rule := foldtest.Rules(t, "{name: r, callers: key, limit: 100, window: 1s, algorithm: fixed}").Rules[0]
	p := predictorOf(rule, Options{MaxPredict: rules.PredictEarly, LagCap: DefaultLagCap}, 50*time.Millisecond)
	for at := int64(0); at < 500*millisecond; at += 10 * millisecond {
		p.Admitted(&Sent{Row: 1, Rule: rule, Limit: 100, Weight: 2, At: at, Now: at, Total: 60, Near: true})
	}
	m := p.Move()
	if kept, other := p.Adopt(5, m, 1), p.Adopt(6, m, 2); !kept || other {
		t.Errorf("got %v and %v, want the tracker of one row, and none of the other", kept, other)
	}
	if rate := p.Ahead(5, rule, 100, 500*millisecond).Rate; rate < 199 || rate > 201 || p.Ahead(1, rule, 100, 500*millisecond) != (Ahead{}) || p.Stats(0).Tracked != 1 {
		t.Errorf("got a demand of %v and %d trackers, want 200 a second under the new number alone", rate, p.Stats(0).Tracked)
	}
}

// TestADroppedRowIsNotPredicted: its tracker may be on the list of those that were touched. Nobody asks for the row any more.
func TestADroppedRowIsNotPredicted(t *testing.T) {
	rule := foldtest.Rules(t, "{name: r, callers: key, limit: 100, window: 1s, algorithm: fixed}").Rules[0]
	dropped := false
	p := New(Options{MaxPredict: rules.PredictEarly, LagCap: DefaultLagCap}, func(row uint32) Row {
		if dropped {
			t.Errorf("row %d was read after it was dropped", row)
		}
		return Row{Rule: rule, ID: "a", Limit: 100}
	})
	p.Measure(0, 50*millisecond, 0)
	p.Admitted(&Sent{Row: 3, Rule: rule, Limit: 100, Weight: 60, Total: 60, Near: true})
	p.Forget(3)
	dropped = true
	if plans := p.TakePlans(0, 0); len(plans) > 0 || p.Stats(0).Tracked != 0 {
		t.Errorf("got %+v and %d trackers of a dropped row", plans, p.Stats(0).Tracked)
	}
}

// TestARowIsPredictedOnceInABatch: however many of its entries came.
func TestARowIsPredictedOnceInABatch(t *testing.T) {
	rule := foldtest.Rules(t, "{name: r, callers: key, limit: 100, window: 1s, algorithm: fixed}").Rules[0]
	reads := make(map[uint32]int)
	p := New(Options{MaxPredict: rules.PredictEarly, LagCap: DefaultLagCap}, func(row uint32) Row {
		reads[row]++
		return Row{Rule: rule, ID: "a", Limit: 100}
	})
	p.Measure(0, 50*millisecond, 0)
	for range 10 {
		for row := range uint32(3) {
			p.Admitted(&Sent{Row: row, Rule: rule, Limit: 100, Weight: 1, Total: 60, Near: true})
		}
	}
	p.TakePlans(0, 0)
	for row := range uint32(3) {
		if reads[row] != 2 { // once more to see whether it is still near its limit
			t.Errorf("row %d was read %d times, want 2", row, reads[row])
		}
	}
}

// TestNothingIsPlannedWhenTheLagIsUnknown: a caller is about to fill its window, and is predicted until the newest measurement of the lag is
// 10 s old.
func TestNothingIsPlannedWhenTheLagIsUnknown(t *testing.T) {
	rule := foldtest.Rules(t, "{name: r, callers: key, limit: 1000, window: 1m, algorithm: fixed}").Rules[0]
	for now, want := range map[int64]int{10*second - 1: 1, 10 * second: 0} {
		state, _ := rule.Window.Add(nil, 1000, 9*second, 990)
		p := New(Options{MaxPredict: rules.PredictEarly, LagCap: DefaultLagCap}, func(uint32) Row {
			return Row{Rule: rule, ID: "a", Limit: 1000, State: state}
		})
		p.Measure(0, 200*millisecond, 0)
		for at := 8 * second; at < 10*second; at += 10 * millisecond {
			p.Admitted(&Sent{Rule: rule, Limit: 1000, Weight: 3, At: at, Now: at, Total: 990, Near: true})
		}
		if plans := p.TakePlans(now, 0); len(plans) != want {
			t.Errorf("%v after the lag was measured: got %+v, want %d plans", time.Duration(now), plans, want)
		}
	}
}

// TestSharesHaveABound: any number of callers may close, and no more are measured for a share than gates take.
func TestSharesHaveABound(t *testing.T) {
	rule := foldtest.Rules(t, "{name: r, callers: key, limit: 100, window: 1s, algorithm: fixed}").Rules[0]
	p := predictorOf(rule, Options{MaxPredict: rules.PredictShares, LagCap: DefaultLagCap}, 50*time.Millisecond)
	closed := policy.Closure{CloseAt: 0, Until: second, Nth: 1, Peak: 100}
	for row := range uint32(maxShares + 10) {
		p.Admitted(&Sent{Row: row, Rule: rule, Limit: 100, Weight: 100, Total: 100, Near: true})
		p.Changed(&Change{Row: row, Rule: rule, ID: "a", Kind: policy.Closed, Closure: closed, Limit: 100, Total: 100})
	}
	with := 0
	for row := range uint32(maxShares + 10) {
		if p.trackers.find(row).share != nil {
			with++
		}
	}
	if with != maxShares {
		t.Errorf("got %d rows that are measured for a share, want %d", with, maxShares)
	}
}
