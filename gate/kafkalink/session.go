package kafkalink

import (
	"context"
	"sync"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// session is a Link's work while the number of partitions stays the same.
type session struct {
	*Link
	client     client
	partitions int
	queues     []*queue
	canaryIDs  []string // by partition
}

func newSession(l *Link, c client, partitions int) *session {
	s := &session{
		Link: l, client: c, partitions: partitions,
		queues: make([]*queue, partitions), canaryIDs: l.canaries.ids(l.config.PartitionKey, partitions),
	}
	for p := range s.queues {
		s.queues[p] = newQueue(max(l.config.Backlog/partitions, minQueue))
	}
	return s
}

// minQueue is the smallest size of a partition's queue, in entries.
const minQueue = 256

// run works until ctx ends or the number of partitions changes. Then it sends what the queues hold, for at most Config.Drain.
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
	handler := &applier{Link: s.Link}
	handler.Partitions(s.partitions)
	for p := range s.partitions {
		following.Go(func() { s.follow(ctx, p, handler) })
		sending.Go(func() { newSender(s, p).run(sendCtx) })
	}
	following.Go(func() {
		if <-ctx.Done(); kafkaio.Sleep(sendCtx, s.config.Drain) == nil {
			s.config.Logger.Warn("kafka link could not send everything before it ended", "requests", s.rec.Stats().Queued)
			abandon()
		}
	})
	sending.Wait()
	abandon()
	following.Wait()
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

// watchInterval is the time between two checks of the number of partitions.
const watchInterval = 30 * time.Second

// watch ends the session when the topics have another number of partitions, because callers then hash elsewhere.
func (s *session) watch(ctx context.Context, end func()) {
	for kafkaio.Sleep(ctx, watchInterval) == nil {
		if n, err := s.askPartitions(ctx, s.client); err == nil && n != s.partitions {
			s.config.Logger.Info("kafka topics changed", "partitions", n, "before", s.partitions)
			end()
			return
		}
	}
}

// follow follows one partition of decisions until ctx ends.
func (s *session) follow(ctx context.Context, partition int, h Handler) {
	_ = newFollower(s.client, followerConfig{ // it ends with ctx only
		topic: s.config.Topics.Decisions, partition: partition, handler: h, canary: s.canaries.answer, health: &s.health, logger: s.config.Logger,
	}).run(ctx)
}
