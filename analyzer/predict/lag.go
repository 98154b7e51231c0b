package predict

import (
	"math"
	"slices"
	"time"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
)

// lags holds the newest measurements of the lag. They come with the log: a canary carries what its sender measured last. So predictions are
// a function of the log, too.
type lags struct {
	newest [lagsKept]measuredLag // a ring
	at     int                   // index of the next one
	until  int64                 // log time from which on none of them is new enough
	lag    policy.Lag            // computed from those that are new enough
	ticks  int64                 // the lag in ticks of a recorder, at least 1
}

// measuredLag is one measurement, and when it came.
type measuredLag struct{ time, lag int64 }

const (
	lagsKept = 6
	lagsLive = int64(10 * time.Second)

	// maxLag bounds one measurement, so that a forged one can stop prediction, and nothing else.
	maxLag = int64(time.Hour)
)

func newLags() lags {
	l := lags{until: math.MinInt64}
	for i := range l.newest {
		l.newest[i].time = math.MinInt64
	}
	return l
}

// Measure notes a measured lag, in nanoseconds, that came into the log at t, in Unix nanoseconds. now is log time.
func (p *Predictor) Measure(t, lag, now int64) {
	l := &p.lags
	l.newest[l.at] = measuredLag{t, min(max(lag, 0), maxLag)}
	l.at = (l.at + 1) % lagsKept
	l.sum(max(now, t))
}

// sum computes the lag as of log time now: the median of the measurements, and the median of their distances from it. So one server whose
// clock jumps, or whose path to Kafka is slow, changes the result little.
func (l *lags) sum(now int64) {
	var kept [lagsKept]int64
	n, oldest := 0, ago(now, time.Duration(lagsLive))
	l.until = math.MinInt64
	for _, m := range l.newest {
		if m.time > oldest {
			kept[n], l.until = m.lag, max(l.until, integer.Add(m.time, lagsLive))
			n++
		}
	}
	if n == 0 {
		return
	}
	median := medianOf(kept[:n])
	for i, lag := range kept[:n] {
		kept[i] = max(lag-median, median-lag)
	}
	l.lag, l.ticks = policy.Lag{Mean: median, Deviation: medianOf(kept[:n])}, max(1, median/schemas.MergeTick)
}

// medianOf sorts some integers of at least 0, and returns their median. For an even number of them it is the mean of the two in the middle.
func medianOf(x []int64) int64 {
	slices.Sort(x)
	low, high := x[(len(x)-1)/2], x[len(x)/2]
	return low + (high-low)/2
}

// Lag returns the median of the newest measurements of the lag, and the median of their distances from it, in nanoseconds. ok is false if
// there are none of the last 10 s of log time.
func (p *Predictor) Lag(now int64) (mean, deviation int64, ok bool) {
	if !p.Live(now) {
		return 0, 0, false
	}
	return p.lags.lag.Mean, p.lags.lag.Deviation, true
}

// ago returns the time that is d before t. It does not overflow.
func ago(t int64, d time.Duration) int64 { return max(t, math.MinInt64+int64(d)) - int64(d) }
