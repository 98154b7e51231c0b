package simulate

import (
	"math"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// TestTheNewestBoundOfAPeriodCounts: of its first span, of the next one, and of a share that comes into force. What opens, what states
// no bound, and what is about others says nothing.
func TestTheNewestBoundOfAPeriodCounts(t *testing.T) {
	second := func(s float64) int64 { return start + int64(s*1e9) }
	decide := func(bound float64, d schemas.Decision) schemas.Decision {
		d.Rule, d.Caller, d.Evidence.Bound = "limit", schemas.Caller{Kind: Kind, ID: "c"}, bound
		return d
	}
	other := decide(9, schemas.Decision{CloseAt: second(0.5), Until: second(1)})
	other.Caller.ID = "d"
	unknown := decide(9, schemas.Decision{CloseAt: second(0.5), Until: second(1)})
	unknown.Rule = "another"
	for name, tt := range map[string]struct {
		decisions []schemas.Decision
		want      []float64 // by period; 0 is none
	}{
		"none":         {nil, []float64{0, 0, 0}},
		"first span":   {[]schemas.Decision{decide(0.1, schemas.Decision{CloseAt: second(1.9), Until: second(2)})}, []float64{0, 0.1, 0}},
		"an opening":   {[]schemas.Decision{decide(0.1, schemas.Decision{CloseAt: second(1.9), Until: second(1.9)})}, []float64{0, 0, 0}},
		"not stated":   {[]schemas.Decision{decide(0, schemas.Decision{CloseAt: second(1.9), Until: second(2)})}, []float64{0, 0, 0}},
		"of others":    {[]schemas.Decision{other, unknown}, []float64{0, 0, 0}},
		"before all":   {[]schemas.Decision{decide(0.1, schemas.Decision{CloseAt: second(-0.5), Until: second(0)})}, []float64{0, 0, 0}},
		"a share":      {[]schemas.Decision{decide(0.2, schemas.Decision{Share: &schemas.Share{From: second(2), Until: second(8)}})}, []float64{0, 0, 0.2}},
		"both spans":   {[]schemas.Decision{decide(0.3, schemas.Decision{CloseAt: second(0.9), Until: second(1), Next: schemas.Span{CloseAt: second(1.5), Until: second(2), Early: true}})}, []float64{0.3, 0.3, 0}},
		"newest first": {[]schemas.Decision{decide(0.3, schemas.Decision{CloseAt: second(0.9), Until: second(1)}), decide(0.1, schemas.Decision{CloseAt: second(0.8), Until: second(1)})}, []float64{0.1, 0, 0}},
	} {
		m := measureOf(t, 100, "1s", fixed1)
		ref := &reference{measure: []*measure{m}}
		s := m.subject("c")
		m.subject("d")
		s.full = true
		for i := range tt.want {
			s.periods = append(s.periods, period{start: second(float64(i)), demand: 200, ours: 115, sync: 100, peak: 115})
		}
		ref.foreseen(tt.decisions)
		tl := tally{}
		tl.subject(m, s, &Result{start: start, from: start}, second(3))
		var want Bounds
		for _, bound := range tt.want {
			if bound == 0 {
				continue
			}
			want.Closes++
			want.sum += bound
			if bound < 0.15 {
				want.Exceeded++
			}
		}
		if got := tl.bounds; got.Closes != want.Closes || got.Exceeded != want.Exceeded || math.Abs(got.sum-want.sum) > 1e-9 || len(s.periods) != 3 {
			t.Errorf("%s: got %+v in %d periods, want %+v in 3", name, got, len(s.periods), want)
		}
	}
}

// TestWithoutPredictionNoBoundIsStated, and with it each window of a caller that is always over its limit has one.
func TestWithoutPredictionNoBoundIsStated(t *testing.T) {
	for p, want := range map[rules.Predict]int64{rules.PredictOff: 0, rules.PredictEarly: 2 * 15, rules.PredictShares: 2 * 15} {
		got := run(t, "A", Options{Duration: 20 * time.Second, Predict: p}, 1, 2).Rules[0].Bounds
		if got.Closes != want || (got.Mean > 0) != (want > 0) || got.Mean > 0.1 {
			t.Errorf("%s: got bounds of %d windows, %.3f in the mean; want %d, and 0.1 at most", p, got.Closes, got.Mean, want)
		}
	}
}

// TestServersKnowTheLagBeforeTheFirstRequest: what they measured in the quiet time lets the first window be closed in time, and nothing
// of that time is in the result.
func TestServersKnowTheLagBeforeTheFirstRequest(t *testing.T) {
	first := map[time.Duration]float64{}
	for _, before := range []time.Duration{0, quiet} {
		sim, err := New(Config{
			Rules: rulesOf(t, 500, "1s", fixed1), Predict: rules.PredictEarly, Start: start, Quiet: before, Servers: 2, Partitions: 1,
			Lag: exactly(100 * ms), Seed: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		ask(t, sim, "c", 1000, 0, 3*time.Second)
		r, err := sim.Finish(start + int64(3*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		periods := r.Rules[0].Series.Periods
		if len(periods) != 3 || periods[0].At != 0 || len(r.lags) > 6 {
			t.Fatalf("%v before: got periods %+v and %d lags, want 3 of 1 s from the start on, and a lag a server and second", before, periods, len(r.lags))
		}
		first[before] = float64(periods[0].Admitted)/500 - 1
	}
	if first[0] < 0.15 || first[quiet] > 0.05 {
		t.Errorf("got a first overshoot of %v without, and %v with a quiet time; want 0.2 and less than 0.05", first[0], first[quiet])
	}
}
