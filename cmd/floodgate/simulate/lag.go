package simulate

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Lag says how long each way takes, such as that from a server to the log. The time of a way is evenly distributed between (1 − Spread)
// and (1 + Spread) times its mean. What sets out first arrives first.
type Lag struct {
	Flush      time.Duration // from the first request that waits in a server until all that wait are sent
	ToLog      time.Duration // from a server to the log
	ToAnalyzer time.Duration // from the log to the analyzer
	Publish    time.Duration // until the log has acknowledged decisions; the analyzer sends no others meanwhile
	ToGate     time.Duration // from there to a server's gates
	Spread     float64       // 0 ≤ Spread ≤ 1

	Jumps []Jump // during which the lag is another
	Stops []Stop // during which the analyzer does nothing
}

// Jump is a time in which the lag differs. Requests that are sent in it, and decisions that are published in it, take longer
// or shorter by the same factor on all ways.
type Jump struct {
	From, For time.Duration // since the start
	Lag       time.Duration // the mean from a request to its decision
}

// Stop is a time in which the analyzer does nothing: it reads no requests and publishes no decisions.
type Stop struct{ From, For time.Duration }

// Shares of the ways in a lag, and bounds.
const (
	maxFlush   = 5 * time.Millisecond // what servers wait at most: kafkalink.DefaultMaxDelay
	maxPublish = 5 * time.Millisecond
	spread     = 0.1
)

// LagOf returns the ways of a mean lag from a request until its decision is in force: a request waits half a flush on
// average, a produce of decisions takes a tenth of the rest but at most 5 ms, and the three other ways share what is left.
func LagOf(mean time.Duration) Lag {
	l := Lag{Flush: min(maxFlush, mean/5), Spread: spread}
	rest := mean - l.Flush/2
	l.Publish = min(maxPublish, rest/10)
	way := (rest - l.Publish) / 3
	l.ToLog, l.ToAnalyzer, l.ToGate = way, way, rest-l.Publish-2*way
	return l
}

// Mean returns the mean from a request until its decision is in force.
func (l *Lag) Mean() time.Duration { return l.Flush/2 + l.ToLog + l.ToAnalyzer + l.Publish + l.ToGate }

func (l *Lag) check() error { return l.checkMax(maxLag) }

// checkMax returns an error if a way takes longer than limit, or cannot be.
func (l *Lag) checkMax(limit time.Duration) error {
	for _, d := range []time.Duration{l.Flush, l.ToLog, l.ToAnalyzer, l.Publish, l.ToGate} {
		if d < 0 || d > limit {
			return fmt.Errorf("simulate: got a way of %v, want 0 to %v", d, limit)
		}
	}
	if l.Spread < 0 || l.Spread > 1 {
		return fmt.Errorf("simulate: got a spread of %v, want 0 to 1", l.Spread)
	}
	return nil
}

// maxLag is the longest way: an hour is what servers believe of a lag.
const maxLag = time.Hour

// ways draws how long things take.
type ways struct {
	Lag
	start  int64
	random *rand.Rand
}

// take returns how long a way of this mean takes for what sets out at t.
func (w *ways) take(mean time.Duration, t int64) int64 {
	d := float64(mean) * (1 + w.Spread*(2*w.random.Float64()-1))
	since := time.Duration(t - w.start)
	for _, j := range w.Jumps {
		if j.From <= since && since < j.From+j.For {
			d *= float64(j.Lag) / float64(w.Mean())
		}
	}
	return int64(d)
}

// running returns t, or the end of the stop of the analyzer in which t lies.
func (w *ways) running(t int64) int64 { return stopped(w.Stops, w.start, t) }

// stopped returns t, or the end of the stop in which t lies.
func stopped(stops []Stop, start, t int64) int64 {
	for _, s := range stops {
		if since := time.Duration(t - start); s.From <= since && since < s.From+s.For {
			t = start + int64(s.From+s.For)
		}
	}
	return t
}

// orderedWay keeps an order: what sets out later does not arrive earlier.
type orderedWay struct{ last int64 }

// arrive returns when something arrives that would arrive at t if nothing were before it.
func (l *orderedWay) arrive(t int64) int64 {
	l.last = max(l.last, t)
	return l.last
}
