package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	sum := Summary{
		Type: "summary", Closed: []Closed{{"key:noisy-1", 101, 2000, 0.01, 3}}, Requests: 2101, Lag: Lag{1.5, 9.25, 3}, Canaries: Lag{1, 2, 40}, HotPath: 41.6,
		Audit: Audit{Generator: 2101, Log: 2101, Store: 2101},
	}
	var table, object strings.Builder
	if err := errors.Join(sum.Print(&table, false), sum.Print(&object, true)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| key:noisy-1   |      3 |      101 |    2000 | 1.0 %     |", "innocents closed: 0\n", "p50 1.5 ms, p99 9.2 ms (3 samples)", "p50 1.0 ms, p99 2.0 ms (40 samples, worst server)",
		"hot path: 42 ns", "audit: generator 2101 = log 2101 = store 2101: exact\n",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("want %q in:\n%s", want, &table)
		}
	}
	width := 0
	for line := range strings.Lines(table.String()) {
		width = max(width, len([]rune(line)))
	}
	if width > 100 {
		t.Errorf("got %d columns, want at most 100:\n%s", width, &table)
	}
	var back Summary
	if err := json.Unmarshal([]byte(object.String()), &back); err != nil || fmt.Sprint(back) != fmt.Sprint(sum) {
		t.Errorf("got %+v and %v, want %+v again", back, err, sum)
	}
	if strings.Count(object.String(), "\n") != 1 || strings.Contains(object.String(), `"wrong"`) {
		t.Errorf("got %s, want one line, and nothing wrong in it", &object)
	}
}

func TestSummaryThatClosesAnInnocentFails(t *testing.T) {
	if err := (&Summary{Innocents: 1}).Verdict(); err == nil {
		t.Error("got no error, want one")
	}
}
