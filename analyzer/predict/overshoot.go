package predict

import (
	"math"

	"github.com/509da70d/floodgate/analyzer/histogram"
	"github.com/509da70d/floodgate/analyzer/policy"
)

// maxOvershoots is how many closures may wait for their ends, to be observed. Further ones are observed at once, as they are.
const maxOvershoots = 4096

// overshoots observes by how much each closure's caller went over its limit. That is known when the closure has ended, because
// gates close a little later. Nothing of it is stored: it is for statistics alone.
type overshoots struct {
	seen   *histogram.Histogram
	by     [policy.Mechanisms]Sum // the same
	bounds *histogram.Histogram   // what was to be expected at most, of each close of a caller whose demand was known
	open   map[overshootKey]overshoot
	ends   int64 // log time: no closure in open ends before
}

type overshootKey struct {
	rule int32
	id   string
}

type overshoot struct {
	closeAt, until int64
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

// note takes note of how far a caller is over its limit, under a closure that holds.
func (o *overshoots) note(key overshootKey, c policy.Closure, ratio float64, now int64) {
	o.settle(now)
	old, known := o.open[key]
	next := overshoot{closeAt: c.CloseAt, until: c.Until, ratio: ratio}
	switch {
	case known && old.closeAt != c.CloseAt: // the one before, which ended early
		o.observe(old)
	case known:
		next.ratio, next.by = max(ratio, old.ratio), old.by
	case len(o.open) >= maxOvershoots:
		if c.CloseAt == now { // the entry that closed it: once for each closure
			o.observe(next)
		}
		return
	}
	o.open[key] = next
	o.ends = min(o.ends, c.Until)
}

// mark says what held the caller of a closure that holds to its limit; without it, that is policy.Reactive.
func (o *overshoots) mark(key overshootKey, by policy.Mechanism) {
	if v, ok := o.open[key]; ok {
		v.by = by
		o.open[key] = v
	}
}

// observe takes in what is known of a closure at its end.
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

// Overshoot notes by how much a caller is over its limit, as a share of it, under a closure that holds at an entry's time.
func (p *Predictor) Overshoot(rule int32, id string, c policy.Closure, ratio float64, at int64) {
	p.overs.note(overshootKey{rule, id}, c, ratio, at)
}

// EndOvershoots observes the closures that are still open, too: when no more entries come, or when the indexes of rules change.
func (p *Predictor) EndOvershoots() { p.overs.settle(math.MaxInt64) }

// Stats is what a Predictor has seen since New.
type Stats struct {
	Tracked int                    // rows whose next close may be predicted
	Overs   histogram.Snapshot     // the overshoot of each close that has ended
	OversBy [policy.Mechanisms]Sum // the same, by what held the caller to its limit
	Bounds  histogram.Snapshot     // the overshoot that was to be expected at most, of each close of a caller whose demand was known
}

// Stats returns a copy of the counters at log time now.
func (p *Predictor) Stats(now int64) Stats {
	p.overs.settle(now)
	return Stats{Tracked: p.trackers.used, Overs: p.overs.seen.Snapshot(), OversBy: p.overs.by, Bounds: p.overs.bounds.Snapshot()}
}
