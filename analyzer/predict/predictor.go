package predict

import (
	"math"

	"github.com/509da70d/floodgate/analyzer/hold"
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/heap"
)

// DefaultLagCap is the largest lag at which closes are predicted, as a share of the window, unless Options say another.
const DefaultLagCap = 0.25

// Options configures a Predictor.
type Options struct {
	MaxPredict rules.Predict // the upper bound of what any rule predicts
	LagCap     float64       // the largest lag at which closes are predicted, as a share of the window
}

// Predicts reports whether closes of a rule are predicted.
func (o Options) Predicts(r *rules.Rule) bool {
	return min(r.Predict, o.MaxPredict) > rules.PredictOff && !r.ReadsResponses()
}

// Holds reports whether callers are closed by what their requests in flight hold.
func (o Options) Holds(r *rules.Rule) bool {
	return min(r.Predict, o.MaxPredict) > rules.PredictOff && r.Hold != nil
}

// TracksFrom returns a weight. A row of the rule may have a tracker if it holds half of that weight, or half of its limit.
func (o Options) TracksFrom(r *rules.Rule) int64 {
	switch {
	case o.Predicts(r) && o.LagCap > DefaultLagCap:
		return 0 // Admitted decides by the limit
	case r.Burst > 0:
		return r.Burst
	}
	return math.MaxInt64
}

// Row is what the fold has counted of one rule and caller.
type Row struct {
	Rule      *rules.Rule
	ID        string
	State     window.State // only for reading, and only until the fold goes on
	Closure   policy.Closure
	Limit     int64
	Unlimited bool
	ByRecord  bool        // a control record closes the caller
	Early     int64       // early weight at log time
	Hold      *hold.State // requests in flight; nil if there are none. Only for reading
}

// Predictor predicts the closes of the rows of one fold. Use New. One goroutine may use it.
type Predictor struct {
	opts      Options
	read      func(row uint32) Row
	lags      lags
	producers producers
	trackers  trackers
	overs     overshoots
	plans     []Plan
	held      heap.Heap[heldRow] // rows that are held, by when that must be decided again
	ended     []Plan             // plans that end shares or predicted closures, made since the last TakePlans
	room      window.State       // scratch memory for policy.Cross
	withEarly window.State       // scratch memory: a row's state with its early weight added
}

// New returns a Predictor of rows that are identified by number. read returns a row as it is now.
func New(o Options, read func(row uint32) Row) *Predictor {
	return &Predictor{
		opts: o, read: read, lags: newLags(), overs: newOvershoots(), held: heap.New(func(a, b *heldRow) bool { return a.at < b.at }, nil),
	}
}

// Live reports whether the lag is known at log time now, so that closes can be predicted.
func (p *Predictor) Live(now int64) bool { return now < p.lags.until }

// Heard notes that a producer sent entries at log time now. newest is the newest time of these entries.
func (p *Predictor) Heard(id schemas.ProducerID, newest, now int64) {
	if p.opts.MaxPredict >= rules.PredictShares {
		p.producers.note(id, newest, now)
	}
}

// Sent is the weight of an entry, as one rule counts it.
type Sent struct {
	Row           uint32
	Rule          *rules.Rule
	Limit, Weight int64
	At, Now       int64          // the entry's time, and log time
	Total         int64          // of the window, with the weight
	Closure       policy.Closure // of the row
	Near          bool           // the row may get a tracker if it has none
}

// Admitted measures weight that was admitted. A row without a tracker gets one if it has reached the part of its limit that trackDivisor
// says, or rushes toward its limit (see rushes). Admitted reports whether the row has a tracker afterwards.
func (p *Predictor) Admitted(s *Sent) bool {
	tr := p.trackers.find(s.Row)
	if tr == nil {
		capacity := s.Rule.Window.Capacity(s.Limit)
		if !s.Near || p.trackDivisor(s.Rule, s.Now)*s.Total < capacity && !p.rushes(s.Weight, capacity) {
			return false
		}
		if tr = p.track(s.Row, s.Now); tr == nil {
			return false
		}
	}
	tr.pace.Add(s.Now, s.Now-s.At, s.Weight, p.lags.lag.Mean)
	p.noteShare(tr, s, true)
	p.trackers.touch(tr)
	return true
}

// Refused measures the weight of an entry that was blocked. It is demand under the row's rule only if that rule may have blocked it.
// Refused reports whether the row has a tracker afterwards.
func (p *Predictor) Refused(s *Sent) bool {
	tr := p.trackers.find(s.Row)
	if tr == nil {
		if !s.Near {
			return false
		}
		if tr = p.track(s.Row, s.Now); tr == nil {
			return false
		}
	}
	c, a := &s.Closure, &tr.announced
	counted := c.Nth > 0 && s.At >= c.CloseAt && s.At < integer.Add(c.Until, (c.Until-c.CloseAt)/8+p.lags.lag.Mean)
	early := a.Until > 0 && s.At >= a.CloseAt && s.At < integer.Add(a.Until, p.lags.lag.Mean)
	if counted || early || tr.share != nil && tr.share.Refuses(s.Rule, s.Limit, s.At) {
		tr.pace.Add(s.Now, s.Now-s.At, s.Weight, p.lags.lag.Mean)
	}
	p.noteShare(tr, s, false)
	p.trackers.touch(tr)
	return true
}

// trackDivisor returns n: a row is tracked from 1/n of its limit on. n is 2, or 10 where the lag is long.
func (p *Predictor) trackDivisor(r *rules.Rule, now int64) int64 {
	if p.longLag(r, now) {
		return 10
	}
	return 2
}

// longLag reports whether the lag is more than a quarter of the rule's window. A rule predicts then only if the cap of the lag was raised.
// To predict from half of the limit on would be too late. So the pace of a row is measured early, and its closes are predicted from a third
// of the limit on.
func (p *Predictor) longLag(r *rules.Rule, now int64) bool {
	return 4*p.lags.lag.Mean > r.Window.Length(now)
}

// tooFar reports whether a row is too far from its limit for a prediction, although it is tracked.
func (p *Predictor) tooFar(r *Row, now int64) bool {
	return p.longLag(r.Rule, now) && !r.Closure.ClosedAt(now) &&
		3*r.Rule.Window.View(r.State, r.Limit, now).Total < r.Rule.Window.Capacity(r.Limit)
}

// rushes reports whether a caller reaches half of its limit within a lag if it keeps the pace of one entry. An entry holds what one server
// got within a tick. To wait for half of the limit would be too late then.
func (p *Predictor) rushes(weight, capacity int64) bool {
	return weight > 1 && 2*weight > capacity/p.lags.ticks
}

// Change is a change of a row's closure.
type Change struct {
	Row             uint32
	Rule            *rules.Rule
	Index           int32 // of the rule
	ID              string
	Kind            policy.Transition
	Before, Closure policy.Closure
	Limit           int64
	At, Now         int64 // the entry's time, and log time
	Total           int64 // of the window
}

// Forecast is what is predicted of a caller whose closure changed.
type Forecast struct {
	Next            schemas.Span     // the predicted closure after this one, if it was published and still holds
	Share           *schemas.Share   // the caller's newest share, or nil; nobody may change it
	Covered         bool             // the share covers the closure, so that gates need not learn of it: see policy.Sharing.Covered
	Rate            float64          // the caller's demand, weight per second; 0 where it is not measured. Then the next two are 0, too
	Expected, Bound float64          // for a close: its overshoot, as in schemas.Evidence
	By              policy.Mechanism // for a close: what held the caller to its limit
}

// Changed notes a changed closure in the row's tracker, and returns the forecast. The forecast is zero if the row has no tracker.
func (p *Predictor) Changed(c *Change) (f Forecast) {
	tr := p.trackers.find(c.Row)
	if tr == nil {
		return f
	}
	a := &tr.announced
	if tr.held != nil {
		*tr.held = policy.Held{} // what was counted holds the caller from now on
	}
	tr.pace.Advance(c.Now, p.lags.lag.Mean)
	rate := tr.pace.Rate()
	f.Rate = float64(rate) / 1000
	by := policy.Reactive
	if a.Until > 0 && a.CloseAt <= integer.Add(c.At, p.lags.lag.Mean) {
		by = policy.Predicted // the early close began in time, or at most a lag late, so gates hold it
	}
	if c.Kind == policy.Closed && p.Live(c.Now) {
		o := policy.BoundOf(c.Rule, c.Limit, rate, p.lags.lag, by)
		if s := tr.share; s != nil && s.Covers(c.Rule, c.Limit, c.At) {
			o, by = policy.ShareBound(c.Rule, c.Limit, p.gates(c.Now)), policy.Shared
		}
		f.By, f.Expected, f.Bound = by, o.Expected, o.Bound
		p.overs.mark(overshootKey{c.Index, c.ID}, by)
		p.overs.bounds.Observe(o.Bound)
	}
	switch {
	case a.CloseAt > c.Closure.Until && a.Holds(c.Now):
		f.Next = schemas.Span{CloseAt: a.CloseAt, Until: a.Until, Early: true}
	default:
		a.CloseAt, a.Until = 0, 0 // the early close is confirmed, or is over
	}
	p.updateShare(tr, c, &f)
	return f
}

// End plans to end the predicted closure and the share that gates hold of a row, and frees the row's tracker.
func (p *Predictor) End(row uint32, now, offset int64) {
	tr := p.trackers.find(row)
	if tr == nil {
		return
	}
	r := p.read(row)
	if tr.announced.Holds(now) || tr.held != nil && tr.held.Covers(now) || tr.share != nil && tr.share.Share(r.Rule, r.Limit, now) != nil {
		p.planEnd(&r, now, offset)
	}
	p.trackers.remove(row)
}

// Forget frees the tracker of a row that is dropped.
func (p *Predictor) Forget(row uint32) { p.trackers.remove(row) }

// Moved holds the trackers of rows that get other numbers.
type Moved struct{ trackers trackers }

// Move takes away all trackers. Adopt gives a tracker back to a row that is still predicted.
func (p *Predictor) Move() *Moved {
	m := &Moved{p.trackers}
	p.trackers = m.trackers.emptied()
	p.held.Clear()
	return m
}

// Adopt gives row to the tracker that row from had before Move, and reports whether there was one.
func (p *Predictor) Adopt(to uint32, m *Moved, from uint32) bool {
	tr := m.trackers.find(from)
	if tr == nil {
		return false
	}
	now := p.trackers.add(to)
	now.pace, now.announced, now.held, now.lastNear = tr.pace, tr.announced, tr.held, tr.lastNear
	if now.held != nil && now.held.Until > 0 {
		p.held.Add(heldRow{now.held.Next(), to})
	}
	p.trackers.putShare(now, tr.share)
	return true
}

// EndLasting plans to end the share that gates hold of a row whose rule was removed or changed, and the closure by its requests in flight. r
// is the row under the old rule. Other early closures are over within two seconds.
func (p *Predictor) EndLasting(m *Moved, from uint32, r *Row, now, offset int64) {
	tr := m.trackers.find(from)
	if tr == nil {
		return
	}
	if tr.held != nil && tr.held.Covers(now) || tr.share != nil && tr.share.Share(r.Rule, r.Limit, now) != nil {
		p.planEnd(r, now, offset)
	}
}

// Ahead is what was measured and published ahead of time about a row. The zero value is nothing.
type Ahead struct {
	Rate  float64        // demand, weight per second
	Span  schemas.Span   // the predicted closure that was published last; it may be over
	Held  bool           // requests in flight hold the caller in that span
	Share *schemas.Share // the newest, if it holds
}

// Ahead returns what is known of a row under a rule and limit at log time now. It changes nothing.
func (p *Predictor) Ahead(row uint32, r *rules.Rule, limit, now int64) (a Ahead) {
	tr := p.trackers.find(row)
	if tr == nil {
		return a
	}
	pace := tr.pace
	pace.Advance(now, p.lags.lag.Mean)
	a.Rate = float64(pace.Rate()) / 1000
	if tr.held != nil && tr.held.Until > 0 {
		a.Span, a.Held = schemas.Span{CloseAt: tr.held.CloseAt, Until: tr.held.Until, Early: true}, true
	}
	if tr.announced.Until > 0 {
		a.Span = schemas.Span{CloseAt: tr.announced.CloseAt, Until: tr.announced.Until, Early: true}
	}
	if tr.share != nil {
		a.Share = tr.share.Share(r, limit, now)
	}
	return a
}
