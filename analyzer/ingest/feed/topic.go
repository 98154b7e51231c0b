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
	corruptTry  = 20 // fetches of a batch that stays corrupt, before it is skipped
)

// ErrRecreated says that a foreign topic ends before the position that the group has committed: it was made anew, and its
// offsets mean other records now. Read it under another group, which starts at its beginning.
var ErrRecreated = errors.New("topic ends before the group's position: it was created anew; use another group")

// Fetcher reads a partition, as kafkaio.Client does.
type Fetcher interface {
	Fetch(ctx context.Context, r kafkaio.FetchRequest) (kafkaio.Batch, error)
	Range(ctx context.Context, topic string, partition int) (start, end int64, err error)
}

// Membership is a place in the consumer group of one topic, as kafkaio.Group has.
type Membership interface {
	Next(ctx context.Context) (*kafkaio.Generation, error)
	Close() error
}

// Topic is a foreign topic that is read by a consumer group: as many members as it has partitions can share it.
type Topic struct {
	Feed    *Feed
	Fetcher Fetcher
	Name    string
	Group   string // part of the sources' identity: two groups that read one topic count its lines twice
	Join    func() (Membership, error)
}

// TopicSource returns the identity of a partition as a source.
func TopicSource(group, topic string, partition int) schemas.ProducerID {
	sum := sha256.Sum256(fmt.Appendf(nil, "floodgate ingest 1\x00kafka\x00%s\x00%s\x00%d", group, topic, partition))
	return schemas.ProducerID(sum[:])
}

// Run reads the partitions that the group assigns, until ctx ends. It commits to the group what is in Kafka.
func (t *Topic) Run(ctx context.Context) (err error) {
	member, err := t.Join()
	if err != nil {
		return fmt.Errorf("topic %s: %w", t.Name, err)
	}
	defer func() { err = errors.Join(err, member.Close()) }()
	for {
		gen, err := member.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && kafkaio.Temporary(err):
			t.Feed.c.Logger.Warn("cannot join group, trying again", "topic", t.Name, "error", err)
			pause(ctx, time.Second)
			continue
		case err != nil:
			return fmt.Errorf("topic %s: %w", t.Name, err)
		}
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
		t.Feed.c.Logger.Info("positions not committed: what was sent since is sent again", "topic", t.Name, "error", failed)
	}
	return err
}

// committer tells the group how far the sources of a generation are.
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

// commit commits what has moved since the last time.
func (c *committer) commit() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	moved := make(map[int]int64)
	for p, s := range c.sources {
		if at := s.Acked(); at != c.committed[p] {
			moved[p] = at
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
	s := t.Feed.Source(TopicSource(t.Group, t.Name, partition), name, max(committed, 0))
	s.shift = lineBits
	c.add(partition, s, committed)
	defer func() {
		if failed := s.Close(); failed != nil && err == nil {
			t.Feed.c.Logger.Info("ended early", "error", failed)
		}
	}()
	r := kafkaio.FetchRequest{Topic: t.Name, Partition: partition, Offset: max(committed, 0), MaxWait: fetchWait}
	for corrupt := 0; ; {
		b, err := t.Fetcher.Fetch(ctx, r)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			if err := t.mend(ctx, s, &r, err, &corrupt); err != nil {
				return err
			}
			continue
		}
		corrupt = 0
		if b.HighWater >= 0 {
			s.End(b.HighWater)
		}
		if b.Next == r.Offset {
			continue
		}
		if s.records(ctx, b) != nil {
			return nil // ctx has ended: what was read is read again
		}
		r.Offset = b.Next
	}
}

// mend decides how to go on after a fetch that failed.
func (t *Topic) mend(ctx context.Context, s *Source, r *kafkaio.FetchRequest, err error, corrupt *int) error {
	var outside *kafkaio.RangeError
	var broken *kafkaio.CorruptError
	switch {
	case errors.As(err, &outside) && r.Offset > outside.End:
		return fmt.Errorf("%w: partition %d: got position %d, and it ends at %d", ErrRecreated, r.Partition, r.Offset, outside.End)
	case errors.As(err, &outside):
		if r.Offset > 0 {
			t.Feed.count.lost.Add(uint64(outside.Start - r.Offset))
			t.Feed.c.Logger.Error("records are gone before they were read", "source", s.name, "from", r.Offset, "to", outside.Start)
		}
		r.Offset = outside.Start
	case errors.As(err, &broken) && *corrupt >= corruptTry:
		b := kafkaio.Batch{Next: broken.To + 1, Skipped: []kafkaio.Skip{{From: broken.From, To: broken.To, Reason: "corrupt", Err: err}}}
		if err := s.records(ctx, b); err != nil {
			return nil //nolint:nilerr // ctx has ended
		}
		r.Offset, *corrupt = b.Next, 0
	default:
		if errors.As(err, &broken) {
			*corrupt++
		}
		t.Feed.c.Logger.Warn("cannot read, trying again", "source", s.name, "error", err)
		pause(ctx, time.Second/4)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
