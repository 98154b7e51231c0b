package kafkalink

import (
	"context"
	"sync"
	"time"

	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// session is a Link's work while the number of partitions stays the same.
type session struct {
	*Link
	partitions int
	queues     []*queue
	canaryIDs  []string // by partition
}

func newSession(l *Link, partitions int) *session {
	s := &session{
		Link: l, partitions: partitions,
		queues: make([]*queue, partitions), canaryIDs: l.canaries.ids(l.config.PartitionKey, partitions),
	}
	tables := newTables(l.rec.Holds())
	for p := range s.queues {
		s.queues[p] = newQueue(max(l.config.Backlog/partitions, minQueue), tables)
	}
	return s
}

// minQueue is the smallest size of a partition's queue, in entries.
const minQueue = 256

// run works until ctx ends. Then it sends what the queues hold, for at most Config.Drain.
func (s *session) run(ctx context.Context) {
	sendCtx, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()

	var beside, sending sync.WaitGroup
	beside.Go(func() { s.tick(ctx) })
	beside.Go(func() { s.set.RunClock(ctx) })
	sending.Go(func() { s.flush(ctx) })
	for p := range s.partitions {
		sending.Go(func() { newSender(s, p).run(sendCtx) })
	}
	beside.Go(func() {
		if <-ctx.Done(); kafkaio.Sleep(sendCtx, s.config.Drain) == nil {
			s.warnUnsent(s.rec.Stats().Queued)
			abandon()
		}
	})
	sending.Wait()
	abandon()
	beside.Wait()
}

// tickInterval is the time between two sweeps of the Set, in which it also finds partitions whose decisions are stale.
const tickInterval = 250 * time.Millisecond

func (s *session) tick(ctx context.Context) {
	t := time.NewTicker(tickInterval)
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			s.set.Tick(now)
		case <-ctx.Done():
			return
		}
	}
}

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
