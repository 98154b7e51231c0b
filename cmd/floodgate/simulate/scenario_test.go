package simulate

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// TestScenariosRun: each has a name of its own, rules that parse, and a first stretch that runs; and each is predicted on.
func TestScenariosRun(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Scenarios() {
		if seen[s.Name] || !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*$`).MatchString(s.Name) || s.About == "" || strings.HasSuffix(s.About, ".") {
			t.Errorf("got scenario %q: %q, want a new name of letters and digits, and what it is", s.Name, s.About)
		}
		seen[s.Name] = true
		r, err := s.Run(t.Context(), Options{Seed: 3, Duration: s.warmup + 2*time.Second, Rate: 0.1, Predict: rules.PredictShares})
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		if len(r.Rules) != 1 || r.LagMean == 0 {
			t.Errorf("%s: got %d rules and a lag of %v", s.Name, len(r.Rules), r.LagMean)
		}
		if found, ok := Find(s.Name); !ok || found.About != s.About {
			t.Errorf("Find(%q): got %q, %t", s.Name, found.About, ok)
		}
	}
	for _, name := range []string{"", "a", "A ", "nothing"} {
		if _, ok := Find(name); ok {
			t.Errorf("Find(%q): got a scenario", name)
		}
	}
}

// TestOptionsChangeAScenario, each what it says.
func TestOptionsChangeAScenario(t *testing.T) {
	const length = 20 * time.Second
	base := run(t, "A", Options{Duration: length}, 1)
	if slow := run(t, "A", Options{Duration: length, Lag: 400 * ms}, 1); slow.LagMean < 0.38 || slow.Rules[0].Overshoot.Mean < 1.9*base.Rules[0].Overshoot.Mean {
		t.Errorf("got a lag of %v and an overshoot of %v with 400 ms", slow.LagMean, slow.Rules[0].Overshoot.Mean)
	}
	if calm := run(t, "A", Options{Duration: length, Rate: 0.4}, 1); calm.Rules[0].Overshoot.Max != 0 || calm.Requests > base.Requests/2 || calm.Decisions != 0 {
		t.Errorf("got an overshoot of %v and %d decisions below the limit", calm.Rules[0].Overshoot.Max, calm.Decisions)
	}
	if one := run(t, "A", Options{Duration: length, Servers: 1}, 1); one.Rules[0].Overshoot.N != base.Rules[0].Overshoot.N {
		t.Errorf("got %d windows with one server, want %d", one.Rules[0].Overshoot.N, base.Rules[0].Overshoot.N)
	}
	own := run(t, "A", Options{Duration: length, Rules: rulesOf(t, 4000, "1s", fixed1)}, 1)
	if got := own.Rules[0]; got.Limit != 4000 || got.Overshoot.Max != 0 || got.Innocents != 1 {
		t.Errorf("got %+v with a limit of twice the demand", got)
	}
	if more := run(t, "moving", Options{Duration: length, Servers: 8}, 1); more.Requests == 0 {
		t.Error("got no requests with other servers than the weights are for")
	}
	if skewed := run(t, "A", Options{Duration: length, Skew: 50 * ms, Predict: rules.PredictOff}, 1); string(bytesOf(t, skewed)) == string(bytesOf(t, base)) {
		t.Error("got the same with other clocks")
	}
}

// TestARunThatCannotBe says why.
func TestARunThatCannotBe(t *testing.T) {
	a, _ := Find("A")
	for want, o := range map[string]Options{
		"want more than the 5s that scenario A takes to warm up": {Duration: 5 * time.Second},
		"got 5000 servers": {Servers: 5000},
	} {
		if _, err := a.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", o, err, want)
		}
	}
	broken := a
	broken.Rules = "version: 1\nrules: 5\n"
	if _, err := broken.Run(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "rules of scenario A") {
		t.Errorf("got %v for broken rules", err)
	}
}

// TestARunEndsWithItsContext, soon, with the cause of the end, and says how far it is meanwhile.
func TestARunEndsWithItsContext(t *testing.T) {
	a, _ := Find("A")
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupt signal received")
	var last time.Duration
	calls := 0
	_, err := a.Run(ctx, Options{Seed: 1, Progress: func(passed, of time.Duration) {
		if passed <= last || passed > of || of != 65*time.Second {
			t.Errorf("got %v of %v after %v", passed, of, last)
		}
		if last, calls = passed, calls+1; passed >= time.Second {
			cancel(interrupted)
		}
	}})
	if !errors.Is(err, interrupted) || calls != 10 {
		t.Errorf("got %v after %d calls, want it interrupted after the tenth", err, calls)
	}
}

// TestLogsAreTraffic: each line is a request of its callers at its time, and lines that go back in time do not end the run.
func TestLogsAreTraffic(t *testing.T) {
	set, err := rules.Parse("test", []byte("version: 1\nrules:\n  - {name: ips, callers: ip, limit: 5, window: 10s, algorithm: fixed}\n"))
	if err != nil {
		t.Fatal(err)
	}
	logged := func(o Options) *Result {
		l := NewLog(o, []string{"user", "ip"})
		for i := range int64(100) {
			at := start + i*int64(50*ms)
			if i == 50 {
				at -= int64(time.Second)
			}
			if err := l.Line(&ingest.Line{Time: at, IDs: []string{"", "192.0.2.1"}, Resource: "/"}); err != nil {
				t.Fatal(err)
			}
			if err := l.Line(&ingest.Line{Time: at, IDs: []string{"nobody", ""}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Line(&ingest.Line{Time: start + int64(20*time.Second), IDs: []string{"", "192.0.2.1"}}); err != nil {
			t.Fatal(err)
		}
		r, err := l.Finish()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	slow, quick := logged(Options{Rules: set, Lag: 500 * ms, Seed: 1}), logged(Options{Rules: set, Seed: 1, Servers: 3})
	if slow.Requests != 201 || slow.Rules[0].Series.Caller != "ip:192.0.2.1" || slow.Rules[0].Series.Periods[0].Sync != 5 {
		t.Errorf("got %d requests and %+v, want 201, and 5 by the synchronous limiter", slow.Requests, slow.Rules[0].Series)
	}
	if s, q := slow.Rules[0].MostOver, quick.Rules[0].MostOver; s < 9 || s > 12 || q < 1 || q > 2 {
		t.Errorf("got %d requests over with a lag of 500 ms and %d with 50 ms, want some 10 and 1 at 20 a second", s, q)
	}
	if r, err := NewLog(Options{Rules: set}, nil).Finish(); r != nil || err != nil {
		t.Errorf("got %v, %v of no lines", r, err)
	}
	if err := NewLog(Options{}, nil).Line(&ingest.Line{Time: start}); err == nil {
		t.Error("got no error without rules")
	}
}
