package analyzer

import (
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/histogram"
	"github.com/509da70d/floodgate/analyzer/outbox"
)

// publishCounters is what PublishStats is made from. Any goroutine may read it.
type publishCounters struct {
	decisions, repeats, retries, epoch atomic.Uint64
	spared                             atomic.Uint64
	kinds                              [outbox.Kinds]atomic.Uint64
	lag, gateLag, inForce              atomic.Int64
	lastClose                          int64                                   // on the owner's clock; only the publisher uses it
	lags                               *histogram.Histogram                    // of each close, in seconds
	closedBy                           atomic.Pointer[map[outbox.RuleMode]int] // a map that nobody changes
}

func newPublishCounters() publishCounters {
	return publishCounters{lags: histogram.New(histogram.Seconds())}
}

func (n *publishCounters) stats() PublishStats {
	s := PublishStats{
		Epoch: n.epoch.Load(), Decisions: n.decisions.Load(), Repeats: n.repeats.Load(), Retries: n.retries.Load(),
		InForce: n.inForce.Load(), Lag: time.Duration(n.lag.Load()), GateLag: time.Duration(n.gateLag.Load()),
		Lags: n.lags.Snapshot(), Spared: n.spared.Load(),
	}
	if m := n.closedBy.Load(); m != nil {
		s.ClosedBy = *m
	}
	for kind := range n.kinds {
		s.Kinds[kind] = n.kinds[kind].Load()
	}
	return s
}

// lagMemory is how long a lag is shown after the last close. An older one says nothing about now: after a stop, it is that of the backlog.
const lagMemory = int64(time.Minute)

// forgetLag forgets the lag if the last close is long ago. Only the publisher calls it.
func (n *publishCounters) forgetLag(now int64) {
	if now-n.lastClose > lagMemory {
		n.lag.Store(0)
	}
}

// acknowledged counts a batch that Kafka has acknowledged, stores how many decisions are in force by rule, and smooths the lag over about
// ten closes. It calls observe, if that is not nil, for each close with its lag.
func (n *publishCounters) acknowledged(b *batch, inForce *outbox.InForce, now int64, observe func(c fold.Change, lag int64)) {
	n.decisions.Add(b.changed)
	n.repeats.Add(b.repeated)
	for kind, m := range b.kinds {
		n.kinds[kind].Add(m)
	}
	byRule := inForce.ByRule()
	n.closedBy.Store(&byRule)
	n.inForce.Store(int64(inForce.Len()))
	for _, c := range b.closes {
		lag := now - c.At
		n.lastClose = now
		n.lags.Observe(max(0, time.Duration(lag).Seconds()))
		if old := n.lag.Load(); old != 0 {
			n.lag.Store(old + (lag-old)/10)
		} else {
			n.lag.Store(lag)
		}
		if observe != nil {
			observe(c, lag)
		}
	}
}
