package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate/peerbench/meter"
	"github.com/509da70d/floodgate/gate/peerbench/report"
)

// tiny is everything, as small as it still means anything.
func tiny() settings {
	return settings{plan: meter.Plan{Rounds: 1, Round: 2 * time.Millisecond}, cpus: []int{1, 2}, many: minMany, cold: 10}
}

// smoke is the flags for the same.
func smoke(more ...string) []string {
	return append([]string{"-rounds", "1", "-round", "2ms", "-many", "4000"}, more...)
}

// The whole command: what it prints, that each case of the table is measured, and that the page is rewritten.
func TestRunPrintsEveryCaseAndUpdatesThePage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "RESULTS.md")
	if err := os.WriteFile(path, []byte("before\n"+report.Begin+"\n"+report.End+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, progress strings.Builder
	if err := realMain(t.Context(), smoke("-update", "-page", path), &out, &progress); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"nothing closed", "1 000 closed, miss", "1 closed, hit", "1 000 closed, hit", "1 M closed of 10 M callers, miss",
		"while 10 k decisions/s are applied", "memory of a closed caller", "applying 1 M closures",
		"with one caller", "with two callers", "flooding caller", "over a bare handler", "whole net/http request",
		"LOOKUP ALONE", "time.Now", "xsync v4 Map", "with 4000 in their place", "bars met",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant it to say %q", out.String(), want)
		}
	}
	page, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(page), "| nothing closed |") || !strings.HasSuffix(string(page), report.End+"\nafter\n") {
		t.Errorf("got %s, %v, want the table in its block", page, err)
	}
	if !strings.Contains(progress.String(), "whole requests") || !strings.Contains(progress.String(), "done") {
		t.Errorf("got progress %q, want each part named", progress.String())
	}
}

func TestRunPrintsJSON(t *testing.T) {
	var out bytes.Buffer
	if err := realMain(t.Context(), smoke("-output", "json", "-only", "d"), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	rows, last := 0, ""
	for dec := json.NewDecoder(&out); dec.More(); {
		var o struct {
			Type    string
			Figures []report.Figure
		}
		if err := dec.Decode(&o); err != nil {
			t.Fatal(err)
		}
		if last = o.Type; last == "row" {
			rows++
		}
	}
	if rows < 8 || last != "summary" {
		t.Errorf("got %d rows and %q at the end, want 8 at least and a summary", rows, last)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	if err := realMain(ctx, smoke(), &out, io.Discard); !errors.Is(err, context.Canceled) || out.Len() > 0 {
		t.Errorf("got error %v and %q, want %v and nothing", err, out.String(), context.Canceled)
	}
}

func TestParse(t *testing.T) {
	c, err := parse(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if c.json || c.page != "" || c.settings.many != 1_000_000 || c.settings.plan != full().plan {
		t.Errorf("got %+v, want the whole run, as a table, and no page touched", c)
	}
	c, err = parse([]string{"--output", "json", "--update", "--rounds", "3", "--round", "20ms", "--many", "5000"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := meter.Plan{Rounds: 3, Round: 20 * time.Millisecond}
	if !c.json || c.page != "RESULTS.md" || c.settings.plan != want || c.settings.many != 5000 {
		t.Errorf("got %+v", c)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"--what"}, {"extra"}, {"--output", "xml"}, {"--rounds", "0"}, {"--round", "1us"}, {"--many", "100"}, {"--rounds", "x"},
		{"--only", "limiters", "--update"}, // or the page would lose the rest
	} {
		if _, err := parse(args, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%q: got error %v, want %v", args, err, errUsage)
		}
	}
	if _, err := parse([]string{"--help"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got error %v, want %v", err, flag.ErrHelp)
	}
}

func TestRunSaysWhichPartFailed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := tiny()
	s.only = "limiters"
	if _, err := run(ctx, s, io.Discard); err == nil || !strings.HasPrefix(err.Error(), "limiters: ") {
		t.Errorf("got error %v, want the part named", err)
	}
}
