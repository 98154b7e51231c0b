package series

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Samples is how many samples a Ring keeps, and Step is the time that each covers.
const (
	Samples = 900
	step    = time.Second
)

// lagUnit is what lags are rounded to: what is finer costs bytes and is not seen.
const lagUnit = 100 * time.Microsecond

// sample is one second of all partitions that were counted.
type sample struct {
	second                                     int64 // Unix time at which it begins
	covered                                    int
	requests, blocked, wouldBlock, closes, lag int64
	ended                                      int64
	overshoot                                  float64 // sum
}

// counters is what an owner had counted when the last sample was taken.
type counters struct {
	epoch                                        uint64
	requests, blocked, wouldBlock, closes, ended uint64
	overshoot                                    float64
}

// Ring keeps the samples of one analyzer. Make one with New. Any goroutine may use it.
type Ring struct {
	mu      sync.Mutex
	samples [Samples]sample  // guarded by mu: the sample of a second is at second % Samples
	last    map[int]counters // guarded by mu: of the owners that counted at the last call of Take, by partition
	at      time.Time        // guarded by mu: of the last call of Take
}

// New returns an empty Ring.
func New() *Ring { return &Ring{} }

// Source is whose samples a Ring takes. *analyzer.Analyzer is one. Its methods are safe for concurrent use.
type Source interface {
	Stats() []analyzer.OwnerStats
	Outage(now time.Time) (kafkaio.Outage, bool)
}

// Run takes a sample of an analyzer at the end of each second of the wall clock, until ctx ends.
func (r *Ring) Run(ctx context.Context, of Source) error {
	for {
		now := time.Now()
		next := time.NewTimer(now.Truncate(step).Add(step).Sub(now))
		select {
		case <-ctx.Done():
			next.Stop()
			return nil
		case <-next.C:
			now := time.Now()
			if outage, away := of.Outage(now); away {
				r.Forget(outage.Since)
			}
			r.Take(now, of.Stats())
		}
	}
}

// Forget drops the samples of all seconds that ended after a time. It is for an outage, which is noticed some seconds after it began.
func (r *Ring) Forget(after time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.samples {
		if r.samples[i].second >= after.Unix() {
			r.samples[i] = sample{}
		}
	}
}

// maxJitter is the largest difference from one second between two calls of Take that is ignored: what was counted then is the sample as
// it is. So small delays lose no counts.
const maxJitter = step / 10

// Take adds the sample of the second that ends at a time. If the time since the last call is not about a second, the sample has the mean
// of a second over that time. Seconds without a call have no sample. If a call comes so soon after a late one that both are for the same
// second, it does nothing: the next sample then has what was counted meanwhile.
func (r *Ring) Take(at time.Time, owners []analyzer.OwnerStats) {
	r.mu.Lock()
	defer r.mu.Unlock()
	elapsed := at.Sub(r.at)
	s := sample{second: at.Round(step).Unix() - 1}
	if s.second == r.at.Round(step).Unix()-1 && elapsed >= 0 && elapsed < step {
		return
	}
	seconds := 1.0
	if elapsed > 0 && (elapsed-step).Abs() > maxJitter { // not where a clock without a monotonic reading was set back
		seconds = max(elapsed, maxJitter).Seconds()
	}
	last := make(map[int]counters, len(owners))
	for i := range owners {
		o := &owners[i]
		if !o.State.Decides() {
			continue
		}
		now := countersOf(o)
		last[o.Partition] = now
		if before, ok := r.last[o.Partition]; ok && before.epoch == now.epoch {
			s.add(&before, &now, seconds, lagOf(o))
		}
	}
	r.last, r.at = last, at
	r.samples[index(s.second)] = s
}

// index is the place of a second, which may lie before 1970 if a clock says so.
func index(second int64) int64 { return (second%Samples + Samples) % Samples }

// countersOf returns what an owner has counted so far.
func countersOf(o *analyzer.OwnerStats) counters {
	c := counters{
		epoch: o.Publish.Epoch, requests: o.Fold.Requests, blocked: o.Fold.Blocked, closes: o.Fold.Closes, ended: o.Fold.Overs.Count, overshoot: o.Fold.Overs.Sum,
	}
	for i := range o.Fold.Rules {
		c.wouldBlock += o.Fold.Rules[i].WouldBlock
	}
	return c
}

// lagOf returns the lag of an owner: until gates knew a decision, or if no canary has measured that, until Kafka had it.
func lagOf(o *analyzer.OwnerStats) int64 {
	lag := o.Publish.GateLag
	if lag == 0 {
		lag = o.Publish.Lag
	}
	return int64(max(0, lag).Round(lagUnit))
}

// add adds what one owner has counted since the last sample.
func (s *sample) add(before, now *counters, seconds float64, lag int64) {
	s.covered++
	s.requests += perSecond(before.requests, now.requests, seconds)
	s.blocked += perSecond(before.blocked, now.blocked, seconds)
	s.wouldBlock += perSecond(before.wouldBlock, now.wouldBlock, seconds) // a rule that is removed takes its own count away
	s.closes += perSecond(before.closes, now.closes, seconds)
	if ended := perSecond(before.ended, now.ended, 1); ended > 0 {
		s.ended += ended
		s.overshoot += max(0, now.overshoot-before.overshoot)
	}
	s.lag = max(s.lag, lag)
}

// perSecond returns by how much a counter grew in a second.
func perSecond(before, now uint64, seconds float64) int64 {
	if now <= before {
		return 0
	}
	return int64(math.Round(float64(now-before) / seconds))
}

// Newest returns the samples of so many seconds, 1 to Samples. The last one ends between one and two seconds before now, so that all
// analyzers have taken it.
func (r *Ring) Newest(now time.Time, seconds int) apiv1.Series {
	v := empty(now, seconds)
	first := v.From.Unix()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range v.Covered {
		s := &r.samples[index(first+int64(i))]
		if s.second != first+int64(i) || s.covered == 0 {
			continue
		}
		v.Covered[i], v.Requests[i], v.Blocked[i], v.WouldBlock[i], v.Closes[i] = s.covered, s.requests, s.blocked, s.wouldBlock, s.closes
		v.LagNS[i], v.Ended[i] = s.lag, s.ended
		if s.ended > 0 {
			v.Overshoot[i] = rounded(s.overshoot / float64(s.ended))
		}
	}
	return v
}

// empty returns samples of nothing.
func empty(now time.Time, seconds int) apiv1.Series {
	n := min(max(seconds, 1), Samples)
	return apiv1.Series{
		From: now.UTC().Truncate(step).Add(-time.Duration(n+1) * step), StepNS: int64(step),
		Covered: make([]int, n), Requests: make([]int64, n), Blocked: make([]int64, n), WouldBlock: make([]int64, n), Closes: make([]int64, n),
		LagNS: make([]int64, n), Ended: make([]int64, n), Overshoot: make([]float64, n),
	}
}

// rounded returns a share with four digits behind the point.
func rounded(share float64) float64 { return math.Round(share*1e4) / 1e4 }
