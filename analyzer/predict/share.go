package predict

import (
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// maxShares is how many rows may have a share, or may be measured for one: as many as a gate takes.
const maxShares = 16_384

// gives reports whether callers of a rule may have shares.
func (p *Predictor) gives(r *rules.Rule, limit int64) bool {
	return min(r.Predict, p.opts.MaxPredict) >= rules.PredictShares && policy.PermitsOf(r, limit).Whole > 0
}

// noteShare notes weight that a row with a share was asked for.
func (p *Predictor) noteShare(tr *tracker, s *Sent, admitted bool) {
	if tr.share != nil {
		tr.share.Asked(s.Rule, s.Limit, s.At, s.Weight, admitted)
	}
}

// updateShare notes a changed closure in a row's share, and adds the share to the forecast. A row begins to be measured for a share when
// it closes.
func (p *Predictor) updateShare(tr *tracker, c *Change, f *Forecast) {
	s := tr.share
	if s == nil {
		if c.Kind != policy.Closed || !p.gives(c.Rule, c.Limit) || p.trackers.shares >= maxShares {
			return
		}
		s = new(policy.Sharing)
		p.trackers.putShare(tr, s)
		s.Asked(c.Rule, c.Limit, c.At, min(c.Total, c.Rule.Window.Capacity(c.Limit)), true)
	}
	if c.Kind == policy.Closed {
		s.Closed(c.Rule, c.Before, c.Closure)
	}
	f.Share = s.Share(c.Rule, c.Limit, c.Now)
	r := p.read(tr.row)
	r.Rule, r.Limit, r.Closure = c.Rule, c.Limit, c.Closure
	o := p.shareOutlook(tr, &r, c.Now)
	if f.Covered = s.Covered(&o, c.Total); !f.Covered {
		s.Published(c.Closure.Until)
	}
}

// gates returns how many servers are active.
func (p *Predictor) gates(now int64) int64 {
	_, gates := p.producers.complete(now, p.lags.lag.Silence())
	return gates
}

// shareOutlook returns the input of the decision about a row's share.
func (p *Predictor) shareOutlook(tr *tracker, r *Row, now int64) policy.ShareOutlook {
	until, gates := p.producers.complete(now, p.lags.lag.Silence())
	return policy.ShareOutlook{
		Rule: r.Rule, Limit: r.Limit, State: r.State, Closure: r.Closure, Rate: tr.pace.Rate(), Now: now, AsOf: now - tr.pace.Age(),
		Heard: until, Gates: gates, Lag: p.lags.lag, LagCap: p.lagCap(r.Rule, now),
	}
}

// planShare decides about a row's share. It reports whether gates must learn of a change of the share, or of a closure that the share does
// not cover.
func (p *Predictor) planShare(tr *tracker, r *Row, now int64) (publish bool) {
	s := tr.share
	if s == nil {
		return false
	}
	o := p.shareOutlook(tr, r, now)
	publish = s.Step(&o)
	if c := r.Closure; c.ClosedAt(now) && !s.IsPublished(c.Until) && !s.Covered(&o, r.Rule.Window.View(r.State, r.Limit, now).Total) {
		s.Published(c.Until)
		publish = true
	}
	if a := &tr.announced; a.Until > 0 && a.CloseAt >= s.Since() {
		a.CloseAt, a.Until = 0, 0
	}
	return publish
}
