package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/gate/peerbench/report"
)

func TestPartsAreMeasuredForBothWorkers(t *testing.T) {
	b := &bench{settings: tiny(), report: &report.Report{}}
	if err := b.parts(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := b.report.Grids[0]
	for i, want := range []string{"atomic load", "maphash", "comparison", "compare-and-swap", "time.Now", "16 KiB", "512 KiB", "64 MiB"} {
		if i >= len(g.Lines) || !strings.Contains(g.Lines[i].Subject, want) || len(g.Lines[i].Values[0]) != 2 {
			t.Fatalf("got %+v, want line %d to be about %q, at 1 and 2 CPUs", g.Lines, i, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.parts(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

func TestPartsDoNotAllocate(t *testing.T) {
	_, asked := crowd(1, 10)
	for _, p := range parts(asked) {
		if n := testing.AllocsPerRun(10, func() { p.work(asked, 0); p.work(asked, 1) }); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", p.name, n)
		}
	}
}
