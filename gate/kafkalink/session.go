package kafkalink

import (
	"context"
	"sync"
	"time"
)

// session is a Link's work while the number of partitions stays the same.
type session struct {
	*Link
	client     client
	partitions int
	queues     []*queue
	canaryIDs  []string // by partition

	mu     sync.Mutex
	behind int // partitions that have not been read to their end yet; protected by mu
}

func newSession(l *Link, c client, partitions int) *session {
	s := &session{
		Link: l, client: c, partitions: partitions, behind: partitions,
		queues: make([]*queue, partitions), canaryIDs: l.canaries.ids(l.config.PartitionKey, partitions),
	}
	for p := range s.queues {
		s.queues[p] = newQueue(max(l.config.Backlog/partitions, minQueue))
	}
	return s
}

// minQueue is the fewest entries that may wait for a partition.
const minQueue = 256

// run works until ctx ends or the number of partitions changes, and then drains.
func (s *session) run(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	sendCtx, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()

	var following, sending sync.WaitGroup
	following.Go(func() { s.tick(ctx) })
	following.Go(func() { s.set.RunClock(ctx) })
	following.Go(func() { s.watch(ctx, end) })
	sending.Go(func() { s.flush(ctx) })
	for p := range s.partitions {
		following.Go(func() { newFollower(s, p).run(ctx) })
		sending.Go(func() { newSender(s, p).run(sendCtx) })
	}
	following.Go(func() {
		if <-ctx.Done(); sleep(sendCtx, s.config.Drain) == nil {
			s.config.Logger.Warn("kafka link could not send everything before it ended", "requests", s.rec.Stats().Queued)
			abandon()
		}
	})
	sending.Wait()
	abandon()
	following.Wait()
}

// tickInterval is how often the Set sweeps and looks whether decisions have gone stale.
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

// watchInterval is how often the number of partitions is looked at.
const watchInterval = 30 * time.Second

// watch ends the session when the topics have another number of partitions, because callers then hash elsewhere.
func (s *session) watch(ctx context.Context, end func()) {
	for sleep(ctx, watchInterval) == nil {
		if n, err := s.askPartitions(ctx, s.client); err == nil && n != s.partitions {
			s.config.Logger.Info("kafka topics changed", "partitions", n, "before", s.partitions)
			end()
			return
		}
	}
}

// caughtUp says that a follower has applied what was in the log when it began.
func (s *session) caughtUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.behind--; s.behind == 0 {
		s.readyOnce.Do(func() { close(s.ready) })
	}
}
