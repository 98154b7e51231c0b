package simulate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/replay"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
)

// punctual is Circuit with gates that reopen without jitter.
func punctual(c *replay.Config, events replay.Events) (replay.Circuit, error) {
	x, err := Circuit(c, events)
	if err == nil {
		x.(*circuit).w.servers[0].set = gate.New(gate.Options{MaxJitter: -1})
	}
	return x, err
}

// TestPredictOffIsAsBefore: up to a lag of 50 ms the numbers are those of the last version that could not predict. (At 5 s that
// version let gates hold several decisions of one rule at a time. They hold the newest only.) Without a lag nothing is predicted in
// any case. With a nanosecond of it, a server with gates, a recorder, and the log between it and the analyzer decide as the loop
// does that is all of them at once.
func TestPredictOffIsAsBefore(t *testing.T) {
	log := fineLog(rand.New(rand.NewPCG(3, 1)), 4000)
	var digests []string
	for _, test := range []struct {
		lag  time.Duration
		want replay.Summary
	}{
		{0, replay.Summary{Closes: 394, Blocked: 2239, Overshoot: 0.119725}},
		{1, replay.Summary{Closes: 394, Blocked: 2239, Overshoot: 0.119725}},
		{50 * ms, replay.Summary{Closes: 389, Blocked: 2239, Overshoot: 1. / 3}},
		{5 * time.Second, replay.Summary{Closes: 374, Blocked: 2096, Overshoot: 10. / 3}},
	} {
		c := replay.Config{Rules: fineRules(t), Lag: test.lag, Circuit: punctual}
		want := replayed(t, c, log)
		if s := want.summary; s.Closes != test.want.Closes || s.Blocked != test.want.Blocked || s.Overshoot != test.want.Overshoot {
			t.Errorf("lag %v: got %d closes, %d blocked, overshoot %v, want %+v", test.lag, s.Closes, s.Blocked, s.Overshoot, test.want)
		}
		for most := rules.PredictOff; most <= rules.PredictShares; most++ {
			if most > rules.PredictOff && test.lag > 0 {
				continue
			}
			c.Predict = most
			if got := replayed(t, c, log); !reflect.DeepEqual(got, want) {
				t.Errorf("lag %v, predict %v: got\n%+v\nwant\n%+v", test.lag, most, got.summary, want.summary)
			}
		}
		if (want.summary.Accuracy == nil) != (test.lag == 0) {
			t.Errorf("lag %v: got %+v", test.lag, want.summary.Accuracy)
		}
		digests = append(digests, want.summary.Digest)
	}
	if digests[0] != digests[1] || digests[1] == digests[2] {
		t.Errorf("got digests %q, want the same for a nanosecond as without a lag, and another one for 50 ms", digests)
	}
}

// TestReplayAndSimulateAgree: the lines of a log through a replay with a lag, and through a simulation of one server with the same
// lag. They admit, close and overshoot the same, to the request and to the digest of all rows. With canaries and a lag that varies, as
// simulate has by itself, they differ by little.
func TestReplayAndSimulateAgree(t *testing.T) {
	const lag = 200 * ms
	seconds := 6
	if testenv.IsLong() {
		seconds = 20
	}
	varies := Config{Lag: LagOf(lag), Quiet: quiet, Seed: 1}
	same := Config{Lag: Lag{ToGate: lag}, LagKnown: true}
	for name, test := range map[string]struct {
		rules  *rules.Set
		log    string
		c      Config
		within float64 // as a share of the requests
	}{
		"a saturated caller":             {ipRules(t, "limit: 1000, window: 1s, algorithm: fixed"), poissonLog(5, "192.0.2.1", 1800, float64(seconds)), same, 0},
		"the same, by a lag that varies": {ipRules(t, "limit: 1000, window: 1s, algorithm: fixed"), poissonLog(5, "192.0.2.1", 1800, float64(seconds)), varies, 0.02},
		"all algorithms": {ipRules(t, "limit: 20, window: 5s, slots: 6", "limit: 9, window: 10s, algorithm: gcra, burst: 3",
			"callers: ip_route, limit: 5, window: 20s, algorithm: log", "callers: ip_route, limit: 30, window: 1s, algorithm: fixed"),
			fineLog(rand.New(rand.NewPCG(9, 1)), 1000*seconds), same, 0},
	} {
		for most := rules.PredictOff; most <= rules.PredictShares; most++ {
			replayed := replayed(t, replay.Config{Rules: test.rules, Lag: lag, Predict: most}, test.log)
			c := test.c
			c.Rules, c.Predict, c.Servers, c.Partitions = test.rules, most, 1, 1
			r, counted := simulatedLog(t, c, test.log)
			s, st := &replayed.summary, counted.Stats()
			over := uint64(0)
			for _, rule := range st.Rules {
				over += rule.Enforced.Over
			}
			want := []float64{float64(s.Requests), float64(s.Requests - s.Blocked), float64(s.Closes), float64(s.Accuracy.Over)}
			got := []float64{float64(r.Requests), float64(r.Admitted), float64(st.Closes), float64(over)}
			for i := range want {
				if math.Abs(got[i]-want[i]) > test.within*float64(s.Requests) {
					t.Errorf("%s, %v: got requests, admitted, closes and over %v of the simulation, want those of the replay %v", name, most, got, want)
					break
				}
			}
			if digest := fmt.Sprintf("%016x", counted.Digest(counted.LogTime())); test.within == 0 && (digest != s.Digest || st.Overshoot != s.Overshoot) {
				t.Errorf("%s, %v: got digest %s and overshoot %v of the simulation, want %s and %v", name, most, digest, st.Overshoot, s.Digest, s.Overshoot)
			}
		}
	}
}

// simulatedLog runs the lines of a log, and also returns the fold that has counted.
func simulatedLog(t *testing.T, c Config, log string) (*Result, *fold.Fold) {
	t.Helper()
	var sim *Simulation
	last, format := int64(0), jsonFormat(t)
	_, err := replay.Requests(context.Background(), replay.Config{
		Rules: c.Rules, Format: format, Inputs: []replay.Input{{Name: "log", Reader: strings.NewReader(log)}}, Reorder: replay.DefaultReorder,
	}, func(line *ingest.Line) error {
		var err error
		if sim == nil {
			c.Start = line.Time
			if sim, err = New(c); err != nil {
				return err
			}
		}
		last = line.Time
		r := Request{At: line.Time, Resource: line.Resource}
		for i, kind := range format.Kinds() {
			if len(c.Rules.ForKind(kind)) > 0 {
				r.Callers = append(r.Callers, schemas.Caller{Kind: kind, ID: line.IDs[i]})
			}
		}
		_, err = sim.Request(&r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := sim.Finish(last + 1)
	if err != nil {
		t.Fatal(err)
	}
	return r, sim.w.partitions[0].fold
}

// TestPredictionIsNotInTheDigest: what gates have recorded while closures came early, and while shares were in force, is one log.
// Whoever counts it reaches the same digest, whether it predicts and how much.
func TestPredictionIsNotInTheDigest(t *testing.T) {
	mixed := ipRules(t, "limit: 20, window: 1m, slots: 6", "limit: 15, window: 10s, algorithm: fixed", "callers: ip_route, limit: 10, window: 20s, algorithm: log")
	for name, test := range map[string]struct {
		c             replay.Config
		log           string
		early, shares bool
	}{
		"early":  {replay.Config{Rules: mixed, Lag: 500 * ms}, evenLog("192.0.2.1", 0, 0.2, 900) + evenLog("192.0.2.2", 180, 0.35, 900), true, false},
		"shares": {replay.Config{Rules: ipRules(t, "limit: 500, window: 1s, algorithm: fixed"), Lag: 200 * ms}, poissonLog(1, "192.0.2.1", 1000, 8), true, true},
	} {
		test.c.Predict = rules.PredictShares
		got := replayed(t, test.c, test.log)
		early := slices.ContainsFunc(got.entries, func(e schemas.Entry) bool { return e.Early })
		if early != test.early || got.summary.Accuracy.Shares > 0 != test.shares {
			t.Fatalf("%s: got %+v, and requests blocked early: %v; the test says nothing", name, got.summary.Accuracy, early)
		}
		for most := rules.PredictOff; most <= rules.PredictShares; most++ {
			f, plans := fold.New(test.c.Rules, fold.Options{NoStore: true, MaxRows: 1000, Predict: most}), 0
			for i := range got.entries {
				if i%4 == 0 {
					f.Measure(got.entries[i].Time, int64(test.c.Lag))
				}
				f.Entry(&got.entries[i])
				plans += len(f.TakePlans())
				f.TakeChanges()
			}
			if d := fmt.Sprintf("%016x", f.Digest(f.LogTime())); d != got.summary.Digest {
				t.Errorf("%s, %v: got digest %s, want %s", name, most, d, got.summary.Digest)
			}
			if (plans > 0) != (most > rules.PredictOff) {
				t.Errorf("%s, %v: got %d plans", name, most, plans)
			}
		}
	}
}
