package kafkalink

import (
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// applier is the Handler of a Link: it applies decisions to the Set.
type applier struct {
	*Link
	behind atomic.Int64 // followers that have not caught up yet
}

func (a *applier) Partitions(n int) {
	a.behind.Store(int64(n))
	a.set.Partitions(n)
	a.counts.partitions.Store(int64(n))
}

func (a *applier) Decisions(_ int, ds []schemas.Decision, _ time.Time) {
	a.set.Apply(ds)
	a.counts.decisions.Add(uint64(len(ds)))
	if a.config.Observe != nil {
		now := time.Now()
		for i := range ds {
			a.config.Observe(ds[i], now)
		}
	}
}

func (a *applier) Heartbeat(h *schemas.Heartbeat, now time.Time) {
	a.counts.heartbeats.Add(1)
	a.set.Heartbeat(*h, now)
}

func (a *applier) CaughtUp(int) {
	if a.behind.Add(-1) == 0 {
		a.readyOnce.Do(func() { close(a.ready) })
	}
}

func (a *applier) Refused(_ int, reason string, n uint64) { a.counts.refuse(reason, n) }

func (a *applier) Restarted(int) { a.counts.restarts.Add(1) }
