package main

import (
	"context"
	"errors"
	"testing"
	"time"

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

func TestWhileApplyingComparesReaders(t *testing.T) {
	b := &bench{settings: tiny(), report: &report.Report{}}
	if err := b.applying(t.Context()); err != nil {
		t.Fatal(err)
	}
	row := b.report.Rows[len(b.report.Rows)-1]
	if row.Unit != "%" || row.Bar.AtMost != 10 || len(row.Figures) != 2 {
		t.Errorf("got %+v, want percents at 1 and 2 CPUs", row)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.applying(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

// The writer must do what it is said to do, or readers are compared with nothing: at its rate, and changing what they
// see, with nobody closed in the end who was not before or is not among the others.
func TestWriterAppliesAtItsRate(t *testing.T) {
	closed, others := crowd(few, few)
	g := peers.NewGate(closed)
	defer g.Close()
	half := others[:few/2]
	w := newWriter(g.Set, closed[:few/2], half)
	if len(w.decisions) != 3*few/2 {
		t.Fatalf("got %d decisions, want %d: renew, close and open in turn", len(w.decisions), 3*few/2)
	}
	before, start := g.Set.Status().Applied, time.Now()
	w.start()
	deadline := start.Add(10 * time.Second)
	for g.Set.Status().Applied-before < perSecond/10 {
		if time.Now().After(deadline) {
			t.Fatal("got not 1 000 decisions applied in 10 s")
		}
		time.Sleep(time.Millisecond)
	}
	w.stop()
	took, applied := time.Since(start), g.Set.Status().Applied-before
	if most := uint64(took.Seconds()*perSecond) + 1; applied > most {
		t.Errorf("got %d decisions in %v, want %d at most", applied, took, most)
	}
	for _, id := range closed {
		if !g.Gate.Closed(id) {
			t.Fatalf("%s is open, who was closed before", id)
		}
	}
	for _, id := range others[few/2:] {
		if g.Gate.Closed(id) {
			t.Fatalf("%s is closed, whom nobody closed", id)
		}
	}
}
