package fold

import (
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// Plan is a decision ahead of time about one rule and caller. The counted closure in force, if there is one, is the decision's
// first span, and the predicted one is Next. Without one in force the predicted one is the first span, and Early is set. The
// publisher adds the partition, the lag, the epoch and the sequence number.
type Plan struct {
	Rule     *rules.Rule
	Caller   schemas.Caller
	Decision schemas.Decision
	At       int64 // Unix nanoseconds: log time
	Offset   int64 // of the record that was folded last
	Shares   bool  // it is about a share: it gives one, or ends it
}

// TakePlans predicts the next close of each caller that was heard of since it was last called, and returns those that are news,
// in log order. It is to be called after each batch of frames. The slice is good until the next entry.
func (f *Fold) TakePlans() []Plan {
	f.plans = append(f.plans[:0], f.ended...)
	f.ended = f.ended[:0]
	touched := f.trackers.touched
	for _, tr := range touched {
		tr.touched = false
		if tr.row != nil && f.now < f.lags.until {
			f.plan(tr)
		}
	}
	clear(touched)
	f.trackers.touched = touched[:0]
	f.sweepTrackers(len(touched) + sweptTracked)
	return f.plans
}

// plan predicts the next close of one row.
func (f *Fold) plan(tr *tracker) {
	r := tr.row
	rule := f.set.Rules[r.rule]
	limit, unlimited := f.limitOf(rule, r)
	if unlimited || r.beside&hasRecords != 0 && f.closedByRecord(rule.Kind, r.id) || f.tooFar(rule, r, limit) {
		return
	}
	o := policy.Outlook{
		Rule: rule, Limit: limit, State: r.state, Closure: r.closure, Pace: &tr.pace, Now: f.now, Lag: f.lags.lag,
		LagCap: f.lagCap(rule), Room: f.room,
	}
	if early := f.early(rule, r, limit, f.now, rule.Window.View(r.state, limit, f.now)); early > 0 {
		f.asked = append(f.asked[:0], r.state...)
		f.asked, _ = rule.Window.Add(f.asked, limit, f.now, early)
		o.State = f.asked
	}
	tr.pace.Advance(f.now, f.lags.lag.Mean)
	shares := f.planShare(tr, rule, limit)
	publish := false
	if s := tr.share; s == nil || integer.Add(f.now, f.lags.lag.Mean) < s.Since() {
		var next policy.Announced
		next, publish = o.Predict(tr.announced)
		if f.room = o.Room; s != nil && publish && next.CloseAt >= s.Since() {
			publish = false
		} else {
			tr.announced = next
		}
	}
	if !publish && !shares {
		return
	}
	d := f.decide(tr, rule, limit, rule.Window.View(r.state, limit, f.now))
	rate := tr.announced.Demand
	if shares {
		rate = tr.pace.Rate()
	}
	bound := policy.BoundOf(rule, limit, rate, f.lags.lag, policy.Predicted)
	if s := tr.share; s != nil && s.Since() < integer.Add(f.now, f.lags.lag.Mean) {
		bound = policy.ShareBound(rule, limit, f.gates())
	}
	d.Evidence.Rate, d.Evidence.Expected, d.Evidence.Bound = float64(rate)/1000, bound.Expected, bound.Bound
	f.plans = append(f.plans, Plan{Rule: rule, Caller: d.Caller, Decision: d, At: f.now, Offset: f.offset, Shares: shares})
}
