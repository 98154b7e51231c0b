package fold

import (
	"math"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// setPredicts sets whether closes of a rule are predicted.
func (a *account) setPredicts(r *rules.Rule, o *Options) {
	a.predicts = min(r.Predict, o.Predict) > rules.PredictOff && !r.ReadsResponses()
	switch {
	case a.predicts && o.PredictLagCap > DefaultPredictLagCap:
		a.tracks = 0 // trackedFrom decides
	case r.Burst > 0:
		a.tracks = r.Burst
	default:
		a.tracks = math.MaxInt64
	}
}

// predicts reports whether closes of a rule can be predicted now, for the entry that is folded.
func (f *Fold) predicts(rule int32) bool {
	return f.accounts[rule].predicts && f.now < f.lags.until && !f.sourced
}

// track measures weight of an entry that was admitted, if its row has a tracker or is at half of its limit or beyond.
func (f *Fold) track(r *rules.Rule, row *row, e *schemas.Entry, total, limit, weight int64) {
	if !f.predicts(int32(row.rule)) {
		return
	}
	if capacity := r.Window.Capacity(limit); row.beside&hasTracker == 0 && f.trackedFrom(r)*total < capacity && !f.rushes(weight, capacity) {
		return
	}
	if tr := f.tracker(row); tr != nil {
		tr.pace.Add(f.now, f.now-e.Time, weight, f.lags.lag.Mean)
		f.noteShare(tr, e.Time, weight, true)
		f.trackers.touch(tr)
	}
}

// trackedFrom returns from which part of its limit on a row is tracked: from a half, or a tenth where the lag is long.
func (f *Fold) trackedFrom(r *rules.Rule) int64 {
	if f.longLag(r) {
		return 10
	}
	return 2
}

// longLag reports whether the lag is more than a quarter of the rule's window, at which a rule predicts only if the cap of the lag
// was raised. To predict from half of the limit on would be too late then. So the pace of a row is measured early, and its
// closes are predicted from a third of the limit on.
func (f *Fold) longLag(r *rules.Rule) bool { return 4*f.lags.lag.Mean > r.Window.Length(f.now) }

// tooFar reports whether a row is too far from its limit for a prediction, although it is tracked.
func (f *Fold) tooFar(r *rules.Rule, row *row, limit int64) bool {
	return f.longLag(r) && !row.closure.ClosedAt(f.now) && 3*r.Window.View(row.state, limit, f.now).Total < r.Window.Capacity(limit)
}

// rushes reports whether a caller reaches half of its limit within a lag if it goes on as in one entry, which holds what one
// server got within a tick. To wait for half of the limit would be too late then.
func (f *Fold) rushes(weight, capacity int64) bool {
	return weight > 1 && 2*weight > capacity/f.lags.ticks
}

// trackRefused measures weight of an entry at t that was blocked. It is demand under the row's rule if that was why: not what
// another rule has blocked.
func (f *Fold) trackRefused(r *row, t, weight int64) {
	tr := f.tracker(r)
	if tr == nil {
		return
	}
	c, a := &r.closure, &tr.announced
	counted := c.Nth > 0 && t >= c.CloseAt && t < integer.Add(c.Until, (c.Until-c.CloseAt)/8+f.lags.lag.Mean)
	early := a.Until > 0 && t >= a.CloseAt && t < integer.Add(a.Until, f.lags.lag.Mean)
	if counted || early || f.refusesShare(tr, t) {
		tr.pace.Add(f.now, f.now-t, weight, f.lags.lag.Mean)
	}
	f.noteShare(tr, t, weight, false)
	f.trackers.touch(tr)
}

// tellTracker tells a row's tracker of a change of its closure, and the change what is predicted.
func (f *Fold) tellTracker(r *row, c *Change) {
	tr := f.trackers.find(r)
	a := &tr.announced
	tr.pace.Advance(f.now, f.lags.lag.Mean)
	rate := tr.pace.Rate()
	c.Rate = float64(rate) / 1000
	by := policy.Reactive
	if a.Until > 0 && a.CloseAt <= integer.Add(c.At, f.lags.lag.Mean) {
		by = policy.Predicted // its time is right or a little late, and gates hold it by then
	}
	if c.Kind == policy.Closed && f.now < f.lags.until {
		o := policy.BoundOf(c.Rule, c.Limit, rate, f.lags.lag, by)
		if s := tr.share; s != nil && s.Covers(c.Rule, c.Limit, c.At) {
			o, by = policy.ShareBound(c.Rule, c.Limit, f.gates()), policy.Shared
		}
		c.By, c.Expected, c.Bound = by, o.Expected, o.Bound
		f.overs.mark(overshootKey{int32(r.rule), r.id}, by)
		f.overs.bounds.Observe(o.Bound)
	}
	switch {
	case a.CloseAt > c.Closure.Until && a.Holds(f.now):
		c.Next = schemas.Span{CloseAt: a.CloseAt, Until: a.Until, Early: true}
	default:
		a.CloseAt, a.Until = 0, 0 // it is confirmed, or overtaken
	}
	f.tellShare(tr, c)
}
