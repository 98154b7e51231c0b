package fold

import (
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// This file passes what happened to the predictor, and returns its forecasts. Nothing here decides what is counted.

// live reports whether the predictor may use the entry that is folded: closes of the rule are predicted, the lag is known, and the entry is
// not from a source.
func (f *Fold) live(rule int32) bool {
	return f.counters[rule].predicts && f.predict.Live(f.table.now) && !f.sourced
}

// observe passes admitted weight to the predictor. near reports whether the row may get a tracker.
func (f *Fold) observe(r *rules.Rule, i uint32, row *row, e *schemas.Entry, total, limit, weight int64, near bool) {
	if f.live(int32(row.rule)) {
		row.flag(tracked, f.predict.Admitted(&predict.Sent{
			Row: i, Rule: r, Limit: limit, Weight: weight, At: e.Time, Now: f.table.now, Total: total, Near: near,
		}))
	}
}

// changedRow is a row whose closure the entry has changed.
type changedRow struct {
	row    uint32
	change int // its place in the list of changes
}

// forecast passes the closures that the entry has changed to the predictor, and adds its forecasts to the changes.
func (f *Fold) forecast() {
	for _, n := range f.toForecast {
		c, row := &f.changes[n.change], f.table.row(n.row)
		if row.rule < 0 || f.rules.set.Rules[row.rule] != c.Rule {
			continue // the entry's caller took the row for another rule
		}
		c.Forecast = f.predict.Changed(&predict.Change{
			Row: n.row, Rule: c.Rule, Index: int32(row.rule), ID: row.id, Kind: c.Kind, Before: c.Before, Closure: c.Closure,
			Limit: c.Limit, At: c.At, Now: f.table.now, Total: c.Count.Total,
		})
	}
	f.toForecast = f.toForecast[:0]
}

// TakePlans returns what was predicted since it was last called: see predict.Predictor.TakePlans. Call it after each batch of frames. The
// slice is good until the next call.
func (f *Fold) TakePlans() []predict.Plan { return f.predict.TakePlans(f.table.now, f.offset) }

// Measure notes a measured lag, in nanoseconds, that came into the log at t, in Unix nanoseconds. Frame calls it for each canary that
// carries a lag.
func (f *Fold) Measure(t, lag int64) { f.predict.Measure(t, lag, f.table.now) }

// EndOvershoots adds the overshoots of closures that have not ended to the statistics. Call it when no more entries come.
func (f *Fold) EndOvershoots() { f.predict.EndOvershoots() }
