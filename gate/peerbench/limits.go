package main

import (
	"context"
	"fmt"

	"github.com/509da70d/floodgate/gate/peerbench/meter"
	"github.com/509da70d/floodgate/gate/peerbench/peers"
	"github.com/509da70d/floodgate/gate/peerbench/report"
)

// stale is the share of events that a limiter may refuse although it should allow them. A goroutine may read the clock and
// then lose the processor: its time is old when it asks, and others have used the room of that time.
const stale = 0.01

// limits measures the local limiters, one caller each, beside their rivals.
func (b *bench) limits(ctx context.Context) error {
	grid := &report.Grid{Title: "one limiter", Unit: "ns"}
	asked := repeated([]string{"caller"}, few)
	for _, l := range []lookup{
		{name: "a limit.Ring that allows, for one caller", short: "allows", asked: asked},
		{name: "a limit.Ring that refuses, for one caller", short: "refuses", asked: asked, hit: true},
	} {
		cs := []*contender{{name: "empty loop", subject: peers.Loop{}}}
		for _, p := range peers.Singles() {
			c := &contender{name: p.Name}
			switch {
			case l.hit && p.Blocks:
			case l.hit:
				c.subject = p.New(peers.Spent())
				c.subject.Ask(asked)
			default:
				c.subject = p.New(peers.Brisk())
			}
			cs = append(cs, c)
		}
		trials := make([]meter.Work, len(cs))
		for i, c := range cs {
			trials[i] = c.work(l)
		}
		measured, err := b.spread(ctx, trials...)
		if err != nil {
			return err
		}
		if err := honest(cs, stale); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		b.limitRow(l, cs, measured)
		fill(grid, l, cs, values(measured))
	}
	b.report.Grids = append(b.report.Grids, *grid)
	return nil
}

// limitRow adds the row of a Ring beside golang.org/x/time/rate.
func (b *bench) limitRow(l lookup, cs []*contender, measured [][]meter.Series) {
	row := report.Row{
		Case: l.name, Unit: "ns", Bar: report.Bar{Times: 2},
		Note: "beside golang.org/x/time/rate; other limiters are in their table",
	}
	for i, series := range measured {
		f := report.Figure{CPUs: b.settings.cpus[i], Value: beyond(series[1], series[0]), Allocs: series[1].Allocs()}
		for j, c := range cs {
			if c.name == "x/time/rate" {
				f.Rival = report.Rival{Name: c.name, Value: beyond(series[j], series[0])}
			}
		}
		row.Figures = append(row.Figures, f)
	}
	b.row(row)
}
