package main

import (
	"context"
	"errors"
	"testing"

	"github.com/509da70d/floodgate/gate/peerbench/report"
)

func TestSpreadIsBySeriesAndProcessors(t *testing.T) {
	b := &bench{settings: tiny(), report: &report.Report{}}
	ops := func(n int) func(int) int { return func(int) int { return n } }
	all, err := b.spread(t.Context(), ops(1), nil, ops(1000))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 {
		t.Fatalf("got %d, want 1 and 2 CPUs", len(all))
	}
	for i, series := range all {
		if len(series) != 3 || len(series[0]) != 1 || series[1] != nil || series[2][0].Ops%1000 != 0 {
			t.Errorf("%d CPUs: got %v, want a sample of the first and the third", i+1, series)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.spread(ctx, ops(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

func TestLimitsCompareARingWithARate(t *testing.T) {
	b := &bench{settings: tiny(), report: &report.Report{}}
	if err := b.limits(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(b.report.Rows) != 2 || len(b.report.Grids) != 1 {
		t.Fatalf("got %d rows and %d grids, want allowing, refusing, and one", len(b.report.Rows), len(b.report.Grids))
	}
	for _, row := range b.report.Rows {
		for _, f := range row.Figures {
			if f.Rival.Name != "x/time/rate" || f.Rival.Value <= 0 || f.Allocs > 0.1 {
				t.Errorf("%s: got %+v, want x/time/rate beside it and no allocations", row.Case, f)
			}
		}
	}
	waits := 0
	for _, l := range b.report.Grids[0].Lines {
		if len(l.Values) != 2 || l.Values[0] == nil {
			t.Errorf("got %+v, want each limiter measured allowing", l)
		}
		if l.Values[1] == nil {
			waits++
		}
	}
	if waits != 1 {
		t.Errorf("got %d that are not measured refusing, want the one that waits", waits)
	}
}
