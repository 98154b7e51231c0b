package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// demoOutput runs the demo and returns its last line.
func demoOutput(t *testing.T, ctx context.Context, args ...string) (demoSummary, string) {
	t.Helper()
	var out, logs strings.Builder
	err := realMain(ctx, append([]string{"demo", "--output", "json"}, args...), process{
		stdout: &out, stderr: &logs, lookup: func(string) (string, bool) { return "", false },
	})
	if err != nil {
		t.Fatalf("demo: %v\n%s%s", err, out.String(), logs.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var sum demoSummary
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &sum); err != nil {
		t.Fatalf("last line %q: %v", lines[len(lines)-1], err)
	}
	return sum, out.String()
}

func TestDemoClosesTheNoisyCallerAndNobodyElse(t *testing.T) {
	sum, out := demoOutput(t, t.Context(), "--duration", "4s", "--quiet", "20", "--noisy", "2", "--data", filepath.Join(t.TempDir(), "demo"))
	if len(sum.Closed) != 2 || sum.Innocents != 0 {
		t.Fatalf("closed: got %+v and %d innocents, want the 2 noisy callers", sum.Closed, sum.Innocents)
	}
	for _, c := range sum.Closed {
		if !strings.HasPrefix(c.Caller, "key:noisy-") || c.Admitted < 100 || c.Blocked == 0 {
			t.Errorf("got %+v, want a noisy caller with its limit admitted and the rest blocked", c)
		}
	}
	if a := sum.Audit; !a.ok() || a.Generator != sum.Requests || a.Generator == 0 {
		t.Errorf("audit: got %+v of %d requests, want all three equal", a, sum.Requests)
	}
	if sum.Lag.Samples == 0 || sum.Lag.P50 <= 0 || sum.Lag.P99 < sum.Lag.P50 || sum.HotPath <= 0 {
		t.Errorf("got lag %+v and %v ns, want what was measured", sum.Lag, sum.HotPath)
	}
	for _, field := range []string{
		`"type":"summary"`, `"closed":[{"caller":"key:noisy-1","admitted":`, `"blocked":`, `"overshoot":`,
		`"innocents_closed":0`, `"requests":`, `"lag_ms":{"p50":`, `"p99":`, `"hot_path_ns":`, `"type":"tick"`,
	} {
		if !strings.Contains(out, field) {
			t.Errorf("output has no %s", field)
		}
	}
}

func TestDemoThatIsInterruptedStillAuditsItself(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	sum, _ := demoOutput(t, ctx, "--duration", "1h", "--quiet", "5")
	if !sum.Audit.ok() || sum.Requests == 0 {
		t.Errorf("got %+v, want an exact audit of what was sent", sum)
	}
}

func TestDemoAuditFindsASingleRequest(t *testing.T) {
	tests := map[string]struct {
		generator loadTotals
		log       logCount
		store     int64
		want      string // of what is wrong; empty: nothing
	}{
		"exact":                    {loadTotals{admitted: 5, blocked: 2}, logCount{5, 2}, 7, ""},
		"log misses one":           {loadTotals{admitted: 5, blocked: 2}, logCount{4, 2}, 6, "generator saw 5 admitted"},
		"log has one too many":     {loadTotals{admitted: 5, blocked: 2}, logCount{5, 3}, 8, "the log 5 and 3"},
		"blocked taken for not":    {loadTotals{admitted: 5, blocked: 2}, logCount{6, 1}, 7, "the log 6 and 1"},
		"store misses one":         {loadTotals{admitted: 5, blocked: 2}, logCount{5, 2}, 6, "the store 6"},
		"store counted one twice":  {loadTotals{admitted: 5, blocked: 2}, logCount{5, 2}, 8, "the store 8"},
		"a request had no answer":  {loadTotals{admitted: 5, failed: 1}, logCount{6, 0}, 6, "1 requests had no answer"},
		"nothing sent and nothing": {loadTotals{}, logCount{}, 0, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var a audit
			a.compare("x", tt.generator, tt.log, tt.store)
			if a.ok() != (tt.want == "") || !strings.Contains(strings.Join(a.Wrong, "\n"), tt.want) {
				t.Errorf("got %+v, want %q found", a, tt.want)
			}
			s := demoSummary{Audit: a}
			if (s.verdict() == nil) != (tt.want == "") {
				t.Errorf("verdict: got %v", s.verdict())
			}
		})
	}
}

func TestDemoThatClosesAnInnocentFails(t *testing.T) {
	if err := (&demoSummary{Innocents: 1}).verdict(); err == nil {
		t.Error("got no error, want one")
	}
}

func TestInnocenceIsJudgedByTheGeneratorsClock(t *testing.T) {
	at := func(ms ...int) *caller {
		c := &caller{}
		for _, m := range ms {
			c.admitted = append(c.admitted, time.UnixMilli(int64(m)))
		}
		return c
	}
	if at(0, 600, 1300, 2600).reached(3, time.Second) {
		t.Error("3 in any second: got reached, want not")
	}
	if !at(0, 600, 1300, 1400, 1500).reached(3, time.Second) {
		t.Error("3 within 200 ms: got not reached, want reached")
	}
}

func TestDemoRefusesADirectoryThatIsInUse(t *testing.T) {
	dir := t.TempDir()
	if _, err := runCommand("demo", "--duration", "1s", "--data", filepath.Dir(dir)); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("got %v, want it refused", err)
	}
}
