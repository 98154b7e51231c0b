package predict

import (
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// Plan is a decision ahead of time about one rule and caller. If a counted closure is in force, it is the decision's first span, and the
// predicted one is Next. Otherwise the predicted one is the first span, and Early is set. The publisher adds the partition, the lag, the
// epoch and the sequence number.
type Plan struct {
	Rule     *rules.Rule
	Caller   schemas.Caller
	Decision schemas.Decision
	At       int64 // Unix nanoseconds: log time
	Offset   int64 // of the record that was folded last
	Shares   bool  // the plan gives a share, or ends one
}

// TakePlans predicts the next close of each caller that sent something since it was last called. It returns the predictions that gates must
// learn of, in log order. Call it after each batch of frames, with log time and the offset of the last record. The slice is good until the
// next call.
func (p *Predictor) TakePlans(now, offset int64) []Plan {
	p.plans = append(p.plans[:0], p.ended...)
	p.ended = p.ended[:0]
	for p.held.Len() > 0 && p.held.At(0).at <= now {
		if tr := p.trackers.find(p.held.Remove(0).row); tr != nil && tr.held != nil && tr.held.Covers(now) {
			p.trackers.touch(tr)
		}
	}
	touched := p.trackers.touched
	for _, tr := range touched {
		tr.touched = false
		switch {
		case tr.used && tr.held != nil:
			p.planHeld(tr, now, offset)
		case tr.used && p.Live(now):
			p.plan(tr, now, offset)
		}
	}
	clear(touched)
	p.trackers.touched = touched[:0]
	p.sweep(len(touched)+sweptTracked, now)
	return p.plans
}

// plan predicts the next close of one row.
func (p *Predictor) plan(tr *tracker, now, offset int64) {
	r := p.read(tr.row)
	if r.Unlimited || r.ByRecord || p.tooFar(&r, now) {
		return
	}
	o := policy.Outlook{
		Rule: r.Rule, Limit: r.Limit, State: r.State, Closure: r.Closure, Pace: &tr.pace, Now: now, Lag: p.lags.lag,
		LagCap: p.lagCap(r.Rule, now), Room: p.room,
	}
	if r.Early > 0 {
		p.withEarly = append(p.withEarly[:0], r.State...)
		p.withEarly, _ = r.Rule.Window.Add(p.withEarly, r.Limit, now, r.Early)
		o.State = p.withEarly
	}
	tr.pace.Advance(now, p.lags.lag.Mean)
	shares := p.planShare(tr, &r, now)
	publish := false
	if s := tr.share; s == nil || integer.Add(now, p.lags.lag.Mean) < s.Since() {
		var next policy.Announced
		next, publish = o.Predict(tr.announced)
		if p.room = o.Room; s != nil && publish && next.CloseAt >= s.Since() {
			publish = false
		} else {
			tr.announced = next
		}
	}
	if !publish && !shares {
		return
	}
	d := decide(tr, &r, now)
	d.Evidence.AsOfOffset = offset
	rate := tr.announced.Demand
	if shares {
		rate = tr.pace.Rate()
	}
	bound := policy.BoundOf(r.Rule, r.Limit, rate, p.lags.lag, policy.Predicted)
	if s := tr.share; s != nil && s.Since() < integer.Add(now, p.lags.lag.Mean) {
		bound = policy.ShareBound(r.Rule, r.Limit, p.gates(now))
	}
	d.Evidence.Rate, d.Evidence.Expected, d.Evidence.Bound = float64(rate)/1000, bound.Expected, bound.Bound
	p.plans = append(p.plans, Plan{Rule: r.Rule, Caller: d.Caller, Decision: d, At: now, Offset: offset, Shares: shares})
}

// lagCap is the largest lag at which anything is predicted under a rule.
func (p *Predictor) lagCap(rule *rules.Rule, now int64) int64 {
	return int64(p.opts.LagCap * float64(rule.Window.Length(now)))
}

// decide returns the decision for the row's present state: its counted closure if gates need it, the announced early close, and its share.
func decide(tr *tracker, r *Row, now int64) schemas.Decision {
	s, a := tr.share, &tr.announced
	counted := r.Closure
	var span schemas.Span
	if a.Holds(now) {
		span = schemas.Span{CloseAt: a.CloseAt, Until: a.Until, Early: true}
	}
	early := false
	switch needed := counted.ClosedAt(now) && (s == nil || s.IsPublished(counted.Until)); {
	case needed:
	case span.Until > 0:
		counted, early = policy.Closure{CloseAt: span.CloseAt, Until: span.Until}, true
	default:
		counted.Until = min(counted.Until, counted.CloseAt) // the caller opens
	}
	d := r.decision(counted, now)
	if d.Early = early; !early && counted.ClosedAt(now) {
		d.Next = span
	}
	if s != nil {
		d.Share = s.Share(r.Rule, r.Limit, now)
	}
	return d
}

// decision returns a decision about the row whose closure is c.
func (r *Row) decision(c policy.Closure, now int64) schemas.Decision {
	count := r.Rule.Window.View(r.State, r.Limit, now)
	return policy.Decision(r.Rule, schemas.Caller{Kind: r.Rule.Kind, ID: r.ID}, c, now, r.Limit, count)
}

// planEnd plans a decision with nothing but the counted closure of a row. It ends the predicted closure and the share that gates hold.
func (p *Predictor) planEnd(r *Row, now, offset int64) {
	c := r.Closure
	if !c.ClosedAt(now) {
		c.Until = min(c.Until, c.CloseAt)
	}
	d := r.decision(c, now)
	p.ended = append(p.ended, Plan{Rule: r.Rule, Caller: d.Caller, Decision: d, At: now, Offset: offset, Shares: true})
}
