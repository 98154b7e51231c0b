package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSimulatePrintsATable, the same for the same seed, and a picture.
func TestSimulatePrintsATable(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "a.svg")
	args := []string{"simulate", "--scenario", "A,B-20", "--predict", "off,early", "--duration", "12s", "--lag", "100ms", "--svg", picture}
	out, err := runCommand(args...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"SCENARIO", "DECISIONS/S", "│ A ", "│ B-20 ", "│ off ", "│ early ", "%"} {
		if !strings.Contains(out, want) {
			t.Errorf("got no %q in\n%s", want, out)
		}
	}
	if again, err := runCommand(args...); err != nil || again != out {
		t.Errorf("got %v and\n%s\nthe second time, want\n%s", err, again, out)
	}
	if image, err := os.ReadFile(picture); err != nil || strings.Count(string(image), "<g ") != 4 || !strings.Contains(string(image), "B-20, predict early: key:caller, 1s sliding") {
		t.Errorf("got %v and %d panels, want 4", err, strings.Count(string(image), "<g "))
	}
	if list, err := runCommand("simulate", "--list"); err != nil || !strings.Contains(list, "│ fleet ") {
		t.Errorf("got %v and\n%s", err, list)
	}
}

// TestSimulatePrintsJSON: an object for each run, and of several seeds together.
func TestSimulatePrintsJSON(t *testing.T) {
	out, err := runCommand("simulate", "--scenario", "A", "--predict", "off", "--duration", "10s", "--seeds", "3", "--seed", "5", "--output", "json")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Type, Scenario, Predict string
		Requests                int64
		Rules                   []struct {
			Rule      string
			Overshoot struct {
				N    int
				Mean float64
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("got %v in\n%s", err, out)
	}
	if got.Type != "simulation" || got.Scenario != "A" || got.Predict != "off" || got.Requests < 50_000 || len(got.Rules) != 1 || got.Rules[0].Overshoot.N != 15 {
		t.Errorf("got %+v, want 15 windows of three seeds", got)
	}
	if mean := got.Rules[0].Overshoot.Mean; mean < 0.35 || mean > 0.45 {
		t.Errorf("got a mean overshoot of %v, want 0.4", mean)
	}
}

// TestSimulateShowsLimiters of requests that last, in a table of their own.
func TestSimulateShowsLimiters(t *testing.T) {
	out, err := runCommand("simulate", "--scenario", "A,tokens-2x,flights-agents", "--predict", "shares", "--duration", "3m", "--seeds", "2")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"DECISIONS/S", "DECISIONS/MIN", "│ A ", "│ floodgate ", "│ check and report ", "│ flat hold 2000 ", "│ oracle ", "FAIRNESS"} {
		if !strings.Contains(out, want) {
			t.Errorf("got no %q in\n%s", want, out)
		}
	}
	if n := strings.Count(out, "│ tokens-2x "); n != 6 {
		t.Errorf("got %d rows of tokens-2x, want 6 in\n%s", n, out)
	}
	out, err = runCommand("simulate", "--scenario", "flights", "--predict", "shares", "--duration", "3m", "--output", "json")
	var got struct {
		Rules []struct {
			Limiters []struct {
				Name   string
				Used   float64
				InTime struct{ N int } `json:"overshoot_in_time"`
			}
		}
	}
	if err := errors.Join(err, json.Unmarshal([]byte(out), &got)); err != nil {
		t.Fatalf("got %v in\n%s", err, out)
	}
	if l := got.Rules[0].Limiters; len(l) != 2 || l[0].Name != "floodgate" || l[0].Used < 0.8 || l[0].InTime.N != 120 || l[1].Name != "oracle" {
		t.Errorf("got %+v, want floodgate and an oracle for two minutes", l)
	}
}

// TestSimulateReadsLogs with rules of one's own.
func TestSimulateReadsLogs(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("version: 1\nrules:\n  - {name: ips, callers: ip, limit: 20, window: 1m}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := runCommand("simulate", "--rules", rules, "--predict", "off", "--format", "combined", "--output", "json", "../../testdata/logs/access.log")
	if err != nil || !strings.Contains(out, `"scenario":"log"`) || !strings.Contains(out, `"rule":"ips"`) {
		t.Errorf("got %v and %.300s", err, out)
	}
}

// TestSimulateRefuses what cannot be simulated, and says what was got.
func TestSimulateRefuses(t *testing.T) {
	log := "../../testdata/logs/access.log"
	for line, want := range map[string]string{
		"--scenario a":           `--scenario: got "a", did you mean A?, --list prints what there is`,
		"--scenario nothing":     `--scenario: got "nothing", --list prints what there is`,
		"--predict soon":         `--predict: got "soon", want one of`,
		"--lag -1s":              "--lag: got -1s, want more than 0, and at most 1h",
		"--lag 0":                "--lag: got 0s, want more than 0",
		"--lag 2h":               "--lag: got 2h0m0s, want more than 0, and at most 1h",
		"--servers 5000":         "--servers: got 5000, want 1 to 1000",
		"--servers 0":            "--servers: got 0, want 1 to 1000",
		"--duration 0s":          "--duration: got 0s, want more than 0",
		"--duration -1s":         "--duration: got -1s, want more than 0",
		"--skew 2h":              "--skew: got 2h0m0s, want 0 to 1h0m0s",
		"--skew -1s":             "--skew: got -1s, want 0 to 1h0m0s",
		"--seeds 0":              "--seeds: got 0, want 1 to 10000",
		log:                      "--rules: got none, want a file where there are logs",
		"--rules /nothing/there": "no such file",
		"--duration 1s":          "takes to warm up",
		"--svg /nothing/there --duration 6s --predict off": "--svg: ",
	} {
		if out, err := runCommand(append([]string{"simulate"}, strings.Fields(line)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v and %.100s, want %q", line, err, out, want)
		}
	}
}

// TestSimulateShowsACapacityApart: a rule with a capacity has no limit to be over, and whom it limits is no innocent.
func TestSimulateShowsACapacityApart(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("version: 1\nrules: [{name: all, callers: key, capacity: 1000, window: 1s}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := runCommand("simulate", "--scenario", "A", "--rules", rules, "--predict", "off", "--duration", "8s")
	if err != nil || !strings.Contains(out, "CALLERS LIMITED") || !strings.Contains(out, "│ all ") || strings.Contains(out, "INNOCENTS") {
		t.Errorf("got %v and\n%s", err, out)
	}
}
