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
	defaultDrain    = 5 * time.Second
)

// Config says what to feed. Producer, Requests, Rejects, Partitions, Format, Now and Logger are required.
type Config struct {
	Producer   kafkaio.Producer
	Requests   string // topic of frames
	Rejects    string // topic of lines that could not be read; partition 0 is written
	Partitions int    // of the topic Requests
	Key        schemas.PartitionKey
	Format     *ingest.Format
	Now        func() time.Time
	Logger     *slog.Logger
	MaxBytes   int64         // that may wait for Kafka; 0 is DefaultMaxBytes
	Drain      time.Duration // how long Source.Close waits for Kafka; 0 is 5 s
}

// Feed sends frames of all sources. Make one with New; its methods are safe for concurrent use.
type Feed struct {
	c       Config
	kinds   []string
	budget  *semaphore.Weighted
	framers chan *framer
	senders []*sender // by partition; the last one sends rejects
	count   counters
	shown   shown

	mu      sync.Mutex
	sources map[*Source]struct{} // guarded by mu: those that are open
	made    uint64               // guarded by mu: how many sources there were
	topics  []*Topic             // guarded by mu: those that run, or did
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
		c.Drain = defaultDrain
	}
	f := &Feed{
		c: c, kinds: c.Format.Kinds(), budget: semaphore.NewWeighted(c.MaxBytes), framers: make(chan *framer, runtime.GOMAXPROCS(0)),
		sources: make(map[*Source]struct{}),
	}
	for p := range c.Partitions {
		f.senders = append(f.senders, newSender(f, c.Requests, p))
	}
	f.senders = append(f.senders, newSender(f, c.Rejects, 0))
	for range cap(f.framers) {
		f.framers <- newFramer(f)
	}
	return f, nil
}

// Splits reports whether requests have two lines: see ingest.Format.Splits.
func (f *Feed) Splits() bool { return f.c.Format.Splits() }

// Run sends what read feeds, until read returns. The context of read ends with ctx, or when nothing can be sent any more;
// read must close its sources and return soon after that. Run returns the first error.
func (f *Feed) Run(ctx context.Context, read func(ctx context.Context) error) error {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	senders, sending := errgroup.WithContext(sending)
	for _, s := range f.senders {
		senders.Go(func() error {
			err := s.run(sending)
			if err != nil {
				cancel() // no use to read what can't be sent
			}
			return err
		})
	}
	err := read(reading)
	stop()
	if failed := senders.Wait(); failed != nil {
		return failed // the reason why reading ended
	}
	return err
}
