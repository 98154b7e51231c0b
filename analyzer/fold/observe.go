package fold

import (
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// This file is what the fold tells its predictor, and what it hands on from there. Nothing here decides what is counted.

// live reports whether closes of a rule can be predicted now, for the entry that is folded.
func (f *Fold) live(rule int32) bool {
	return f.accounts[rule].predicts && f.predict.Live(f.now) && !f.sourced
}

// observe tells of weight that was admitted. near reports whether the row may get a tracker.
func (f *Fold) observe(r *rules.Rule, i uint32, row *row, e *schemas.Entry, total, limit, weight int64, near bool) {
	if f.live(int32(row.rule)) {
		row.flag(tracked, f.predict.Admitted(&predict.Sent{
			Row: i, Rule: r, Limit: limit, Weight: weight, At: e.Time, Now: f.now, Total: total, Near: near,
		}))
	}
}

// predictRow returns a row as predictions need it.
func (f *Fold) predictRow(i uint32) predict.Row {
	r := f.table.row(i)
	v := f.predictUnder(f.set.Rules[r.rule], r)
	v.ByRecord = r.beside&hasRecords != 0 && f.closedByRecord(v.Rule.Kind, r.id)
	if r.beside&hasEarly != 0 {
		v.Early = f.early(v.Rule, r, v.Limit, f.now, v.Rule.Window.View(r.state, v.Limit, f.now))
	}
	return v
}

// predictUnder returns what is counted of a row, under a rule that may not be the row's any more.
func (f *Fold) predictUnder(rule *rules.Rule, r *row) predict.Row {
	limit, unlimited := f.limitOf(rule, r)
	return predict.Row{Rule: rule, ID: r.id, State: r.state, Closure: r.closure, Limit: limit, Unlimited: unlimited}
}

// forecast tells of a changed closure, and adds to the change what is predicted.
func (f *Fold) forecast(i uint32, row *row, c *Change) {
	if row.beside&tracked != 0 {
		c.Forecast = f.predict.Changed(&predict.Change{
			Row: i, Rule: c.Rule, Index: int32(row.rule), ID: row.id, Kind: c.Kind, Before: c.Before, Closure: c.Closure,
			Limit: c.Limit, At: c.At, Now: f.now, Total: c.Count.Total,
		})
	}
}

// TakePlans returns what was predicted since it was last called: see predict.Predictor.TakePlans. It is to be called after each batch
// of frames. The slice is good until the next call.
func (f *Fold) TakePlans() []predict.Plan { return f.predict.TakePlans(f.now, f.offset) }

// Measure notes that a lag was measured, in nanoseconds, and came into the log at t, in Unix nanoseconds. Frame does so for each
// canary.
func (f *Fold) Measure(t, lag int64) { f.predict.Measure(t, lag, f.now) }

// Lag returns the lag and its deviation, in nanoseconds: see predict.Predictor.Lag.
func (f *Fold) Lag() (mean, deviation int64, ok bool) { return f.predict.Lag(f.now) }

// EndOvershoots observes the overshoot of the closures that have not ended, too. Call it when no more entries come.
func (f *Fold) EndOvershoots() { f.predict.EndOvershoots() }
