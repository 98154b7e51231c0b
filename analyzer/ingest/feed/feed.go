package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Defaults of Config.
const (
	DefaultMaxBytes = 64 << 20
	DefaultDrain    = 5 * time.Second
)

// Producer appends to a partition, as kafkaio.Client does.
type Producer interface {
	Produce(ctx context.Context, topic string, partition int, msgs ...kafkaio.Message) (int64, error)
}

// Config says what to feed. Producer, Requests, Rejects, Partitions, Format, Now and Logger are needed.
type Config struct {
	Producer   Producer
	Requests   string // topic of frames
	Rejects    string // topic of what could not be read; its partition 0 is written
	Partitions int    // of Requests
	Key        schemas.PartitionKey
	Format     *ingest.Format
	Now        func() time.Time
	Logger     *slog.Logger
	MaxBytes   int64         // of frames that wait for Kafka; 0 is DefaultMaxBytes
	Drain      time.Duration // how long sources that end wait for Kafka; 0 is DefaultDrain
}

// Feed sends frames of all sources. Make one with New; its methods are safe for concurrent use.
type Feed struct {
	c       Config
	kinds   []string
	budget  *semaphore.Weighted
	presses chan *press
	lanes   []*lane // by partition; the last is that of rejects
	count   counters

	mu      sync.Mutex
	sources map[*Source]struct{} // guarded by mu: those that are read
}

// New returns a feed. It does no I/O before Run.
func New(c Config) (*Feed, error) {
	if c.Producer == nil || c.Format == nil || c.Now == nil || c.Logger == nil || c.Requests == "" || c.Rejects == "" {
		return nil, errors.New("feed: want a producer, topics, a format, a clock and a logger")
	}
	if c.Partitions < 1 {
		return nil, fmt.Errorf("feed: got %d partitions, want 1 or more", c.Partitions)
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	c.MaxBytes = max(c.MaxBytes, 2*maxParcel)
	if c.Drain <= 0 {
		c.Drain = DefaultDrain
	}
	f := &Feed{
		c: c, kinds: c.Format.Kinds(), budget: semaphore.NewWeighted(c.MaxBytes), presses: make(chan *press, runtime.GOMAXPROCS(0)),
		sources: make(map[*Source]struct{}),
	}
	for p := range c.Partitions {
		f.lanes = append(f.lanes, newLane(f, c.Requests, p))
	}
	f.lanes = append(f.lanes, newLane(f, c.Rejects, 0))
	for range cap(f.presses) {
		f.presses <- newPress(f)
	}
	return f, nil
}

// Run sends what read feeds, and returns when read has and its sources are flushed or given up. Read is given a context
// that ends with ctx or when nothing can be sent any more; it must return soon after that. The first error is returned.
func (f *Feed) Run(ctx context.Context, read func(ctx context.Context) error) error {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	lanes, sending := errgroup.WithContext(sending)
	for _, l := range f.lanes {
		lanes.Go(func() error {
			err := l.run(sending)
			if err != nil {
				cancel() // what is read can't be sent
			}
			return err
		})
	}
	err := read(reading)
	stop()
	if sent := lanes.Wait(); sent != nil {
		return sent // the reason why reading ended
	}
	return err
}
