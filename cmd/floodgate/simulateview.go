package main

import (
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/simulate"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
)

// simulateView prints what was measured: a row for each rule of each run, or a JSON object for each run.
type simulateView struct {
	out    io.Writer
	asJSON bool
	table  table.Writer
	panels []simulate.Picture
}

// simulated is the JSON object of a run.
type simulated struct {
	Type     string `json:"type"` // "simulation"
	Scenario string `json:"scenario"`
	Predict  string `json:"predict"`
	*simulate.Result
}

// list prints the scenarios.
func (v *simulateView) list() {
	t := terminal.NewTable(v.out, "scenario", "what")
	t.SetStyle(table.StyleLight)
	for _, s := range simulate.Scenarios() {
		t.AppendRow(terminal.Cells(s.Name, s.About))
	}
	t.Render()
}

// add takes the result of a run.
func (v *simulateView) add(scenario string, p rules.Predict, r *simulate.Result) error {
	for i := range r.Rules {
		v.panels = append(v.panels, simulate.Picture{
			Title:  fmt.Sprintf("%s, predict %s: %s, %s", scenario, p, r.Rules[i].Series.Caller, r.Rules[i].Window),
			Series: r.Rules[i].Series,
		})
	}
	if v.asJSON {
		return printable.JSON(v.out).Encode(simulated{"simulation", scenario, p.String(), r})
	}
	if v.table == nil {
		v.table = terminal.NewTable(v.out, "scenario", "predict", "rule", "lag", "admitted", "sync", "over mean", "p99", "max", "first", "lost",
			"innocents closed", "longest", "decisions/s")
		v.table.SetStyle(table.StyleLight)
	}
	for i := range r.Rules {
		x := &r.Rules[i]
		v.table.AppendRow(terminal.Cells(scenario, p.String(), x.Rule, seconds(r.LagMean), percent(x.AdmittedShare), percent(x.SyncShare),
			percent(x.Overshoot.Mean), percent(x.Overshoot.P99), percent(x.Overshoot.Max), percent(x.First.Mean), percent(x.Lost),
			fmt.Sprintf("%d of %d", x.InnocentsClosed, x.Innocents), seconds(x.InnocentLongest), fmt.Sprintf("%.2f", x.DecisionRate)))
	}
	return nil
}

// finish prints the table.
func (v *simulateView) finish() error {
	if v.table == nil {
		return nil
	}
	v.table.Render()
	_, err := fmt.Fprintln(v.out, "\nShares of the limit. admitted, sync: of the windows whose demand reached the limit, by us and by a synchronous limiter. over: by how much\n"+
		"windows exceed the limit, and the first one that reached it. lost: what the synchronous limiter admits and we do not.")
	return err
}

func percent(x float64) string { return fmt.Sprintf("%.2f %%", 100*x) }

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}
