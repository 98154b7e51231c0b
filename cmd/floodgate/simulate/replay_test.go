package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/replay"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// Stories of replays with a lag.

// outcome is all that a replay says.
type outcome struct {
	closes  []replay.Close
	entries []schemas.Entry // that were recorded
	summary replay.Summary
}

// first returns when each caller was closed for the first time.
func (o *outcome) first() map[string]time.Time {
	first := make(map[string]time.Time)
	for _, c := range o.closes {
		if _, ok := first[c.Caller]; !ok {
			first[c.Caller] = c.CloseAt
		}
	}
	return first
}

// replayed replays a log of JSON lines, or what c says instead.
func replayed(t testing.TB, c replay.Config, log string) (o outcome) {
	t.Helper()
	c.Reorder = replay.DefaultReorder
	if c.Circuit == nil {
		c.Circuit = Circuit
	}
	if c.Format == nil {
		c.Format = jsonFormat(t)
	}
	if c.Inputs == nil {
		c.Inputs = []replay.Input{{Name: "log", Reader: strings.NewReader(log)}}
	}
	c.OnClose = func(x replay.Close) error {
		o.closes = append(o.closes, x)
		return nil
	}
	c.OnEntry = func(e *schemas.Entry) {
		own := *e
		own.ID, own.Resource = strings.Clone(e.ID), strings.Clone(e.Resource)
		o.entries = append(o.entries, own)
	}
	var err error
	if o.summary, err = replay.Run(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	return o
}

func jsonFormat(t testing.TB) *ingest.Format {
	t.Helper()
	f, err := ingest.NewFormat("json", ingest.Mapping{
		Callers:  []ingest.CallerTemplate{{Kind: "ip", Template: "{client}"}, {Kind: "ip_route", Template: "{client}|{path}"}},
		Resource: "path", Status: "status", Cost: "bytes",
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// lastingFormat is JSON whose requests have a duration. A kind and the same with _route are callers.
func lastingFormat(t testing.TB, kind string) *ingest.Format {
	t.Helper()
	f, err := ingest.NewFormat("json", ingest.Mapping{
		Callers:  []ingest.CallerTemplate{{Kind: kind, Template: "{client}"}, {Kind: kind + "_route", Template: "{client}|{path}"}},
		Resource: "path", Status: "status", Cost: "bytes", TimeAt: ingest.TimeAtStart, Duration: "s", Unit: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// ipRules returns a set of rules about callers of kind ip, each given as flow YAML without its braces, name and callers.
func ipRules(t testing.TB, bodies ...string) *rules.Set {
	t.Helper()
	lines := make([]string, len(bodies))
	for i, body := range bodies {
		if lines[i] = fmt.Sprintf("{name: r%d, %s}", i, body); !strings.Contains(body, "callers:") {
			lines[i] = fmt.Sprintf("{name: r%d, callers: ip, %s}", i, body)
		}
	}
	return foldtest.Rules(t, lines...)
}

// jsonLine is a line of a JSON log at so many seconds into a day; rest is further members.
func jsonLine(at float64, client, rest string) string {
	return fmt.Sprintf(`{"time":%.3f,"client":"%s"%s}`+"\n", 1_773_446_400+at, client, rest)
}

// evenLog returns a log of one caller's requests, evenly spaced, from one time on, in seconds.
func evenLog(client string, from, every float64, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(jsonLine(from+float64(i)*every, client, ""))
	}
	return b.String()
}

// poissonLog returns a log of one caller's requests, at random, at a rate per second for so many seconds.
func poissonLog(seed uint64, client string, rate, length float64) string {
	r := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	for at := 0.0; at < length; at += r.ExpFloat64() / rate {
		b.WriteString(jsonLine(at, client, ""))
	}
	return b.String()
}

// fineLog returns a log with distinct times in milliseconds, over about ten minutes, of a dozen callers of whom one asks too much.
func fineLog(r *rand.Rand, n int) string {
	var b strings.Builder
	at := int64(1_773_478_800_000)
	for range n {
		at += 1 + r.Int64N(max(1, 1_200_000/int64(n)))
		fmt.Fprintf(&b, `{"time":%d,"client":"192.0.2.%d","path":"/%d","status":200,"bytes":%d}`+"\n",
			at, r.IntN(12)*r.IntN(2), r.IntN(4), r.IntN(5000))
	}
	return b.String()
}

// fineRules are rules of all algorithms, one of which counts what responses cost.
func fineRules(t testing.TB) *rules.Set {
	t.Helper()
	return ipRules(t, "limit: 20, window: 1m, slots: 6", "limit: 9, window: 10s, algorithm: gcra, burst: 3",
		"callers: ip_route, limit: 5, window: 20s, algorithm: log", "limit: 40000, window: 1m, algorithm: fixed, measure: cost")
}

// TestALagLetsRequestsThrough: the limit is 3 in a minute. At 3 s the gate should close; the decision takes 2.5 s.
func TestALagLetsRequestsThrough(t *testing.T) {
	log := evenLog("192.0.2.1", 0, 1, 10)
	day := time.Unix(1_773_446_400, 0)
	for _, c := range []struct {
		lag       time.Duration
		blocked   int64
		overshoot float64
	}{{0, 7, 0}, {time.Nanosecond, 7, 0}, {time.Second, 7, 0}, {1001 * ms, 6, 1. / 3}, {2500 * ms, 5, 2. / 3}, {time.Hour, 0, 7. / 3}} {
		got := replayed(t, replay.Config{Rules: ipRules(t, "limit: 3, window: 1m, algorithm: fixed"), Lag: c.lag}, log)
		if got.summary.Blocked != c.blocked || got.summary.Overshoot != c.overshoot || len(got.closes) != 1 ||
			!got.closes[0].CloseAt.Equal(day.Add(2*time.Second)) || !got.closes[0].Until.Equal(day.Add(time.Minute)) {
			t.Errorf("lag %v: got %+v, %v, want %+v", c.lag, got.summary, got.closes, c)
		}
	}
}

// TestALagLetsRequestsInFlightThrough: two may be in flight. Requests come each half second, last for a minute, and the decision takes 1.2 s.
func TestALagLetsRequestsInFlightThrough(t *testing.T) {
	var log strings.Builder
	for i := range 8 {
		log.WriteString(jsonLine(float64(i)/2, "192.0.2.1", `,"path":"/","s":60`))
	}
	for lag, over := range map[time.Duration]uint64{1: 0, 1200 * ms: 2} {
		s := replayed(t, replay.Config{
			Format: lastingFormat(t, "ip"), Rules: ipRules(t, "limit: 2, measure: in_flight"), Lag: lag,
		}, log.String()).summary
		if s.Blocked != 6-int64(over) || s.Accuracy.Over != over || s.Overshoot != float64(over)/2 {
			t.Errorf("lag %v: got %d blocked, %d over and an overshoot of %v, want %d over", lag, s.Blocked, s.Accuracy.Over, s.Overshoot, over)
		}
	}
}

// TestALagDoesNotChangeWhichCallersAreClosed: a longer lag lets more through, and the same callers are closed for the first time at the
// same moment.
func TestALagDoesNotChangeWhichCallersAreClosed(t *testing.T) {
	log := fineLog(rand.New(rand.NewPCG(7, 1)), 5000)
	var before outcome
	for i, lag := range []time.Duration{0, 50 * ms, time.Second, 5 * time.Second, time.Minute, 2 * time.Hour} {
		got := replayed(t, replay.Config{Rules: ipRules(t, "limit: 20, window: 1m, algorithm: fixed"), Lag: lag}, log)
		first, of := got.first(), before.first()
		for caller, at := range of {
			if !first[caller].Equal(at) {
				t.Errorf("lag %v: %s is closed at %v, want %v as with less lag", lag, caller, first[caller], at)
			}
		}
		if i > 0 && (got.summary.Overshoot < before.summary.Overshoot || got.summary.Blocked > before.summary.Blocked || len(first) != len(of)) {
			t.Errorf("lag %v: got %+v, with less lag %+v", lag, got.summary, before.summary)
		}
		before = got
	}
	if before.summary.Overshoot < 10 || before.summary.Blocked != 0 {
		t.Errorf("with a lag longer than the log: got %+v", before.summary)
	}
}

// TestAnEarlyCloseHoldsTheLimit: 100 requests in 10 s, asked for at twice that rate, under a lag of 1 s. Without prediction 20 more are
// admitted. With it the gate closes when the window is full, and what closes is counted at the same time.
func TestAnEarlyCloseHoldsTheLimit(t *testing.T) {
	log := evenLog("192.0.2.1", 0, 0.05, 600)
	c := replay.Config{Rules: ipRules(t, "limit: 100, window: 10s, algorithm: fixed"), Lag: time.Second}
	off := replayed(t, c, log)
	c.Predict = rules.PredictEarly
	early := replayed(t, c, log)
	if a := off.summary.Accuracy; a == nil || a.Over != 3*19 || a.Early != 0 || a.Bound != 0 || off.summary.Overshoot != 0.19 {
		t.Errorf("off: got %+v, overshoot %v, want 19 requests over in each of three windows", a, off.summary.Overshoot)
	}
	a := early.summary.Accuracy
	if a.Over > 6 || a.Early < 3 || a.InnocentsClosed != 0 || early.summary.Closes != 3 || a.Foreseen != 3 || a.Shares != 0 {
		t.Errorf("early: got %+v and %d closes, want 3 and 6 requests over at most", a, early.summary.Closes)
	}
	if a.Expected <= 0 || a.Expected > a.Bound || a.OvershootMean > a.Bound || early.closes[0].Bound <= 0 {
		t.Errorf("got %+v and first close %+v, want overshoot within its bound", a, early.closes[0])
	}
	if m := a.Mechanisms; len(m) != 1 || m[0].Name != "early" || m[0].Closes != 3 || m[0].Mean != a.OvershootMean || m[0].Bound != a.Bound {
		t.Errorf("got %+v, want the three closes, all of them early", m)
	}
	marked := slices.ContainsFunc(early.entries, func(e schemas.Entry) bool { return e.Early })
	if !marked || slices.ContainsFunc(early.entries, func(e schemas.Entry) bool { return e.Early && !e.Blocked }) {
		t.Errorf("got entries marked %v, want what an early closure blocked, and nothing else", marked)
	}
}

// TestAnEarlyCloseOfAReplayEndsByItself: a caller heads for its limit and stops short of it. The early closure comes, blocks one request,
// is not confirmed, and ends after one and a half lags and a margin. Nothing is counted.
func TestAnEarlyCloseOfAReplayEndsByItself(t *testing.T) {
	const hold = 1.51
	log := evenLog("192.0.2.1", 0, 0.05, 90) + // 90 of 100 by 4.45 s: full at 5 s
		jsonLine(5.3, "192.0.2.1", "") + jsonLine(8, "192.0.2.1", "")
	got := replayed(t, replay.Config{
		Rules: ipRules(t, "limit: 100, window: 10s, algorithm: fixed"), Lag: time.Second, Predict: rules.PredictEarly,
	}, log)
	last := got.entries[len(got.entries)-2:]
	if !last[0].Early || !last[0].Blocked || last[1].Blocked {
		t.Errorf("got %+v, want the one blocked early and the other admitted", last)
	}
	a := got.summary.Accuracy
	if got.summary.Closes != 0 || a.InnocentsClosed != 1 || a.InnocentRequests != 1 || a.InnocentLongest <= 0 || a.InnocentLongest > hold {
		t.Errorf("got %d closes and %+v, want one innocent, closed for %v s at most", got.summary.Closes, a, hold)
	}
}

// TestASaturatedCallerGetsShares: at twice its limit and with a lag of a fifth of its window, as scenario A. Shares hold it to its
// limit all but exactly, from the third window on.
func TestASaturatedCallerGetsShares(t *testing.T) {
	testenv.Long(t)
	log := poissonLog(1, "192.0.2.1", 2000, 10)
	c := replay.Config{Rules: ipRules(t, "limit: 1000, window: 1s, algorithm: fixed"), Lag: 200 * ms}
	var over [3]uint64
	for most := rules.PredictOff; most <= rules.PredictShares; most++ {
		c.Predict = most
		got := replayed(t, c, log)
		a := got.summary.Accuracy
		over[most] = a.Over
		if (a.Shares > 0) != (most == rules.PredictShares) || got.summary.Closes < 9 || a.InnocentsClosed != 0 {
			t.Errorf("%v: got %+v and %d closes, want one a window, and shares if they are allowed", most, a, got.summary.Closes)
		}
		if most < rules.PredictShares {
			continue
		}
		m := a.Mechanisms[len(a.Mechanisms)-1]
		if m.Name != "shares" || m.Closes < 6 || m.Mean > 0.002 || m.Bound <= 0 || m.Bound > 0.005 {
			t.Errorf("got %+v, want most closes while a share held, with a request or two over", a.Mechanisms)
		}
	}
	if over[rules.PredictOff] < 3000 || over[rules.PredictEarly] > 200 || over[rules.PredictShares] >= over[rules.PredictEarly] {
		t.Errorf("got %v requests over, want ever fewer", over)
	}
}

// TestALagOverTheCapPredictsNothing, and a raised cap lets it.
func TestALagOverTheCapPredictsNothing(t *testing.T) {
	for lagCap, want := range map[float64]bool{0: false, 0.25: false, 0.5: true} {
		got := replayed(t, replay.Config{
			Rules: ipRules(t, "limit: 100, window: 10s, algorithm: fixed"), Lag: 3 * time.Second,
			Predict: rules.PredictShares, PredictLagCap: lagCap,
		}, evenLog("192.0.2.1", 0, 0.05, 600))
		if early := got.summary.Accuracy.Early > 0; early != want {
			t.Errorf("cap %v: got %+v, want early closures: %v", lagCap, got.summary.Accuracy, want)
		}
	}
}
