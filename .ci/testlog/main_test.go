package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Lines as go test -json prints them, without the times.
const (
	passed = `{"Action":"start","Package":"m/gate"}
{"Action":"run","Package":"m/gate","Test":"TestA"}
{"Action":"output","Package":"m/gate","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"m/gate","Test":"TestA","Output":"chatter\n"}
{"Action":"output","Package":"m/gate","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"pass","Package":"m/gate","Test":"TestA"}
{"Action":"output","Package":"m/gate","Output":"-test.shuffle 1763723580\n"}
{"Action":"output","Package":"m/gate","Output":"PASS\n"}
{"Action":"output","Package":"m/gate","Output":"ok  \tm/gate\t0.003s\n"}
{"Action":"pass","Package":"m/gate"}
`
	failed = `{"Action":"run","Package":"m/store","Test":"TestB"}
{"Action":"output","Package":"m/store","Test":"TestB","Output":"    b_test.go:3: got 1, want 2\n"}
{"Action":"output","Package":"m/store","Test":"TestB","Output":"--- FAIL: TestB (0.00s)\n"}
{"Action":"fail","Package":"m/store","Test":"TestB"}
{"Action":"output","Package":"m/store","Output":"-test.shuffle 1763723581\n"}
{"Action":"output","Package":"m/store","Output":"FAIL\n"}
{"Action":"output","Package":"m/store","Output":"FAIL\tm/store\t0.003s\n"}
{"Action":"fail","Package":"m/store"}
`
	skipped = `{"Action":"run","Package":"m/gate","Test":"TestC/real"}
{"Action":"output","Package":"m/gate","Test":"TestC/real","Output":"    c_test.go:9: set LOGS\n"}
{"Action":"output","Package":"m/gate","Test":"TestC/real","Output":"--- SKIP: TestC/real (0.00s)\n"}
{"Action":"skip","Package":"m/gate","Test":"TestC/real"}
`
	broken = `# m/schemas
{"ImportPath":"m/schemas","Action":"build-output","Output":"x.go:1:1: expected 'package'\n"}
{"ImportPath":"m/schemas","Action":"build-fail"}
{"Action":"output","Package":"m/schemas","Output":"FAIL\tm/schemas [build failed]\n"}
{"Action":"fail","Package":"m/schemas","FailedBuild":"m/schemas"}
`
	died = `{"Action":"run","Package":"m/gate","Test":"TestD"}
{"Action":"output","Package":"m/gate","Test":"TestD","Output":"panic: BUG: gone\n"}
{"Action":"output","Package":"m/gate","Output":"FAIL\tm/gate\t0.003s\n"}
{"Action":"fail","Package":"m/gate"}
`
	race = `{"Action":"output","Package":"m/gate","Test":"TestD","Output":"WARNING: DATA RACE\n"}
`
)

// detectorDied is the end of a package by the race detector's own mistake.
var detectorDied = strings.ReplaceAll(died, "panic: BUG: gone", "ThreadSanitizer: CHECK failed: tsan_rtl.cpp:346 \\\"((slot->epoch())) != ((kEpochLast))\\\"")

func TestRealMain(t *testing.T) {
	for _, c := range []struct {
		name, in, allowed string
		want              []string // all in the output
		not               string   // not in the output
		err               string   // part of the error; empty for none
		again             string   // packages to be run again
	}{
		{name: "all pass", in: passed, want: []string{"ok  \tm/gate", "\n1 passed, 0 failed, 0 skipped\n"}, not: "chatter"},
		{name: "a seed of a package that passed is not shown", in: passed, want: []string{"ok"}, not: "shuffle"},
		{
			name: "a failure shows its words and its seed", in: passed + failed, err: "1 tests and 1 of 2 packages failed",
			want: []string{"got 1, want 2", "-test.shuffle 1763723581", "FAIL\tm/store", "1 passed, 1 failed, 0 skipped\n"},
		},
		{
			name: "a skip nobody allowed", in: passed + skipped, err: "skips: m/gate TestC/real",
			want: []string{"set LOGS", "NOT ALLOWED", "1 passed, 0 failed, 1 skipped\n"},
		},
		{
			name: "a skip with a reason", in: passed + skipped, allowed: "# why\n\ngate TestC: no logs here\n",
			want: []string{"set LOGS): no logs here", "1 passed, 0 failed, 1 skipped\n"},
		},
		{
			name: "a list that rots", in: passed, allowed: "gate TestC: no logs here\n",
			err: "gate TestC (allowed, but not skipped",
		},
		{name: "another package's test of that name", in: passed + skipped, allowed: "store TestC: no\n", err: "m/gate TestC/real"},
		{name: "a longer name", in: passed + skipped, allowed: "gate TestC/rea: no\n", err: "m/gate TestC/real"},
		{
			name: "does not build", in: passed + broken, err: "0 tests and 1 of 2 packages failed",
			want: []string{"# m/schemas", "expected 'package'", "[build failed]"},
		},
		{
			name: "a panic takes its test with it", in: passed + died, err: "1 tests and 1 of 2 packages failed",
			want: []string{"no verdict: m/gate TestD\npanic: BUG: gone\n"},
		},
		{
			name: "the race detector's own mistake is no verdict", in: passed + detectorDied, again: "m/gate\n",
			want: []string{"no verdict: m/gate: the race detector ended it: ThreadSanitizer: CHECK failed", "1 passed, 0 failed, 0 skipped\n"},
		},
		{name: "nor when no other package ran", in: detectorDied, again: "m/gate\n", err: "no test ran"},
		{name: "a race before it is one", in: passed + race + detectorDied, err: "1 tests and 1 of 2 packages failed"},
		{name: "a failure before it is one", in: strings.ReplaceAll(failed, "m/store", "m/gate") + detectorDied, err: "2 tests and 2 of 2 packages failed"},
		{name: "another package's failure is one", in: passed + failed + detectorDied, again: "m/gate\n", err: "1 tests and 1 of 3 packages failed"},
		{name: "nothing ran", in: "", err: "no test ran"},
		{name: "bad list", in: passed, allowed: "gate TestC\n", err: `want "package TestName: reason"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			list, again := filepath.Join(t.TempDir(), "skips.txt"), filepath.Join(t.TempDir(), "again")
			if err := os.WriteFile(list, []byte(c.allowed), 0o600); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			err := realMain([]string{"-skips", list, "-again", again}, strings.NewReader(c.in), &out)
			switch {
			case c.err == "" && err != nil:
				t.Errorf("got error %v, want none", err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("got error %v, want one with %q", err, c.err)
			}
			if text, _ := os.ReadFile(again); string(text) != c.again { // a list that cannot be read is said before it is written
				t.Errorf("got %q to be run again, want %q", text, c.again)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("got output\n%swant %q in it", out.String(), want)
				}
			}
			if c.not != "" && strings.Contains(out.String(), c.not) {
				t.Errorf("got output\n%swant no %q in it", out.String(), c.not)
			}
		})
	}
}

func TestWithoutAListAnyTestMaySkipAndTheDetectorsMistakeFails(t *testing.T) {
	var out strings.Builder
	if err := realMain(nil, strings.NewReader(passed+skipped), &out); err != nil || strings.Contains(out.String(), "NOT ALLOWED") {
		t.Errorf("got %v and\n%s\nwant no error", err, &out)
	}
	if err := realMain(nil, strings.NewReader(passed+detectorDied), &out); err == nil {
		t.Error("got no error in the second run, want one")
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"skips.txt"}, {"-skips", filepath.Join(t.TempDir(), "none")}, {"-other"}} {
		if err := realMain(args, strings.NewReader(passed), &strings.Builder{}); err == nil {
			t.Errorf("%v: got no error, want one", args)
		}
	}
}
