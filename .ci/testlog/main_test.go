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
)

func TestRealMain(t *testing.T) {
	for _, c := range []struct {
		name, in, allowed string
		want              []string // all in the output
		not               string   // not in the output
		err               string   // part of the error; empty for none
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
		{name: "nothing ran", in: "", err: "no test ran"},
		{name: "bad list", in: passed, allowed: "gate TestC\n", err: `want "package TestName: reason"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := filepath.Join(t.TempDir(), "skips.txt")
			if err := os.WriteFile(list, []byte(c.allowed), 0o600); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			err := realMain([]string{list}, strings.NewReader(c.in), &out)
			switch {
			case c.err == "" && err != nil:
				t.Errorf("got error %v, want none", err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("got error %v, want one with %q", err, c.err)
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

func TestUsage(t *testing.T) {
	if err := realMain(nil, strings.NewReader(passed), &strings.Builder{}); err == nil {
		t.Error("got no error without a list, want usage")
	}
	if err := realMain([]string{filepath.Join(t.TempDir(), "none")}, strings.NewReader(passed), &strings.Builder{}); err == nil {
		t.Error("got no error for a list that is not there")
	}
}
