package simulate

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// bytesOf returns all that a run has measured, as JSON.
func bytesOf(t *testing.T, r *Result) []byte {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTheSameSeedGivesTheSameBytes: although Set, Recorder and Fold hash under random keys, and a Recorder has as many stripes as
// there are processors. Another seed gives others.
func TestTheSameSeedGivesTheSameBytes(t *testing.T) {
	duration := 6 * time.Second
	if testenv.IsLong() {
		duration *= 2
	}
	for _, name := range []string{"A", "B-20", "fleet", "lag-jump"} {
		s, _ := Find(name)
		o := Options{Seed: 7, Predict: rules.PredictShares, Duration: duration, Rate: 0.4}
		var first []byte
		for _, processors := range []int{1, 7, 2} {
			before := runtime.GOMAXPROCS(processors)
			r, err := s.Run(t.Context(), o)
			runtime.GOMAXPROCS(before)
			if err != nil {
				t.Fatal(err)
			}
			b := bytesOf(t, r)
			if first == nil {
				first = b
			}
			if !bytes.Equal(b, first) {
				t.Errorf("%s with %d processors: got\n%.400s\nwant\n%.400s", name, processors, b, first)
			}
		}
		o.Seed = 8
		r, err := s.Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(bytesOf(t, r), first) {
			t.Errorf("%s: got the same bytes of another seed", name)
		}
	}
}

// TestWhatServersAdmitIsWhatTheAnalyzerCounts: each request is in the log once, as admitted or as blocked, whatever the number
// of partitions.
func TestWhatServersAdmitIsWhatTheAnalyzerCounts(t *testing.T) {
	for _, partitions := range []int{1, 3, 8} {
		sim, err := New(Config{
			Rules: rulesOf(t, 20, "1s", fixed1), Predict: rules.PredictEarly, Start: start, Servers: 3, Partitions: partitions, Lag: LagOf(50 * ms), Seed: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		g := newGenerator(1, 3, nil, stream{pick: fleetOf(names("c", 50), zipf(50, 1)), peak: 1000})
		asked, admitted := uint64(0), uint64(0)
		for r := (Request{}); g.next(&r) && r.At < start+int64(5*time.Second); asked++ {
			yes, err := sim.Request(&r)
			if err != nil {
				t.Fatal(err)
			}
			if yes {
				admitted++
			}
		}
		r, err := sim.Finish(start + int64(6*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		var requests, frames uint64
		for _, p := range sim.w.partitions {
			st := p.fold.Stats()
			requests, frames = requests+st.Requests, frames+st.Frames
			if len(st.Rejected) > 0 || st.Duplicate > 0 || st.TooOld > 0 {
				t.Errorf("%d partitions: got %+v, want nothing rejected", partitions, st)
			}
			if st.Requests == 0 {
				t.Errorf("%d partitions: got none in one of them", partitions)
			}
		}
		if requests != asked || uint64(r.Requests) != asked || uint64(r.Admitted) != admitted || admitted >= asked || frames == 0 {
			t.Errorf("%d partitions: got %d counted, %d and %d in the result, want %d, of which %d were admitted",
				partitions, requests, r.Requests, r.Admitted, asked, admitted)
		}
	}
}

// TestARequestOfSeveralCallers is refused if the gate of one is closed, and counts as blocked for that one only.
func TestARequestOfSeveralCallers(t *testing.T) {
	set, err := rules.Parse("test", []byte("version: 1\nrules:\n"+
		"  - {name: keys, callers: key, limit: 10, window: 1m, algorithm: fixed}\n  - {name: tenants, callers: tenant, limit: 1000, window: 1m, algorithm: fixed}\n"))
	if err != nil {
		t.Fatal(err)
	}
	sim, err := New(Config{Rules: set, Start: start, Servers: 1, Partitions: 1, Lag: LagOf(10 * ms), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	callers := []schemas.Caller{{Kind: Kind, ID: "k"}, {Kind: "tenant", ID: "t"}}
	for i := range 100 {
		if _, err := sim.Request(&Request{At: start + int64(i)*int64(10*ms), Callers: callers}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := sim.Finish(start + int64(time.Minute) + 1)
	if err != nil {
		t.Fatal(err)
	}
	keys, tenants := r.Rules[0], r.Rules[1]
	if keys.Rule != "keys" || keys.First.N != 1 || keys.InnocentsClosed != 0 || keys.SyncShare != 1 || keys.AdmittedShare < 1 || keys.AdmittedShare > 1.4 {
		t.Errorf("keys: got %+v", keys)
	}
	if tenants.Innocents != 1 || tenants.InnocentsClosed != 0 || tenants.InnocentLongest != 0 {
		t.Errorf("tenants: got %+v, want one innocent that was never closed", tenants)
	}
	if p := tenants.Series.Periods; len(p) != 1 || p[0].Demand != 100 || p[0].Admitted != r.Admitted || p[0].Sync != 10 {
		t.Errorf("tenants: got %+v, want 100 asked, %d admitted, and 10 by the synchronous limiter", p, r.Admitted)
	}
}

// TestConfigsAreRefused before anything runs, with what was got.
func TestConfigsAreRefused(t *testing.T) {
	good := Config{Rules: rulesOf(t, 1, "1s", ""), Start: start, Servers: 1, Partitions: 1, Lag: LagOf(ms)}
	responses, err := rules.Parse("test", []byte("version: 1\nrules:\n  - {name: failures, callers: ip, limit: 3, window: 1m, match: {status: [401]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"want rules":                        func(c *Config) { c.Rules = nil },
		"got 0 servers":                     func(c *Config) { c.Servers = 0 },
		"got 1001 servers":                  func(c *Config) { c.Servers = MaxServers + 1 },
		"got 0 partitions":                  func(c *Config) { c.Partitions = 0 },
		"got a warm-up of -1ns":             func(c *Config) { c.Warmup = -1 },
		"got a quiet time of -1ns":          func(c *Config) { c.Quiet = -1 },
		"got a quiet time of 1h0m1s":        func(c *Config) { c.Quiet = time.Hour + time.Second },
		"a skew of 2h0m0s":                  func(c *Config) { c.Skew = 2 * time.Hour },
		"got a way of -1ns":                 func(c *Config) { c.Lag.ToLog = -1 },
		"rule failures counts responses":    func(c *Config) { c.Rules = responses },
		"got a way of 1h0m1s, want 0 to 1h": func(c *Config) { c.Lag.Publish = time.Hour + time.Second },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := New(good); err != nil {
		t.Errorf("got %v for a good one", err)
	}
}

// TestRequestsOutOfOrderEndTheRun, and the error stays.
func TestRequestsOutOfOrderEndTheRun(t *testing.T) {
	for want, r := range map[string]Request{
		"want 1767225600000000000 or later": {At: start - 1},
		"to server 1, want 0 to 0":          {At: start, Server: 1},
		"to server -1":                      {At: start, Server: -1},
	} {
		sim := &Simulation{w: worldOf(t, 1, 1)}
		if _, err := sim.Request(&r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if _, err := sim.Request(&Request{At: start}); err == nil {
			t.Error("got no error of the request after it")
		}
		if _, err := sim.Finish(start + 1); err == nil {
			t.Error("got a result after an error")
		}
	}
}

// TestSkewIsSpreadEvenly over the servers, and one server's clock is right.
func TestSkewIsSpreadEvenly(t *testing.T) {
	for servers, want := range map[int][]time.Duration{
		1: {0}, 2: {-50 * ms, 50 * ms}, 3: {-50 * ms, 0, 50 * ms}, 5: {-50 * ms, -25 * ms, 0, 25 * ms, 50 * ms},
	} {
		c := Config{Servers: servers, Skew: 50 * ms}
		for i := range servers {
			if got := skewOf(&c, i); got != want[i] {
				t.Errorf("server %d of %d: got %v, want %v", i, servers, got, want[i])
			}
		}
	}
}

// TestAnAnalyzerThatStandsStillDecidesNothing: from the begin of the stop to its end no decision is published, and afterwards all
// is counted.
func TestAnAnalyzerThatStandsStillDecidesNothing(t *testing.T) {
	l := LagOf(50 * ms)
	l.Stops = []Stop{{From: 3 * time.Second, For: 4 * time.Second}}
	sim, err := New(Config{Rules: rulesOf(t, 10, "1s", fixed1), Start: start, Servers: 2, Partitions: 1, Lag: l, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	g := newGenerator(1, 2, nil, stream{id: "c", peak: 100})
	counted := map[int64]uint64{}
	for r := (Request{}); g.next(&r) && r.At < start+int64(10*time.Second); {
		if _, err := sim.Request(&r); err != nil {
			t.Fatal(err)
		}
		counted[(r.At-start)/int64(time.Second)] = sim.w.partitions[0].fold.Stats().Requests
	}
	r, err := sim.Finish(start + int64(11*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if counted[3] != counted[6] || counted[2] == 0 || counted[9] <= counted[6] {
		t.Errorf("got %v counted by second, want none from 3 to 7", counted)
	}
	for _, p := range r.Rules[0].Series.Periods {
		if free := p.At >= 3 && p.At <= 6; free != (p.Admitted == p.Demand) && p.At < 10 && p.At != 7 {
			t.Errorf("second %g: got %d of %d admitted; want all of them from 3 to 7, and no others", p.At, p.Admitted, p.Demand)
		}
	}
}
