package simulate

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
)

// saturating is a caller at twice its limit of 1 000 in a second, at two servers in turn, with a lag of 200 ms.
func saturating(t *testing.T, predict rules.Predict) *Simulation {
	t.Helper()
	sim, err := New(Config{Rules: rulesOf(t, 1000, "1s", fixed1), Predict: predict, Start: start, Servers: 2, Partitions: 1, Lag: LagOf(200 * ms), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return sim
}

// admitted lets the caller ask until a time since the start, and returns what was admitted in each second of the clock.
func admitted(t *testing.T, sim *Simulation, until time.Duration) map[int64]int {
	t.Helper()
	bySecond := make(map[int64]int)
	for n, at := 0, sim.w.now; at < start+int64(until); n, at = n+1, at+int64(ms/2) {
		ok, err := sim.Request(&Request{At: at, Server: n % 2, Callers: []schemas.Caller{{Kind: Kind, ID: "a"}}})
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			bySecond[(at-start)/int64(time.Second)]++
		}
	}
	return bySecond
}

// TestCanariesThatStop: servers say no more what the lag is. After ten seconds nothing is predicted, and closes are counted as
// without prediction; when they say it again, closes come ahead of time again.
func TestCanariesThatStop(t *testing.T) {
	testenv.Long(t)
	sim := saturating(t, rules.PredictEarly)
	mute := false
	(&forger{t: t, w: sim.w}).every(ms, func(int) {
		for _, s := range sim.w.servers {
			if mute {
				s.lag = 0 // the canaries say that they know of no lag
			}
		}
	})
	was := admitted(t, sim, 15*time.Second)
	mute = true
	silent := admitted(t, sim, 35*time.Second)
	mute = false
	again := admitted(t, sim, 50*time.Second)
	for _, x := range []struct {
		what     string
		of       map[int64]int
		from, to int64
		reactive bool
	}{{"with canaries", was, 5, 15, false}, {"without any", silent, 28, 35, true}, {"with canaries again", again, 40, 50, false}} {
		for second := x.from; second < x.to; second++ {
			if over := float64(x.of[second]-1000) / 1000; (over > 0.3) != x.reactive || over > 0.45 || over < -0.1 {
				t.Errorf("%s, second %d: got %.3f over the limit, want some 0.4 if nothing is predicted: %v", x.what, second, over, x.reactive)
			}
		}
	}
}

// TestOneServerThatMeasuresWrongly: one of three servers says of the lag what is not so, because its clock jumps or its path to Kafka
// is bad. All callers are predicted as if it said nothing.
func TestOneServerThatMeasuresWrongly(t *testing.T) {
	testenv.Long(t)
	o := Options{Predict: rules.PredictEarly, Servers: 3, Duration: 25 * time.Second, Seed: 1}
	well := besieged(t, "A", o, func(*forger) {})
	for name, says := range map[string]time.Duration{"an hour": time.Hour, "a nanosecond": 1, "half a window": 500 * ms} {
		got := besieged(t, "A", o, func(f *forger) {
			f.every(ms, func(int) { f.w.servers[1].lag = int64(says) })
		})
		t.Logf("%s: overshoot %.4f, lost %.4f; of servers that are well, %.4f and %.4f", name, got.Overshoot.Mean, got.Lost, well.Overshoot.Mean, well.Lost)
		if got.Overshoot.Mean > well.Overshoot.Mean+0.004 || got.Lost > well.Lost+0.004 {
			t.Errorf("%s: got an overshoot of %.4f and %.4f lost, want about the %.4f and %.4f of servers that are well", name, got.Overshoot.Mean, got.Lost, well.Overshoot.Mean, well.Lost)
		}
	}
}

// TestAServerThatDies: one of four servers dies, and the others get its traffic. Its share is lost until shares were renewed twice, and
// no longer; nothing of it is given twice.
func TestAServerThatDies(t *testing.T) {
	testenv.Long(t)
	const death, renewals = 25, 2 // seconds; shares are renewed each second
	for seed := range uint64(5) {
		r := run(t, "dies", Options{Predict: rules.PredictShares}, 1+seed)
		lost := 0
		for _, p := range r.Rules[0].Series.Periods {
			least, most := int64(985), int64(1012)
			switch second := int(p.At); {
			case second < 5:
				continue // the warm-up
			case second >= death && second < death+renewals:
				least, most = 700, 1070 // three of four shares; then early closes, until there are new ones
				lost += int(max(0, 1000-p.Admitted))
			case second >= death+renewals && second < death+8:
				least, most = 900, 1070
			}
			if p.Admitted < least || p.Admitted > most {
				t.Errorf("seed %d, second %v: got %d admitted, want %d to %d", 1+seed, p.At, p.Admitted, least, most)
			}
		}
		if lost < 150 {
			t.Errorf("seed %d: got %d requests lost when the server died, want its share of 250: nothing was tried", 1+seed, lost)
		}
	}
}

// TestTheDeadGetNoRequests: a server that does not exist cannot die, and one that died cannot be asked.
func TestTheDeadGetNoRequests(t *testing.T) {
	c := Config{Rules: rulesOf(t, 1000, "1s", fixed1), Start: start, Servers: 2, Partitions: 1, Lag: LagOf(200 * ms)}
	for _, d := range []Death{{0, 2}, {0, -1}, {-1, 0}} {
		c.Deaths = []Death{d}
		if _, err := New(c); err == nil {
			t.Errorf("%+v: got no error", d)
		}
	}
	c.Deaths = []Death{{time.Second, 1}}
	sim, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(at time.Duration, server int) error {
		_, err := sim.Request(&Request{At: start + int64(at), Server: server, Callers: []schemas.Caller{{Kind: Kind, ID: "a"}}})
		return err
	}
	if err := ask(999*ms, 1); err != nil {
		t.Error(err)
	}
	if ask(1002*ms, 1) == nil {
		t.Error("got no error when the dead server is asked")
	}
}

// TestAServerThatJoins: a server starts while a caller is closed early, and knows nothing of that: early closures are not
// repeated. From the next decision on, it is as the others. What it admits meanwhile is no more than without prediction, and it is
// counted.
func TestAServerThatJoins(t *testing.T) {
	of := make(map[rules.Predict]map[int64]int)
	for _, predict := range []rules.Predict{rules.PredictOff, rules.PredictEarly} {
		sim := saturating(t, predict)
		admitted(t, sim, 10*time.Second)
		got := make(map[int64]int)
		for at := 10*time.Second + 510*ms; at < 20*time.Second; at += 2 * time.Second { // the limit was reached
			for second, n := range admitted(t, sim, at) {
				got[second] += n
			}
			sim.w.servers[1].set = gate.New(gate.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
			sim.w.servers[1].gates = make(map[string]*gate.Gate)
		}
		for second, n := range admitted(t, sim, 20*time.Second) {
			got[second] += n
		}
		of[predict] = got
	}
	missed := 0
	for second := int64(10); second < 20; second++ {
		off, early := of[rules.PredictOff][second], of[rules.PredictEarly][second]
		if early > 1070 {
			missed++
		}
		if early > off+20 || second%2 == 1 && early > 1070 {
			t.Errorf("second %d: got %d admitted, want at most the %d of a gate without prediction, and 1000 or little more where no server joins", second, early, off)
		}
	}
	if missed == 0 {
		t.Error("got no second in which the server that joins has missed a decision: nothing was tried")
	}
}
