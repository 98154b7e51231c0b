package predict

import (
	"github.com/509da70d/floodgate/analyzer/hold"
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
)

// heldRow is a row that is held, and when that must be decided again. It may be out of date: the row's tracker counts.
type heldRow struct {
	at  int64
	row uint32
}

// Followed notes that requests of a row have begun or ended, under a rule with holds. The weight of s is what they are expected to cost, of
// those that begin. A row without a tracker gets one if it is near. Followed reports whether the row has a tracker afterwards.
func (p *Predictor) Followed(s *Sent) bool {
	tr := p.trackers.find(s.Row)
	if tr == nil {
		if !s.Near {
			return false
		}
		if tr = p.track(s.Row, s.Now); tr == nil {
			return false
		}
		tr.held = new(policy.Held)
	}
	if s.Near {
		tr.lastNear = s.Now
	}
	if s.Weight > 0 {
		tr.pace.Add(s.Now, s.Now-s.At, s.Weight, p.lags.lag.Mean)
	}
	p.trackers.touch(tr)
	return true
}

// RefusedHeld measures the weight of requests that were blocked. It is demand if the row may have been held when they came. RefusedHeld
// reports whether the row has a tracker.
func (p *Predictor) RefusedHeld(s *Sent) bool {
	tr := p.trackers.find(s.Row)
	if tr == nil || tr.held == nil {
		return tr != nil
	}
	if tr.held.CloseAt <= s.At && s.At < integer.Add(tr.held.Until, p.lags.lag.Mean) {
		tr.pace.Add(s.Now, s.Now-s.At, s.Weight, p.lags.lag.Mean)
	}
	p.trackers.touch(tr)
	return true
}

// planHeld decides whether the requests in flight of a row hold the rest of its limit. It needs no lag: while the lag is unknown, the decision
// comes a lag late.
func (p *Predictor) planHeld(tr *tracker, now, offset int64) {
	r := p.read(tr.row)
	if r.Unlimited || r.ByRecord || r.Closure.ClosedAt(now) || r.Hold == nil {
		return
	}
	count := r.Rule.Window.View(r.State, r.Limit, now)
	o := policy.HeldOutlook{
		Rule: r.Rule, Count: count, Limit: r.Limit, Duration: r.Hold.Learned.Duration(), Now: now,
		Room: r.Hold.Room(r.Rule.Hold, r.Limit, count.Total, count.Start, now),
	}
	if p.Live(now) {
		tr.pace.Advance(now, p.lags.lag.Mean)
		o.Demand = policy.WeightIn(tr.pace.Rate(), p.lags.lag.Mean)
	}
	next, publish := o.Step(*tr.held)
	if !publish {
		return
	}
	closure := policy.Closure{CloseAt: next.CloseAt, Until: next.Until}
	if next.Until == 0 {
		closure = policy.Closure{CloseAt: tr.held.CloseAt, Until: min(now, tr.held.CloseAt)} // the caller opens
	} else {
		p.held.Add(heldRow{next.Next(), tr.row})
	}
	*tr.held = next
	d := r.decision(closure, now)
	d.Early, d.Held = next.Until > 0, next.Until > 0
	d.Evidence.AsOfOffset, d.Evidence.Rate = offset, float64(tr.pace.Rate())/1000
	heldEvidence(&d.Evidence, o.Room, &r.Hold.Learned)
	p.plans = append(p.plans, Plan{Rule: r.Rule, Caller: d.Caller, Decision: d, At: now, Offset: offset})
}

// heldEvidence says in a decision what requests in flight hold.
func heldEvidence(e *schemas.Evidence, room hold.Room, learned *hold.Learned) {
	e.Held, e.InFlight, e.Margin, e.Learned = room.Held, room.InFlight, room.Margin, learned.Responses
}
