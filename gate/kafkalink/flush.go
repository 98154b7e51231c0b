package kafkalink

import (
	"context"
	"time"

	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// minDelay is how long a flush waits for more requests when there are few. Under load the delay doubles up to Config.MaxDelay,
// because each produce costs tens of microseconds of CPU, however large it is.
const minDelay = time.Millisecond

// flush moves entries from the Recorder to the queues until ctx ends, and then closes the queues. While nothing is recorded
// it sleeps.
func (s *session) flush(ctx context.Context) {
	var canary <-chan time.Time
	if s.config.Canary > 0 {
		t := time.NewTicker(s.config.Canary)
		defer t.Stop()
		canary = t.C
	}
	var last time.Time
	var delay time.Duration
	for probe := 0; ; {
		var canaryAt time.Time
		select {
		case <-s.rec.Wake():
		case <-canary:
			canaryAt = time.Now()
			probe++
		case <-ctx.Done():
		}
		delay = s.delay(delay, time.Since(last))
		if kafkaio.Sleep(ctx, delay) != nil {
			break
		}
		last = time.Now()
		if !canaryAt.IsZero() {
			s.queues[probe%s.partitions].putCanary(canaryAt.UnixNano())
		}
		s.route()
	}
	s.route()
	for _, q := range s.queues {
		q.close()
	}
}

// delay returns how long to wait for more requests. last is the delay before, and since is the time since that flush.
func (s *session) delay(last, since time.Duration) time.Duration {
	if since > 2*s.config.MaxDelay {
		return minDelay
	}
	return min(max(2*last, minDelay), s.config.MaxDelay)
}

// route empties the Recorder into the queues.
func (s *session) route() {
	var dropped uint64
	s.rec.Drain(func(hash uint64, e *schemas.Entry) {
		p := schemas.Partition(s.config.PartitionKey.Hash(e.Kind, e.ID), s.partitions)
		dropped += s.queues[p].put(hash, e)
	})
	if dropped > 0 {
		s.rec.Dropped(record.Backlog, dropped)
	}
	for _, q := range s.queues {
		q.signal()
	}
}
