package kafkalink

import (
	"context"
	"time"

	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// minDelay is how long a request waits for others when it is quiet. Under load the delay doubles up to Config.MaxDelay,
// because a produce costs tens of microseconds of CPU whatever is in it.
const minDelay = time.Millisecond

// flush moves what was recorded to the queues until ctx ends, and closes them. While nothing is recorded it sleeps.
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
		if sleep(ctx, delay) != nil {
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

// delay returns how long to wait for more, given how long it was the last time and how long that is past.
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
