package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/demo"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// TestDemoPrintsItsSummary last, as one JSON object, and exits 0.
func TestDemoPrintsItsSummary(t *testing.T) {
	t.Parallel()
	out, err := runCommand("demo", "--output", "json", "--duration", "1s", "--quiet", "5", "--noisy", "0")
	if err != nil {
		t.Fatalf("got %v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var sum demo.Summary
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &sum); err != nil || sum.Type != "summary" || sum.Requests == 0 || !sum.Audit.OK() {
		t.Errorf("got %+v and %v of %s, want a summary with an exact audit", sum, err, lines[len(lines)-1])
	}
}

func TestDemoRefusesADirectoryThatIsInUse(t *testing.T) {
	dir := t.TempDir()
	if _, err := runCommand("demo", "--duration", "1s", "--data", filepath.Dir(dir)); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("got %v, want it refused", err)
	}
}

// demo's flags: what can't be run is refused before anything starts, and nothing is left.
func TestDemoRefusesWhatItCannotRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, args := range [][]string{
		{"--duration", "0s"}, {"--duration", "-1s"}, {"--duration", "25h"}, {"--quiet", "-1"}, {"--quiet", "0", "--noisy", "0"}, {"--quiet", "10001"}, {"--noisy-rate", "0"},
		{"--noisy-rate", "NaN"}, {"--quiet-rate", "+Inf"}, {"--quiet-rate", "-5"}, {"--servers", "0"}, {"--servers", "101"}, {"--partitions", "0"}, {"--partitions", "101"},
		{"--limit", "0"}, {"--limit", "-1"}, {"--limit", "1000000000000000000"}, {"--window", "0s"}, {"--window", "-1s"}, {"--window", "1us"}, {"--window", "9000h"}, {"--output", "xml"}, {"--limit", "many"}, {"more"},
	} {
		out, err := runCommand(append([]string{"demo"}, args...)...)
		if !command.IsUsage(err) || out != "" {
			t.Errorf("%v: got %v and %q, want a usage error", args, err, out)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v left behind, want nothing", left, err)
	}
}

// Whoever reads the demo's first line and goes away leaves no files behind.
func TestDemoWhoseReaderGoesAwayCleansUp(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	tmp := t.TempDir()
	program := exec.Command(os.Args[0], "demo", "--duration", "300ms", "--quiet", "2")
	program.Env = append(os.Environ(), beMain+"=1", "TMPDIR="+tmp)
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	_ = out.Close()
	if err := program.Wait(); err == nil || program.ProcessState.ExitCode() != 1 {
		t.Errorf("got %v, want exit code 1: nobody could be told", err)
	}
	if left, err := filepath.Glob(filepath.Join(tmp, "*")); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v left behind, want nothing", left, err)
	}
}
