package simulate

import (
	"math"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// exactly returns the ways of a lag that never varies.
func exactly(lag time.Duration) Lag {
	l := LagOf(lag)
	l.Spread = 0
	return l
}

// ask lets a caller send evenly from one time to another, and returns how many of its requests were admitted by hundredths of a
// second.
func ask(t *testing.T, sim *Simulation, id string, perSecond int, from, to time.Duration) map[int]int {
	t.Helper()
	admitted := map[int]int{}
	c := []schemas.Caller{{Kind: Kind, ID: id}}
	servers := len(sim.w.servers)
	for i, at := 0, from; at < to; i, at = i+1, at+time.Second/time.Duration(perSecond) {
		yes, err := sim.Request(&Request{At: start + int64(at), Server: i % servers, Callers: c})
		if err != nil {
			t.Fatal(err)
		}
		if yes {
			admitted[int(at/(10*ms))]++
		}
	}
	return admitted
}

// within adds up what was admitted from one time to another.
func within(admitted map[int]int, from, to time.Duration) (n int) {
	for at, x := range admitted {
		if d := time.Duration(at) * 10 * ms; from <= d && d < to {
			n += x
		}
	}
	return n
}

// TestArithmetic: with even traffic and a lag that never varies, each window admits the limit and what comes during the lag, or
// all that is asked for; that much can be said without a simulation.
func TestArithmetic(t *testing.T) {
	for _, tt := range []struct {
		limit, rate, servers int
		lag                  time.Duration
	}{
		{100, 200, 1, 100 * ms}, {100, 200, 2, 100 * ms}, {100, 1000, 1, 50 * ms}, {100, 1000, 4, 50 * ms},
		{500, 1000, 2, 200 * ms}, {500, 1000, 2, 10 * ms}, {100, 90, 1, 200 * ms}, {100, 110, 2, 500 * ms}, {10, 1000, 2, 300 * ms},
	} {
		sim, err := New(Config{
			Rules: rulesOf(t, tt.limit, "1s", fixed1), Predict: rules.PredictOff, Start: start, Servers: tt.servers, Partitions: 1,
			Lag: exactly(tt.lag), Seed: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		admitted := ask(t, sim, "c", tt.rate, 0, 5*time.Second)
		want := min(float64(tt.rate), float64(tt.limit)+float64(tt.rate)*tt.lag.Seconds())
		// A request waits up to a flush: half of one more or less than on average.
		give := float64(tt.rate)*maxFlush.Seconds() + 2
		for second := range 5 {
			from := time.Duration(second) * time.Second
			if got := within(admitted, from, from+time.Second); math.Abs(float64(got)-want) > give {
				t.Errorf("limit %d, %d/s, %d servers, lag %v: got %d admitted in second %d, want %.0f ± %.0f",
					tt.limit, tt.rate, tt.servers, tt.lag, got, second, want, give)
			}
		}
	}
}

// TestEarlyClosesAreBetterThanArithmetic: of the same traffic, all windows but the first admit the limit, give or take two in a
// hundred: nothing is random in it.
func TestEarlyClosesAreBetterThanArithmetic(t *testing.T) {
	for _, lag := range []time.Duration{10 * ms, 50 * ms, 200 * ms} {
		sim, err := New(Config{
			Rules: rulesOf(t, 500, "1s", fixed1), Predict: rules.PredictEarly, Start: start, Servers: 2, Partitions: 1, Lag: exactly(lag), Seed: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		admitted := ask(t, sim, "c", 1000, 0, 10*time.Second)
		for second := 3; second < 10; second++ {
			from := time.Duration(second) * time.Second
			if got := within(admitted, from, from+time.Second); got < 490 || got > 510 {
				t.Errorf("lag %v: got %d admitted in second %d, want 500 ± 10", lag, got, second)
			}
		}
	}
}

// TestAnEarlyCloseEndsByItself: a caller that stops just before its limit is closed for no longer than 1.5 lags and the margin, and
// nothing is counted against it.
func TestAnEarlyCloseEndsByItself(t *testing.T) {
	const lag = 200 * ms
	sim, err := New(Config{
		Rules: rulesOf(t, 1000, "10s", fixed1), Predict: rules.PredictEarly, Start: start, Servers: 2, Partitions: 1, Lag: exactly(lag), Seed: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	ask(t, sim, "c", 500, 3*time.Second, 4950*ms)             // 975 of 1 000
	late := ask(t, sim, "c", 1, 6*time.Second, 9*time.Second) // three more
	if n := within(late, 0, time.Minute); n != 3 {
		t.Errorf("got %d of 3 requests admitted after the early close is over, want all", n)
	}
	r, err := sim.Finish(start + int64(20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	hold := 1.5*0.205 + 0.015 // X by the lag that canaries measure, which wait a whole flush
	if got := r.Rules[0]; got.InnocentsClosed != 1 || got.InnocentLongest > hold+0.001 || r.Admitted != r.Requests {
		t.Errorf("got it closed %d times, for up to %v s, and %d of %d admitted; want once, for at most %v s, and all",
			got.InnocentsClosed, got.InnocentLongest, r.Admitted, r.Requests, hold)
	}
}

// TestNothingIsPredictedWithoutALag, above a quarter of the window, or where a rule says off.
func TestNothingIsPredictedWithoutALag(t *testing.T) {
	for name, tt := range map[string]struct {
		lag     time.Duration
		cap     float64
		predict rules.Predict
		more    string
		want    bool
	}{
		"early":                {200 * ms, 0, rules.PredictEarly, fixed1, true},
		"off":                  {200 * ms, 0, rules.PredictOff, fixed1, false},
		"off by its rule":      {200 * ms, 0, rules.PredictEarly, fixed1 + ", predict: off", false},
		"a lag of 0.4 W":       {400 * ms, 0, rules.PredictEarly, fixed1, false},
		"a cap that allows it": {400 * ms, 0.5, rules.PredictEarly, fixed1, true},
		"a cap that does not":  {200 * ms, 0.1, rules.PredictEarly, fixed1, false},
	} {
		sim, err := New(Config{
			Rules: rulesOf(t, 500, "1s", tt.more), Predict: tt.predict, LagCap: tt.cap, Start: start, Servers: 2, Partitions: 1,
			Lag: exactly(tt.lag), Seed: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		ask(t, sim, "c", 1000, 0, 8*time.Second)
		r, err := sim.Finish(start + int64(8*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		reactive := tt.lag.Seconds() * 1000 / 500
		periods := r.Rules[0].Series.Periods
		over := float64(periods[6].Admitted)/500 - 1
		if predicted := over < reactive/2; predicted != tt.want {
			t.Errorf("%s: got an overshoot of %.3f in the seventh window, where reactive gives %.3f", name, over, reactive)
		}
	}
}

// TestALagThatJumpsIsMeasured: canaries say so, and the result has its mean and its largest value.
func TestALagThatJumpsIsMeasured(t *testing.T) {
	testenv.Long(t)
	calm, jumped := run(t, "A", Options{Lag: 50 * ms}, 1), run(t, "lag-jump", Options{Rate: 0.1}, 1)
	if calm.LagMean < 0.045 || calm.LagMean > 0.06 || calm.LagLargest > 0.07 {
		t.Errorf("got a lag of %v, at most %v, want 0.05", calm.LagMean, calm.LagLargest)
	}
	if jumped.LagLargest < 1.5 || jumped.LagLargest > 2.5 || jumped.LagMean < 2*calm.LagMean {
		t.Errorf("got a lag of %v, at most %v, want 2 s for a while", jumped.LagMean, jumped.LagLargest)
	}
}

// TestClocksDoNotChangeTheDemand: with clocks that differ, windows are those of the servers' clocks, and every request is in one.
func TestClocksDoNotChangeTheDemand(t *testing.T) {
	for _, skew := range []time.Duration{0, 10 * ms, 300 * ms} {
		sim, err := New(Config{
			Rules: rulesOf(t, 1000, "1s", fixed1), Start: start, Servers: 2, Partitions: 1, Lag: exactly(50 * ms), Skew: skew, Seed: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		ask(t, sim, "c", 100, time.Second, 4*time.Second)
		r, err := sim.Finish(start + int64(6*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		demand, sync := int64(0), int64(0)
		for _, p := range r.Rules[0].Series.Periods {
			demand, sync = demand+p.Demand, sync+p.Sync
		}
		if demand != 300 || sync != 300 || r.Admitted != 300 {
			t.Errorf("skew %v: got %d asked, %d admitted at once and %d by us, want 300", skew, demand, sync, r.Admitted)
		}
	}
}
