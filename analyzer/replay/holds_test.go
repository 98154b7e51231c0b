package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// streams is a log of one caller whose requests cost 1,000 and take 14 s on average, and which asks for so many times 100,000 a minute. A few
// requests of another caller stand between them.
func streams(times float64, minutes int) string {
	r := rand.New(rand.NewPCG(7, 7))
	var log strings.Builder
	for at := 0.0; at < 60*float64(minutes); at += r.ExpFloat64() * 0.6 / times {
		z := r.NormFloat64()
		cost := math.Exp(z*0.83 - 0.35) // the mean is 1, and so is the deviation
		log.WriteString(jsonLine(at, "192.0.2.1", fmt.Sprintf(`,"path":"/chat","s":%.3f,"bytes":%d`, 14*cost, int(1000*cost)+1)))
		if r.IntN(100) == 0 {
			log.WriteString(jsonLine(at, "192.0.2.2", `,"path":"/chat","s":2,"bytes":100`))
		}
	}
	return log.String()
}

// TestReplayShowsWhatHoldsWouldHaveDone: at twice its limit a caller goes over it by little, and uses nearly all of it. Without holds it goes
// far over. Holds count nothing: without predictions they close nobody.
func TestReplayShowsWhatHoldsWouldHaveDone(t *testing.T) {
	const arrival = "limit: 100000, window: 1m, algorithm: fixed, measure: cost, charge: arrival"
	replay := func(predict rules.Predict, body string) (Lasting, Summary) {
		t.Helper()
		got := run(t, Config{
			Format: format(t, "json", timed(t, ingest.TimeAtStart)), Rules: rule(t, body), Predict: predict, Inputs: text(streams(2, 20)),
		}).summary
		if len(got.Lasting) != 1 {
			t.Fatalf("got %+v", got)
		}
		return got.Lasting[0], got
	}
	held, s := replay(rules.PredictShares, arrival+", hold: {estimate: 1000}")
	t.Logf("with holds: %+v", held)
	if held.Windows < 18 || held.Over > 0.05 || held.Used < 0.93 || held.Closures < 18 || held.Refused == 0 || held.Needless != 0 || s.ReorderCut != 0 {
		t.Errorf("with holds: got %+v, want nearly all used, and little over", held)
	}
	free, _ := replay(rules.PredictShares, arrival)
	t.Logf("without: %+v", free)
	if free.Windows < 18 || free.Over < 5*held.Over || free.Closures != 0 || free.Refused != 0 {
		t.Errorf("without holds: got %+v, want far over, and no closures", free)
	}
	off, offSum := replay(rules.PredictOff, arrival+", hold: {estimate: 1000}")
	if off.Closures != 0 || off.Over != free.Over || offSum.Closes == 0 {
		t.Errorf("without predictions: got %+v, want %+v", off, free)
	}
}

// TestReplayLimitsRequestsInFlight: with a limit of three, the fourth is refused until one ends.
func TestReplayLimitsRequestsInFlight(t *testing.T) {
	var log strings.Builder
	for at := range 20 { // each takes 10 s
		log.WriteString(jsonLine(float64(at), "192.0.2.1", `,"s":10`))
	}
	for body, want := range map[string]string{
		"limit: 3, measure: in_flight":               "closures 1, refused 14, blocked 14, shadow 0",
		"limit: 3, measure: in_flight, mode: shadow": "closures 1, refused 0, blocked 0, shadow 17",
		"limit: 30, measure: in_flight":              "closures 0, refused 0, blocked 0, shadow 0",
	} {
		s := run(t, Config{Format: format(t, "json", timed(t, ingest.TimeAtStart)), Rules: rule(t, body), Inputs: text(log.String())}).summary
		got := fmt.Sprintf("closures %d, refused %d, blocked %d, shadow %d", s.Lasting[0].Closures, s.Lasting[0].Refused, s.Blocked, s.ShadowBlocked)
		if got != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
}

// TestALogWithoutDurationsHasNothingInFlight: its lines say when requests ended, and not when they began.
func TestALogWithoutDurationsHasNothingInFlight(t *testing.T) {
	var log strings.Builder
	for at := range 60 {
		log.WriteString(jsonLine(float64(at)/10, "192.0.2.1", `,"bytes":10`))
	}
	m := timed(t, ingest.TimeAtEnd)
	m.Duration, m.Declared, m.Unit = "", "", 0
	s := run(t, Config{
		Format: format(t, "json", m), Inputs: text(log.String()), Predict: rules.PredictShares,
		Rules: rule(t, "limit: 5, measure: in_flight", "limit: 1000, window: 1m, algorithm: fixed, measure: cost, charge: arrival, hold: {estimate: 100}"),
	}).summary
	if s.Requests != 60 || s.Blocked != 0 || s.Closes != 0 || s.Lasting[0].Refused+s.Lasting[1].Refused != 0 {
		t.Errorf("got %+v, want 60 requests, all of which pass", s)
	}
}

// TestRefusedNeedlesslyIsWhatOneRuleAloneRefuses: three requests come while each is in flight. They cost far less than the limit, and less than
// the hold expects. What a limit on requests in flight or on requests refuses is not laid on the hold.
func TestRefusedNeedlesslyIsWhatOneRuleAloneRefuses(t *testing.T) {
	var log strings.Builder
	for at := range 3 {
		log.WriteString(jsonLine(float64(at), "192.0.2.1", `,"s":20,"bytes":10`))
	}
	const costs = "limit: 1000, window: 1m, algorithm: fixed, measure: cost, charge: arrival, hold: {estimate: %d}"
	for name, test := range map[string]struct {
		estimate int
		other    string
		refused  int64 // by the hold
		needless int64
	}{
		"the hold alone":          {400, "limit: 3, measure: in_flight", 2, 2},
		"both":                    {400, "limit: 1, measure: in_flight", 2, 0},
		"the limit in flight":     {100, "limit: 2, measure: in_flight", 0, 0},
		"the limit on requests":   {100, "limit: 2, window: 1m, algorithm: fixed", 0, 0},
		"it and the hold":         {400, "limit: 1, window: 1m, algorithm: fixed", 0, 0},
		"a limit in shadow, both": {400, "limit: 1, measure: in_flight, mode: shadow", 2, 2},
	} {
		s := run(t, Config{
			Format: format(t, "json", timed(t, ingest.TimeAtStart)), Rules: rule(t, test.other, fmt.Sprintf(costs, test.estimate)),
			Predict: rules.PredictShares, Inputs: text(log.String()),
		}).summary
		if got := s.Lasting[len(s.Lasting)-1]; got.Refused != test.refused || got.Needless != test.needless {
			t.Errorf("%s: got %+v of %d blocked, want %+v", name, got, s.Blocked, test)
		}
	}
}

// TestWindowsOfLimitsOnCosts: over and used are means over the windows in which as much as the limit was asked for.
func TestWindowsOfLimitsOnCosts(t *testing.T) {
	line := func(at float64, client string, cost int, rest string) string {
		return jsonLine(at, client, fmt.Sprintf(`,"bytes":%d,"s":0%s`, cost, rest))
	}
	log := line(0, "192.0.2.1", 60, "") + line(1, "192.0.2.1", 90, "") + line(2, "192.0.2.1", 1, "") + // 150 of 100, and one refused
		line(2, "192.0.2.2", 30, "") + // never asks for its limit
		line(3, "192.0.2.1", 500, `,"status":429`) + // nobody knows what it would have cost
		line(60, "192.0.2.1", 100, "") + line(120, "192.0.2.1", 99, "") // just as much, and less
	for algorithm, used := range map[string]float64{"fixed": 1, "sliding, slots: 1": 0.5} { // a window that slides is full for longer
		s := run(t, Config{
			Format: format(t, "json", timed(t, ingest.TimeAtStart)), Inputs: text(log),
			Rules: rule(t, fmt.Sprintf("limit: 100, window: 1m, algorithm: %s, measure: cost, charge: arrival", algorithm)),
		}).summary
		got := s.Lasting[0]
		if got.Windows != 2 || got.Over != 0.25 || got.OverMost != 0.5 || got.Used != used || got.Needless != 0 || got.Refused != 0 {
			t.Errorf("%s: got %+v, want one window of 150 %% and one of 100 %%", algorithm, got)
		}
	}
	s := run(t, Config{
		Format: format(t, "json", timed(t, ingest.TimeAtStart)), Inputs: text(log), Rules: rule(t, "limit: 300, window: hour, measure: cost, charge: arrival"),
	}).summary
	if got := s.Lasting[0]; got.Windows != 1 || got.Used != 1 || math.Abs(got.Over-50./300) > 1e-6 {
		t.Errorf("an hour: got %+v, want one window with all of 350", got)
	}
}

// TestLastingForgetsWindowsThatAreOver: a long log of many callers needs no memory for each.
func TestLastingForgetsWindowsThatAreOver(t *testing.T) {
	var log strings.Builder
	for n := range 20_000 {
		log.WriteString(jsonLine(float64(n), fmt.Sprintf("10.0.%d.%d", n/256, n%256), `,"bytes":1`))
	}
	c := Config{
		Format: format(t, "json", timed(t, ingest.TimeAtStart)), Inputs: text(log.String()), Reorder: time.Minute,
		Rules: rule(t, "limit: 1, window: 10s, algorithm: fixed, measure: cost, charge: arrival"),
	}
	most, sum := 0, Summary{}
	l, err := newLoop(checked(t, c), &sum)
	if err != nil {
		t.Fatal(err)
	}
	for n := range int64(20_000) {
		l.request(&ingest.Line{Time: n * int64(time.Second), IDs: []string{fmt.Sprint(n)}, Cost: 1})
		most = max(most, len(l.lasting[0][0].callers))
	}
	if l.finish(); most > 2100 || sum.Lasting[0].Windows != 20_000 {
		t.Errorf("got %d callers at a time, and %+v", most, sum.Lasting)
	}
}

// checked returns a configuration as Run takes it.
func checked(t *testing.T, c Config) Config {
	t.Helper()
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	return c
}
