package analyzer

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// poolSender sends tallies and levels of pools to the topic of requests. The owner never waits for it. One produce request at most is in
// flight for each partition. While one fails, newer tallies and levels take the place of those that wait.
type poolSender struct {
	log    kafkaio.Producer
	topic  string
	lease  func(now time.Time) bool
	logger *slog.Logger

	ctx     context.Context //nolint:containedctx // of the requests in flight
	stop    context.CancelFunc
	sending sync.WaitGroup
	mu      sync.Mutex // protects what follows
	pools   *outbox.Pools
	stopped bool

	sent    atomic.Uint64 // frames
	dropped atomic.Uint64 // tallies and levels that newer ones have replaced
}

func newPoolSender(log kafkaio.Producer, c OwnerConfig) *poolSender {
	var id schemas.ProducerID
	_, _ = rand.Read(id[:]) // it cannot fail
	s := &poolSender{
		log: log, topic: c.Requests, lease: c.Lease, logger: c.Logger,
		pools: outbox.NewPools(c.Fold.Key, id, c.Fold.Partition, max(c.Fold.Partitions, 1)),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// offer passes on what the fold has made.
func (s *poolSender) offer(tallies []fold.PoolTally, levels []fold.PoolLevel) {
	if len(tallies)+len(levels) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	targets, dropped := s.pools.Offer(tallies, levels)
	s.dropped.Add(uint64(dropped)) // ≥ 0
	if s.stopped {
		return
	}
	for _, target := range targets {
		s.sending.Go(func() { s.send(target) })
	}
}

// poolRetry is the time between two attempts to send.
const poolRetry = 100 * time.Millisecond

// send sends what waits for a partition, until nothing does or the sender is closed. It begins each attempt with the newest.
func (s *poolSender) send(target int) {
	for failed := false; s.ctx.Err() == nil; {
		if s.lease != nil && !s.lease(time.Now()) {
			s.pause()
			continue
		}
		now := time.Now().UnixNano()
		s.mu.Lock()
		value, err := s.pools.Frame(target, now)
		s.mu.Unlock()
		if err == nil {
			_, err = s.log.Produce(s.ctx, s.topic, target, kafkaio.Message{Time: now, Value: value})
		}
		if err != nil {
			if !failed && s.ctx.Err() == nil {
				s.logger.Warn("cannot send tallies of pools, trying again", "to", target, "error", err)
			}
			failed = true
			s.pause()
			continue
		}
		s.sent.Add(1)
		s.mu.Lock()
		more := s.pools.Acked(target)
		s.mu.Unlock()
		if !more {
			return
		}
	}
}

// pause waits before the next attempt.
func (s *poolSender) pause() {
	select {
	case <-s.ctx.Done():
	case <-time.After(poolRetry):
	}
}

// close ends what is in flight, and waits for it.
func (s *poolSender) close() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.stop()
	s.sending.Wait()
}
