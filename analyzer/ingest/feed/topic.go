package feed

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// How a topic is read.
const (
	fetchWait   = 250 * time.Millisecond
	commitEvery = time.Second
	joinPause   = time.Second
	// corruptTries is how often a batch that stays corrupt is fetched before it is skipped. That takes some four seconds,
	// because nobody sends the lines of a foreign topic again.
	corruptTries = 10
)

// ErrRecreated says that a foreign topic ends before the position that the group has committed. The topic was deleted and
// created again, and its offsets mean other records now. Read it under another group, which starts at its beginning.
var ErrRecreated = errors.New("topic ends before the group's position: it was created anew; use another group")

// Membership is a place in the consumer group of one topic, as kafkaio.Group is.
type Membership interface {
	Next(ctx context.Context) (*kafkaio.Generation, error)
	Close() error
}

// Topic is a foreign topic that a consumer group reads: as many members as it has partitions can share it.
type Topic struct {
	Feed    *Feed
	Fetcher kafkaio.Fetcher
	Name    string
	Group   string // part of the sources' identity: two groups that read one topic count its lines twice
	Join    func() (Membership, error)
	Count   func(ctx context.Context) (int, error) // of the topic's partitions, as kafkaio.Client.Partitions; nil: nobody looks

	presence presence
	every    time.Duration // between looks for the topic; 0 is lookEvery
}

// topicSource returns the identity of a partition as a source.
func topicSource(group, topic string, partition int) schemas.ProducerID {
	sum := sha256.Sum256(fmt.Appendf(nil, "floodgate ingest 1\x00kafka\x00%s\x00%s\x00%d", group, topic, partition))
	return schemas.ProducerID(sum[:])
}

// Run reads the partitions that the group assigns, until ctx ends. It commits Source.Acked of each to the group.
func (t *Topic) Run(ctx context.Context) (err error) {
	member, err := t.Join()
	if err != nil {
		return fmt.Errorf("topic %s: %w", t.Name, err)
	}
	defer func() { err = errors.Join(err, member.Close()) }()
	ctx, stop := context.WithCancel(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer stop()
	t.Feed.addTopic(t)
	looking.Go(func() { t.look(ctx) })
	for {
		gen, err := member.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && kafkaio.Temporary(err):
			t.Feed.c.Logger.Warn("cannot join group, trying again", "topic", t.Name, "error", err)
			_ = kafkaio.Sleep(ctx, joinPause) // whether ctx has ended is seen above
			continue
		case err != nil:
			return fmt.Errorf("topic %s: %w", t.Name, err)
		}
		all, leader := gen.Assigned()
		if !leader {
			all = unknown
		}
		t.presence.joined(gen.Partitions, all)
		t.Feed.c.Logger.Info("reading", "topic", t.Name, "partitions", gen.Partitions)
		if err := t.generation(ctx, gen); err != nil {
			return fmt.Errorf("topic %s: %w", t.Name, err)
		}
	}
}

// generation reads the partitions of one assignment until it is over.
func (t *Topic) generation(ctx context.Context, gen *kafkaio.Generation) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c := &committer{gen: gen, committed: make(map[int]int64), sources: make(map[int]*Source)}
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range gen.Partitions {
		g.Go(func() error { return t.partition(ctx, c, p, gen.Committed[p]) })
	}
	g.Go(func() error {
		tick := time.NewTicker(commitEvery)
		defer tick.Stop()
		for {
			select {
			case <-gen.Done():
				stop()
				return nil
			case <-ctx.Done():
				return nil
			case <-tick.C:
				if err := c.commit(); err != nil {
					t.Feed.c.Logger.Warn("cannot commit", "topic", t.Name, "error", err)
				}
			}
		}
	})
	err := g.Wait()
	if failed := c.commit(); failed != nil && err == nil {
		t.Feed.c.Logger.Info("cannot commit positions: lines since the last commit will be sent again", "topic", t.Name, "error", failed)
	}
	return err
}

// committer commits to the group how far each source of a generation is acknowledged.
type committer struct {
	gen       *kafkaio.Generation
	mu        sync.Mutex
	sources   map[int]*Source // guarded by mu
	committed map[int]int64   // guarded by mu
}

func (c *committer) add(partition int, s *Source, committed int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources[partition], c.committed[partition] = s, committed
}

// commit commits the positions that have moved since the last commit.
func (c *committer) commit() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	moved := make(map[int]int64)
	for p, s := range c.sources {
		if acked := s.Acked(); acked != c.committed[p] {
			moved[p] = acked
		}
	}
	if len(moved) == 0 {
		return nil
	}
	if err := c.gen.Commit(moved); err != nil {
		return err
	}
	maps.Copy(c.committed, moved)
	return nil
}

// partition reads one partition from the committed position, or from its beginning, until ctx ends.
func (t *Topic) partition(ctx context.Context, c *committer, partition int, committed int64) (err error) {
	name := fmt.Sprintf("kafka:%s/%d", t.Name, partition)
	s := t.Feed.Source(topicSource(t.Group, t.Name, partition), name, max(committed, 0))
	s.shift = lineBits
	c.add(partition, s, committed)
	defer func() {
		if failed := s.Close(); failed != nil && err == nil {
			t.Feed.c.Logger.Info("stopped before all lines were in Kafka", "error", failed)
		}
	}()
	from := committed
	if from <= 0 {
		from = kafkaio.Earliest // nothing was read yet, so that nothing is lost before the first record
	}
	cursor := kafkaio.NewCursor(t.Fetcher, kafkaio.CursorConfig{
		Topic: t.Name, Partition: partition, Offset: from, MaxWait: fetchWait, CorruptTries: corruptTries,
		Retry: kafkaio.Always, Logger: t.Feed.c.Logger,
	})
	for {
		b, err := cursor.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, kafkaio.ErrTruncated):
			return fmt.Errorf("%w: partition %d: %w", ErrRecreated, partition, err)
		case err != nil:
			return fmt.Errorf("partition %d: %w", partition, err)
		}
		t.presence.reached(partition)
		if b.HighWater >= 0 {
			s.End(b.HighWater)
		}
		if len(b.Records) == 0 && len(b.Skipped) == 0 {
			continue
		}
		if s.records(ctx, b) != nil {
			return nil // ctx has ended: what was read is read again
		}
	}
}
