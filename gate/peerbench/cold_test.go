package main

import (
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate/peerbench/peers"
	"github.com/509da70d/floodgate/gate/peerbench/report"
)

// slow is a subject that takes its time.
type slow struct{ subject }

func (s *slow) Ask(keys []string) int {
	for start := time.Now(); time.Since(start) < 20*time.Microsecond; {
		continue
	}
	return s.subject.Ask(keys)
}

func TestColdAsksEachSubjectOneAtATime(t *testing.T) {
	b := &bench{settings: tiny(), report: &report.Report{}}
	keys, _ := crowd(few, 1)
	asked := &slow{subject{refuse: always(false)}}
	cs := []*contender{
		{name: "loop", subject: peers.Loop{}}, {name: "quick", subject: peers.Loop{}}, {name: "left out"},
		{name: "slow", subject: asked},
	}
	var g report.Grid
	b.cold(lookup{short: "miss", asked: keys}, cs, &g)
	if len(g.Lines) != 3 || g.Lines[1].Values[0] != nil {
		t.Fatalf("got %+v, want three lines of which the second has no figure", g.Lines)
	}
	quick, slow := g.Lines[0].Values[0], g.Lines[2].Values[0]
	if len(slow) != 1 || slow[0] < 15_000 || quick[0] > slow[0]/2 {
		t.Errorf("got %v ns for nothing and %v for 20 µs, net", quick, slow)
	}
	if len(asked.asked) != b.settings.cold {
		t.Fatalf("got %d questions, want %d", len(asked.asked), b.settings.cold)
	}
	different := slices.Compact(slices.Sorted(slices.Values(asked.asked)))
	if len(different) != b.settings.cold {
		t.Errorf("got %d different callers, want %d: one asked about twice is not cold", len(different), b.settings.cold)
	}
	for _, k := range different {
		if !slices.Contains(keys, k) {
			t.Errorf("asked about %s, who is not of the case", k)
		}
	}
}

// There are cases of fewer callers than questions.
func TestColdAsksAgainWhereCallersAreFew(t *testing.T) {
	s := tiny()
	s.cold = 5 * few
	b := &bench{settings: s, report: &report.Report{}}
	asked := &subject{refuse: always(true)}
	keys, _ := crowd(few, 1)
	var g report.Grid
	b.cold(lookup{asked: keys, hit: true}, []*contender{{subject: peers.Loop{}}, {subject: asked}}, &g)
	if len(asked.asked) != s.cold {
		t.Errorf("got %d questions, want %d", len(asked.asked), s.cold)
	}
}
