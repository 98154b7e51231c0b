package simulate

import (
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// evader is one caller with a limit of 1 000 that decides on its next request when it knows the answer to the last one. The lag is
// 200 ms.
type evader struct {
	window time.Duration
	rule   string // more of it
	length time.Duration
	// next returns the time to the next request and the server for it.
	next func(into time.Duration, n int, admitted bool, left float64) (wait time.Duration, server int)
}

func (e *evader) run(t *testing.T, predict rules.Predict) *RuleResult {
	t.Helper()
	sim, err := New(Config{
		Rules: rulesOf(t, 1000, e.window.String(), e.rule), Predict: predict, Start: start, Servers: 2, Partitions: 1, Lag: LagOf(200 * ms), Seed: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	left, window, server := 1000.0, int64(0), 0
	at := start
	for n := 0; at < start+int64(e.length); n++ {
		if w := at / int64(e.window); w != window {
			window, left = w, 1000
		}
		admitted, err := sim.Request(&Request{At: at, Server: server, Callers: []schemas.Caller{{Kind: Kind, ID: "a"}}})
		if err != nil {
			t.Fatal(err)
		}
		if admitted {
			left--
		}
		var wait time.Duration
		wait, server = e.next(time.Duration(at-start), n, admitted, left)
		at += int64(max(wait, 1))
	}
	got, err := sim.Finish(at)
	if err != nil {
		t.Fatal(err)
	}
	return &got.Rules[0]
}

// TestWhoStopsWhenRefused: a caller that makes 4 000 requests a second, and stops for a while when one is refused. The next burst
// cannot be foreseen. So prediction may not help, but it never gives more than what decisions that follow the limit give.
func TestWhoStopsWhenRefused(t *testing.T) {
	testenv.Long(t)
	for _, rule := range []string{fixed1, fixed1 + ", close_for: 10s", "", ", algorithm: log"} {
		for _, pause := range []time.Duration{ms, 5 * ms, 100 * ms, 311 * ms, 400 * ms, 700 * ms, 1500 * ms} {
			e := evader{window: 2 * time.Second, rule: rule, length: 30 * time.Second, next: func(_ time.Duration, n int, admitted bool, _ float64) (time.Duration, int) {
				if admitted {
					return ms / 4, n % 2
				}
				return pause, n % 2
			}}
			off, on := e.run(t, rules.PredictOff), e.run(t, rules.PredictShares)
			t.Logf("%q, pauses of %v: overshoot mean %.3f and %.3f, largest %.3f and %.3f", rule, pause, off.Overshoot.Mean, on.Overshoot.Mean, off.Overshoot.Max, on.Overshoot.Max)
			if on.Overshoot.Mean > off.Overshoot.Mean+0.005 || on.Overshoot.Max > off.Overshoot.Max+0.05 {
				t.Errorf("%q, pauses of %v: got an overshoot of %.3f and at most %.3f, want no more than without prediction: %.3f and %.3f",
					rule, pause, on.Overshoot.Mean, on.Overshoot.Max, off.Overshoot.Mean, off.Overshoot.Max)
			}
		}
	}
}

// TestWhoSlowsDown: a caller that sees to it that its window will always be full in a little more than the lag, so that each request
// moves what is predicted. That makes no more decisions than a caller that goes over its limit, and nothing is gained by it.
func TestWhoSlowsDown(t *testing.T) {
	testenv.Long(t)
	for _, rule := range []string{fixed1, "", ", algorithm: log"} {
		for _, ahead := range []time.Duration{150 * ms, 205 * ms, 212 * ms, 218 * ms, 230 * ms, 260 * ms} {
			e := evader{window: 10 * time.Second, rule: rule, length: 40 * time.Second, next: func(_ time.Duration, n int, _ bool, left float64) (time.Duration, int) {
				return time.Duration(float64(ahead) / max(left-20, 2)), n % 2
			}}
			got := e.run(t, rules.PredictShares)
			t.Logf("%q, %v ahead: overshoot %.4f, %.2f decisions/s", rule, ahead, got.Overshoot.Mean, got.DecisionRate)
			if got.Overshoot.Max > 0.01 || got.DecisionRate > 3 {
				t.Errorf("%q, %v ahead: got an overshoot of %.4f and %.2f decisions a second, want at most 0.01 and 3", rule, ahead, got.Overshoot.Max, got.DecisionRate)
			}
		}
	}
}

// TestWhoAlternatesServers: a caller at twice its limit that sends all its requests to one server for a while, then to the other one.
// Decisions are for all servers: it gains nothing. Shares are by server: if the turns are as long as it takes to renew them, they
// are wrong now and then, and end. The caller loses by that much more than it gains; and as shares come back later each time, it loses
// no more than one whose traffic moves every ten seconds.
func TestWhoAlternatesServers(t *testing.T) {
	testenv.Long(t)
	for _, turn := range []time.Duration{10 * ms, 50 * ms, 100 * ms, 200 * ms, 400 * ms, time.Second, 2 * time.Second, 3 * time.Second} {
		e := evader{window: time.Second, rule: fixed1, length: 100 * time.Second, next: func(into time.Duration, _ int, _ bool, _ float64) (time.Duration, int) {
			return ms / 2, int(into / turn % 2)
		}}
		for predict, most := range map[rules.Predict]struct{ mean, p99, lost float64 }{
			rules.PredictEarly: {0.009, 0.065, 0.014}, rules.PredictShares: {0.004, 0.04, 0.06},
		} {
			got := e.run(t, predict)
			t.Logf("%v, in turns of %v: overshoot mean %.4f, 0.99-quantile %.4f, lost %.4f", predict, turn, got.Later.Mean, got.Later.P99, got.Lost)
			if got.Later.Mean > most.mean || got.Later.P99 > most.p99 || got.Lost > most.lost || got.Later.Mean > max(got.Lost, 0.009) {
				t.Errorf("%v, in turns of %v: got an overshoot of %.4f, %.4f in one of a hundred windows, and %.4f lost; want %.4f, %.4f and %.4f at most, and more lost than won",
					predict, turn, got.Later.Mean, got.Later.P99, got.Lost, most.mean, most.p99, most.lost)
			}
		}
	}
}
