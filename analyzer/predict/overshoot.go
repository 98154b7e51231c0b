package predict

import (
	"math"

	"github.com/509da70d/floodgate/analyzer/histogram"
	"github.com/509da70d/floodgate/analyzer/policy"
)

// maxOvershoots is how many closures may wait for their end. Further ones are observed at once, with the overshoot that they have then.
const maxOvershoots = 4096

// overshoots observes how far each closure's caller went over its limit. That is known only when the closure has ended, because gates close
// a little later than the analyzer. Closures that a new limit has made are left out, and so is what comes after a new limit: that would
// be measured by a limit that the caller did not have. It is for statistics alone, and is not stored.
type overshoots struct {
	seen   *histogram.Histogram
	by     [policy.Mechanisms]Sum // the same, by what held the caller to its limit
	bounds *histogram.Histogram   // the bound of the overshoot, of each close of a caller whose demand was known
	open   map[overshootKey]overshoot
	ends   int64 // log time: no closure in open ends before
}

type overshootKey struct {
	rule int32
	id   string
}

type overshoot struct {
	closeAt, until int64
	limit          int64
	ratio          float64 // the largest so far
	by             policy.Mechanism
}

// Sum is how many values there were, and their sum.
type Sum struct {
	Count uint64
	Sum   float64
}

func newOvershoots() overshoots {
	return overshoots{seen: histogram.New(histogram.Ratios()), bounds: histogram.New(histogram.Ratios()), open: make(map[overshootKey]overshoot), ends: math.MaxInt64}
}

// note notes by how much a caller is over its limit, under a closure that holds. closes says that an entry has just closed the caller.
func (o *overshoots) note(key overshootKey, c policy.Closure, closes bool, limit int64, ratio float64, now int64) {
	o.settle(now)
	old, known := o.open[key]
	next := overshoot{closeAt: c.CloseAt, until: c.Until, limit: limit, ratio: ratio}
	switch {
	case closes && known: // old is the closure before, which ended early
		o.observe(old)
	case closes && len(o.open) >= maxOvershoots:
		o.observe(next)
		return
	case closes:
	case !known || old.closeAt != c.CloseAt || old.limit != limit:
		return
	default:
		next.ratio, next.by = max(ratio, old.ratio), old.by
	}
	o.open[key] = next
	o.ends = min(o.ends, c.Until)
}

// mark notes what held the caller of a closure that holds to its limit. A closure without a mark counts as policy.Reactive.
func (o *overshoots) mark(key overshootKey, by policy.Mechanism) {
	if v, ok := o.open[key]; ok {
		v.by = by
		o.open[key] = v
	}
}

// observe adds a closure that has ended to the statistics.
func (o *overshoots) observe(v overshoot) {
	o.seen.Observe(v.ratio)
	o.by[v.by].Count++
	o.by[v.by].Sum += v.ratio
}

// settle observes the closures that have ended at log time now.
func (o *overshoots) settle(now int64) {
	if now < o.ends {
		return
	}
	o.ends = math.MaxInt64
	for key, v := range o.open {
		if v.until <= now {
			o.observe(v)
			delete(o.open, key)
			continue
		}
		o.ends = min(o.ends, v.until)
	}
}

// Overshoot notes by how much a caller is over its limit, as a share of it, under a closure that holds at an entry's time. closes says that
// this entry has closed the caller.
func (p *Predictor) Overshoot(rule int32, id string, c policy.Closure, closes bool, limit int64, ratio float64, at int64) {
	p.overs.note(overshootKey{rule, id}, c, closes, limit, ratio, at)
}

// EndOvershoots also observes closures that have not ended. Call it when no more entries come, or when the indexes of rules change.
func (p *Predictor) EndOvershoots() { p.overs.settle(math.MaxInt64) }

// Stats is what a Predictor has seen since New.
type Stats struct {
	Tracked int                    // rows whose next close may be predicted
	Overs   histogram.Snapshot     // the overshoot of each close by an entry that has ended
	OversBy [policy.Mechanisms]Sum // the same, by what held the caller to its limit
	Bounds  histogram.Snapshot     // the bound of the overshoot, of each close of a caller whose demand was known
}

// Stats returns a copy of the counters at log time now.
func (p *Predictor) Stats(now int64) Stats {
	p.overs.settle(now)
	return Stats{Tracked: p.trackers.used, Overs: p.overs.seen.Snapshot(), OversBy: p.overs.by, Bounds: p.overs.bounds.Snapshot()}
}
