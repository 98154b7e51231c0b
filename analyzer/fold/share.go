package fold

import (
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

// maxShares is how many rows may have shares, or be close to having them: as many as a gate takes.
const maxShares = 16_384

// gives reports whether callers of a rule may have shares.
func (f *Fold) gives(r *rules.Rule, limit int64) bool {
	return min(r.Predict, f.opts.Predict) >= rules.PredictShares && policy.PermitsOf(r, limit).Whole > 0
}

// refusesShare reports whether gates may refuse a row's requests at t for want of permits.
func (f *Fold) refusesShare(tr *tracker, t int64) bool {
	if tr.share == nil {
		return false
	}
	rule := f.set.Rules[tr.row.rule]
	limit, _ := f.limitOf(rule, tr.row)
	return tr.share.Refuses(rule, limit, t)
}

// noteShare measures what a row with a share is asked for, in an entry at t.
func (f *Fold) noteShare(tr *tracker, t, weight int64, admitted bool) {
	if tr.share == nil {
		return
	}
	rule := f.set.Rules[tr.row.rule]
	limit, _ := f.limitOf(rule, tr.row)
	tr.share.Asked(rule, limit, t, weight, admitted)
}

// tellShare tells a row's share of a change of its closure, and the change of the share. A row begins to be measured for a share when
// it closes.
func (f *Fold) tellShare(tr *tracker, c *Change) {
	s := tr.share
	if s == nil {
		if c.Kind != policy.Closed || !f.gives(c.Rule, c.Limit) || f.trackers.shares >= maxShares {
			return
		}
		s = new(policy.Sharing)
		f.trackers.putShare(tr, s)
		s.Asked(c.Rule, c.Limit, c.At, min(c.Count.Total, c.Rule.Window.Capacity(c.Limit)), true)
	}
	if c.Kind == policy.Closed {
		s.Closed(c.Rule, c.Before, c.Closure)
	}
	c.Share = s.Share(c.Rule, c.Limit, f.now)
	o := f.shareOutlook(tr, c.Rule, c.Limit)
	o.Closure = c.Closure
	if c.Covered = s.Covered(&o, c.Count.Total); !c.Covered {
		s.Published(c.Closure.Until)
	}
}

// gates returns how many servers were heard of late.
func (f *Fold) gates() int64 {
	_, gates := f.heard.live(f.now, f.lags.lag.Silence())
	return gates
}

// shareOutlook returns what a row's share is decided on.
func (f *Fold) shareOutlook(tr *tracker, rule *rules.Rule, limit int64) policy.ShareOutlook {
	until, gates := f.heard.live(f.now, f.lags.lag.Silence())
	return policy.ShareOutlook{
		Rule: rule, Limit: limit, State: tr.row.state, Closure: tr.row.closure, Rate: tr.pace.Rate(), Now: f.now, AsOf: f.now - tr.pace.Age(),
		Heard: until, Gates: gates, Lag: f.lags.lag, LagCap: f.lagCap(rule),
	}
}

// lagCap is the largest lag at which anything is predicted under a rule.
func (f *Fold) lagCap(rule *rules.Rule) int64 {
	return int64(f.opts.PredictLagCap * float64(rule.Window.Length(f.now)))
}

// planShare decides on a row's share, and reports whether gates must learn something: of the share, or of a closure for which its
// permits are not enough.
func (f *Fold) planShare(tr *tracker, rule *rules.Rule, limit int64) (publish bool) {
	s := tr.share
	if s == nil {
		return false
	}
	o := f.shareOutlook(tr, rule, limit)
	publish = s.Step(&o)
	if c := tr.row.closure; c.ClosedAt(f.now) && !s.IsPublished(c.Until) && !s.Covered(&o, rule.Window.View(tr.row.state, limit, f.now).Total) {
		s.Published(c.Until)
		publish = true
	}
	if a := &tr.announced; a.Until > 0 && a.CloseAt >= s.Since() {
		a.CloseAt, a.Until = 0, 0
	}
	return publish
}

// decide returns the decision about a row as all is now: its counted closure, if gates need it, what was announced, and its share.
func (f *Fold) decide(tr *tracker, rule *rules.Rule, limit int64, count window.Count) schemas.Decision {
	r, s, a := tr.row, tr.share, &tr.announced
	counted := r.closure
	var span schemas.Span
	if a.Holds(f.now) {
		span = schemas.Span{CloseAt: a.CloseAt, Until: a.Until, Early: true}
	}
	early := false
	switch needed := counted.ClosedAt(f.now) && (s == nil || s.IsPublished(counted.Until)); {
	case needed:
	case span.Until > 0:
		counted, early = policy.Closure{CloseAt: span.CloseAt, Until: span.Until}, true
	default:
		counted.Until = min(counted.Until, counted.CloseAt) // it opens
	}
	d := policy.Decision(rule, schemas.Caller{Kind: rule.Kind, ID: r.id}, counted, f.now, limit, count)
	if d.Early = early; !early && counted.ClosedAt(f.now) {
		d.Next = span
	}
	if s != nil {
		d.Share = s.Share(rule, limit, f.now)
	}
	d.Evidence.AsOfOffset = f.offset
	return d
}

// endShare plans to end the share that gates hold of a row whose rule is gone or another.
func (f *Fold) endShare(rule *rules.Rule, r *row, tr *tracker) {
	limit, _ := f.limitOf(rule, r)
	if tr == nil || tr.share == nil || tr.share.Share(rule, limit, f.now) == nil {
		return
	}
	f.planEnd(rule, r, limit)
}

// planEnd plans to tell gates what is counted of a row, and nothing else.
func (f *Fold) planEnd(rule *rules.Rule, r *row, limit int64) {
	c := r.closure
	if !c.ClosedAt(f.now) {
		c.Until = min(c.Until, c.CloseAt)
	}
	caller := schemas.Caller{Kind: rule.Kind, ID: r.id}
	d := policy.Decision(rule, caller, c, f.now, limit, rule.Window.View(r.state, limit, f.now))
	f.ended = append(f.ended, Plan{Rule: rule, Caller: caller, Decision: d, At: f.now, Offset: f.offset, Shares: true})
}

// endAhead ends what gates were told ahead of time about a row, and what was measured for it.
func (f *Fold) endAhead(rule *rules.Rule, r *row) {
	tr := f.trackers.find(r)
	if tr == nil {
		return
	}
	limit, _ := f.limitOf(rule, r)
	if tr.announced.Holds(f.now) || tr.share != nil && tr.share.Share(rule, limit, f.now) != nil {
		f.planEnd(rule, r, limit)
	}
	f.trackers.remove(r)
}

// putShare gives a tracker a share, which may be nil. It had none.
func (t *trackers) putShare(tr *tracker, s *policy.Sharing) {
	if tr.share = s; s != nil {
		t.shares++
	}
}
