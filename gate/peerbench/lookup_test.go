package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate/peerbench/meter"
	"github.com/509da70d/floodgate/gate/peerbench/peers"
	"github.com/509da70d/floodgate/gate/peerbench/report"
)

func TestCasesAreThoseOfTheTable(t *testing.T) {
	cases := append(smallCases(), largeCases(minMany)...)
	want := []struct {
		name   string
		closed int
		hit    bool
		bar    report.Bar
	}{
		{"nothing closed", 0, false, report.Bar{AtMost: 2, Times: 5}},
		{"1 000 closed, miss", few, false, report.Bar{AtMost: 10, Times: 5}},
		{"1 closed, hit", 1, true, report.Bar{AtMost: 10, Times: 3}},
		{"1 000 closed, hit", few, true, report.Bar{AtMost: 15, Times: 3}},
		{"1 M closed of 10 M callers, miss", minMany, false, report.Bar{AtMost: 15, Times: 30}},
		{"1 M closed of 10 M callers, hit", minMany, true, report.Bar{}},
	}
	if len(cases) != len(want) {
		t.Fatalf("got %d cases, want %d", len(cases), len(want))
	}
	for i, w := range want {
		c := cases[i]
		if c.name != w.name || len(c.closed) != w.closed || c.hit != w.hit || c.bar != w.bar {
			t.Errorf("got case %q, %d closed, hit %v, %+v; want %+v", c.name, len(c.closed), c.hit, c.bar, w)
		}
		closed := map[string]bool{}
		for _, id := range c.closed {
			closed[id] = true
		}
		for _, id := range c.asked {
			if closed[id] != c.hit {
				t.Fatalf("%s: asks about %s, who is closed: %v", c.name, id, closed[id])
			}
		}
		if len(c.asked) < few {
			t.Errorf("%s: got %d asked about, want %d at least", c.name, len(c.asked), few)
		}
	}
}

// subject gives the configured answer, and counts questions.
type subject struct {
	refuse func(key string) bool
	asked  []string
	closed int
}

func (s *subject) Ask(keys []string) (refused int) {
	for _, k := range keys {
		s.asked = append(s.asked, k)
		if s.refuse(k) {
			refused++
		}
	}
	return refused
}

func (s *subject) Close() error { s.closed++; return nil }

func always(answer bool) func(string) bool { return func(string) bool { return answer } }

func TestContendersAreReady(t *testing.T) {
	for _, l := range []lookup{smallCases()[1], smallCases()[3]} {
		cs, err := l.contenders()
		if err != nil {
			t.Fatal(err)
		}
		if _, loop := cs[0].subject.(peers.Loop); !loop {
			t.Errorf("got %T first, want the loop", cs[0].subject)
		}
		if _, gate := cs[1].subject.(*peers.Gate); !gate || cs[1].limiter {
			t.Errorf("got %T second, want the gate", cs[1].subject)
		}
		if want := 2 + len(peers.Limiters()) + len(peers.Flags()); len(cs) != want {
			t.Errorf("got %d contenders, want %d", len(cs), want)
		}
		missing := 0
		for _, c := range cs {
			if c.subject == nil {
				missing++
				continue
			}
			if got, want := c.subject.Ask(l.asked[:100]), c.wanted(l, 100); got != want {
				t.Errorf("%s, %s: got %d of 100 refused, want %d", l.name, c.name, got, want)
			}
		}
		if want := map[bool]int{false: 0, true: 1}[l.hit]; missing != want {
			t.Errorf("%s: got %d left out, want %d: the one that refuses nobody", l.name, missing, want)
		}
		closeAll(cs)
	}
}

func TestContendersThatAnswerWronglyAreFound(t *testing.T) {
	l := smallCases()[3]
	l.closed = nil // no caller is closed: the gate and the flags are open
	cs, err := l.contenders()
	defer closeAll(cs)
	if err == nil || !strings.Contains(err.Error(), "refused 0 of 1000 callers, want 1000") {
		t.Errorf("got error %v, want one that says what was refused", err)
	}
}

func TestWorkAsksAndCounts(t *testing.T) {
	l := lookup{asked: repeated([]string{"a", "b", "c"}, 2*chunk)}
	s := &subject{refuse: always(false)}
	c := &contender{name: "subject", subject: s}
	work := c.work(l)
	for range 2 {
		if got := work(0); got != chunk {
			t.Errorf("got %d operations, want %d", got, chunk)
		}
	}
	if len(s.asked) != 2*chunk || s.asked[0] != "a" || s.asked[chunk] != l.asked[chunk] {
		t.Errorf("got %d questions, want the keys in order", len(s.asked))
	}
	if err := honest([]*contender{c}, 0); err != nil {
		t.Errorf("got %v, want no error", err)
	}
	if (&contender{}).work(l) != nil {
		t.Error("got work without a subject")
	}
}

func TestHonest(t *testing.T) {
	for _, p := range []struct {
		name   string
		hit    bool
		refuse func(string) bool
		share  float64
		want   string // in the error; "" is none
	}{
		{"a miss that is refused", false, always(true), 0, "1000 wrong answers to 1000 questions"},
		{"a hit that is allowed", true, always(false), 0, "1000 wrong answers"},
		{"one of a thousand", false, func(k string) bool { return k == "odd" }, 0, "1 wrong answers"},
		{"one of a thousand, and two would do", false, func(k string) bool { return k == "odd" }, 0.002, ""},
		{"right ones", true, always(true), 0, ""},
	} {
		asked := append(repeated([]string{"a"}, chunk-1), "odd")
		c := &contender{name: "liar", subject: &subject{refuse: p.refuse}}
		c.work(lookup{asked: asked, hit: p.hit})(0)
		err := honest([]*contender{{}, c}, p.share)
		if p.want == "" && err != nil || p.want != "" && (err == nil || !strings.Contains(err.Error(), "liar: got "+p.want)) {
			t.Errorf("%s: got error %v, want %q", p.name, err, p.want)
		}
	}
}

// took returns a series of one sample with the given nanoseconds for each operation.
func took(ns int) meter.Series { return meter.Series{{Ops: 1, CPU: time.Duration(ns)}} }

func TestLookupMeasuresOneCase(t *testing.T) {
	b := &bench{settings: tiny(), report: &report.Report{}}
	var warm, cold report.Grid
	l := smallCases()[1]
	if err := b.lookup(t.Context(), l, &warm, &cold); err != nil {
		t.Fatal(err)
	}
	if len(b.report.Rows) != 1 {
		t.Fatalf("got %d rows, want 1", len(b.report.Rows))
	}
	row := b.report.Rows[0]
	if row.Case != l.name || row.Bar != l.bar || len(row.Figures) != 2 {
		t.Errorf("got %+v, want the case with its bar at 1 and 2 CPUs", row)
	}
	for i, f := range row.Figures {
		if f.CPUs != i+1 || f.Rival.Name == "" || f.Rival.Value <= 0 || f.Allocs > 0.1 {
			t.Errorf("got %+v, want a figure without allocations and a rival", f)
		}
	}
	for _, g := range []report.Grid{warm, cold} {
		if len(g.Lines) != 1+len(peers.Limiters())+len(peers.Flags()) || len(g.Cases) != 1 {
			t.Errorf("got %d lines and cases %q, want a line for each subject", len(g.Lines), g.Cases)
		}
	}
}

func TestLookupsEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := &bench{settings: tiny(), report: &report.Report{}}
	if err := b.lookups(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "nothing closed") {
		t.Errorf("got error %v, want %v and which case it was", err, context.Canceled)
	}
}
