package main

import (
	"testing"

	"github.com/509da70d/floodgate/gate/peerbench/peers"
	"github.com/509da70d/floodgate/gate/peerbench/report"
)

func TestClosingMeasuresMemoryAndTime(t *testing.T) {
	b := &bench{settings: tiny(), report: &report.Report{}}
	closed, others := crowd(5*batch+1, 10)
	set, err := b.closing(closed)
	if err != nil {
		t.Fatal(err)
	}
	g := set.Gate(peers.Kind)
	for _, id := range closed {
		if !g.Closed(id) {
			t.Fatalf("%s is not closed", id)
		}
	}
	for _, id := range others {
		if g.Closed(id) {
			t.Fatalf("%s is closed", id)
		}
	}
	if len(b.report.Rows) != 2 {
		t.Fatalf("got %d rows, want 2", len(b.report.Rows))
	}
	memory, applying := b.report.Rows[0].Figures[0].Value, b.report.Rows[1].Figures[0].Value
	if memory < idBytes || memory > 1000 {
		t.Errorf("got %v bytes a closed caller, want more than its id", memory)
	}
	if applying <= 0 || applying > 10_000 {
		t.Errorf("got %v ms for %d closures", applying, len(closed))
	}
}
