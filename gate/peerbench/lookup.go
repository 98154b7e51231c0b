package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"

	"github.com/509da70d/floodgate/gate/peerbench/meter"
	"github.com/509da70d/floodgate/gate/peerbench/peers"
	"github.com/509da70d/floodgate/gate/peerbench/report"
)

// lookup is a case of asking about one caller.
type lookup struct {
	name   string
	short  string // for column headings
	closed []string
	asked  []string
	hit    bool // the callers that are asked about are closed
	bar    report.Bar
}

// cases returns the cases of one size. Small and large cases are separate, so that the callers of one size are not in
// memory while the other is measured.
func smallCases() []lookup {
	closed, others := crowd(few, few)
	one := closed[:1]
	return []lookup{
		{"nothing closed", "nothing closed", nil, others, false, report.Bar{AtMost: 2, Times: 5}},
		{"1 000 closed, miss", "1 k, miss", closed, others, false, report.Bar{AtMost: 10, Times: 5}},
		{"1 closed, hit", "1, hit", one, repeated(one, few), true, report.Bar{AtMost: 10, Times: 3}},
		{"1 000 closed, hit", "1 k, hit", closed, closed, true, report.Bar{AtMost: 15, Times: 3}},
	}
}

func largeCases(many int) []lookup {
	closed, others := crowd(many, many)
	return []lookup{
		{"1 M closed of 10 M callers, miss", "1 M, miss", closed, others, false, report.Bar{AtMost: 15, Times: 30}},
		{"1 M closed of 10 M callers, hit", "1 M, hit", closed, closed, true, report.Bar{}},
	}
}

// lookups measures all cases, warm and cold.
func (b *bench) lookups(ctx context.Context) error {
	warm := &report.Grid{Title: "one lookup among many", Unit: "ns"}
	cold := &report.Grid{Title: "one lookup alone, caches full of other data", Unit: "ns"}
	for _, cases := range []func() []lookup{smallCases, func() []lookup { return largeCases(b.settings.many) }} {
		for _, l := range cases() {
			if err := b.lookup(ctx, l, warm, cold); err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
		}
	}
	b.report.Grids = append(b.report.Grids, *warm, *cold)
	return nil
}

// contender is a subject in a case, ready to be measured.
type contender struct {
	name    string
	subject peers.Subject // nil if the case does not apply to it
	limiter bool
	asked   atomic.Int64 // questions of all workers, added once for each chunk, so that counting costs little
	wrong   atomic.Int64 // answers
}

// lookup measures one case.
func (b *bench) lookup(ctx context.Context, l lookup, warm, cold *report.Grid) error {
	cs, err := l.contenders()
	defer closeAll(cs)
	if err != nil {
		return err
	}
	trials := make([]meter.Work, len(cs))
	for i, c := range cs {
		trials[i] = c.work(l)
	}
	measured, err := b.spread(ctx, trials...)
	if err != nil {
		return err
	}
	if err := honest(cs, 0); err != nil {
		return err
	}
	row := report.Row{Case: l.name, Unit: "ns", Bar: l.bar}
	for i, series := range measured {
		f := report.Figure{CPUs: b.settings.cpus[i], Value: beyond(series[1], series[0]), Allocs: series[1].Allocs()}
		f.Rival = fastest(cs, series)
		row.Figures = append(row.Figures, f)
	}
	b.row(row)
	fill(warm, l, cs, values(measured))
	b.cold(l, cs, cold)
	return nil
}

// contenders makes the subjects of a case: first the loop, then the gate, then the others. All have seen all callers. If
// the case is a hit, the callers have spent their quotas. The error names a subject that gives wrong answers.
func (l lookup) contenders() ([]*contender, error) {
	gate := peers.NewGate(copies(shuffled(l.closed)))
	cs := []*contender{{name: "empty loop", subject: peers.Loop{}}, {name: "floodgate", subject: gate}}
	for _, p := range peers.Limiters() {
		c := &contender{name: p.Name, limiter: true}
		switch {
		case l.hit && p.Blocks:
		case l.hit:
			c.subject = p.New(peers.Spent())
		default:
			c.subject = p.New(peers.Generous())
		}
		cs = append(cs, c)
	}
	for _, p := range peers.Flags() {
		cs = append(cs, &contender{name: p.Name, subject: p.New(copies(shuffled(l.closed)))})
	}
	known := copies(shuffled(l.asked))
	for _, c := range cs {
		if c.subject == nil {
			continue
		}
		c.subject.Ask(known)
		if got := c.subject.Ask(l.asked[:few]); got != c.wanted(l, few) {
			return cs, fmt.Errorf("%s refused %d of %d callers, want %d", c.name, got, few, c.wanted(l, few))
		}
	}
	return cs, nil
}

// wanted returns how many of n callers the contender must refuse.
func (c *contender) wanted(l lookup, n int) int {
	if _, loop := c.subject.(peers.Loop); loop || !l.hit {
		return 0
	}
	return n
}

// work returns the code to measure, or nil if the case does not apply.
func (c *contender) work(l lookup) meter.Work {
	if c.subject == nil {
		return nil
	}
	keys := newRounds(l.asked)
	return func(worker int) int {
		asked := keys.next(worker)
		c.asked.Add(int64(len(asked)))
		if got, want := c.subject.Ask(asked), c.wanted(l, len(asked)); got != want {
			c.wrong.Add(int64(max(got-want, want-got)))
		}
		return len(asked)
	}
}

// closeAll ends the contenders' background goroutines.
func closeAll(cs []*contender) {
	for _, c := range cs {
		if closer, ok := c.subject.(io.Closer); ok {
			_ = closer.Close() // memory only
		}
		c.subject = nil
	}
	runtime.GC()
}

// honest returns an error if a contender gave more than a share of wrong answers while it was measured.
func honest(cs []*contender, share float64) error {
	for _, c := range cs {
		if n, of := c.wrong.Load(), c.asked.Load(); float64(n) > share*float64(of) {
			return fmt.Errorf("%s: got %d wrong answers to %d questions", c.name, n, of)
		}
	}
	return nil
}

// values returns the time of contender i without the loop, for each number of processors.
func values(measured [][]meter.Series) func(i int) []float64 {
	return func(i int) (ns []float64) {
		for _, series := range measured {
			ns = append(ns, beyond(series[i], series[0]))
		}
		return ns
	}
}

// fastest returns the limiter with the shortest time.
func fastest(cs []*contender, series []meter.Series) (r report.Rival) {
	for i, c := range cs {
		if !c.limiter || c.subject == nil {
			continue
		}
		if ns := beyond(series[i], series[0]); r.Name == "" || ns < r.Value {
			r = report.Rival{Name: c.name, Value: ns}
		}
	}
	return r
}

// fill adds a case to a grid: a column with the values of each contender but the loop.
func fill(g *report.Grid, l lookup, cs []*contender, values func(i int) []float64) {
	g.Cases = append(g.Cases, l.short)
	for i, c := range cs[1:] {
		if len(g.Lines) <= i {
			g.Lines = append(g.Lines, report.Line{Subject: c.name})
		}
		var v []float64
		if c.subject != nil {
			v = values(i + 1)
		}
		g.Lines[i].Values = append(g.Lines[i].Values, v)
	}
}
