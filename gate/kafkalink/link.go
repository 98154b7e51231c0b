package kafkalink

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// ErrRunning says that Run was called while it was running.
var ErrRunning = errors.New("link is running already")

// client is what a Link needs of Kafka; *kafkaio.Client is one.
type client interface {
	kafkaio.Log
	Partitions(ctx context.Context, topic string) (int, error)
	Close()
}

// Link connects a Set and a Recorder to Kafka while it runs. New makes one. All methods may be called from any goroutine.
type Link struct {
	set      *gate.Set
	rec      *record.Recorder
	config   Config
	connect  func() client
	producer schemas.ProducerID
	running  atomic.Bool
	seqs     []uint64 // by partition: the last sequence number used; while a sender runs, its number is its own

	health   health
	counts   counts
	canaries canaries

	ready     chan struct{} // closed once the decisions that were in the log at the start have been applied
	readyOnce sync.Once
}

// New returns a Link. It does no I/O and starts no goroutine.
func New(set *gate.Set, rec *record.Recorder, c Config) *Link {
	c.setDefaults()
	l := &Link{set: set, rec: rec, config: c, ready: make(chan struct{})}
	l.connect = func() client { return kafkaio.New(c.kafka()) }
	_, _ = rand.Read(l.producer[:]) // never fails, by its documentation
	l.health.logger, l.health.name = c.Logger, "kafka link"
	l.canaries.producer = l.producer
	return l
}

// Run sends what the Recorder records, and applies decisions to the Set, until ctx ends. Then it sends what is left for at
// most Config.Drain, drops the rest, and returns. Requests that are recorded later stay in the Recorder.
//
// The error is ErrRunning, kafkaio.ErrNoBrokers, or nil: a Kafka that cannot be reached is no error. When Run returns, all
// goroutines that it started have ended. It may be called again.
func (l *Link) Run(ctx context.Context) error {
	if len(l.config.Brokers) == 0 {
		return kafkaio.ErrNoBrokers
	}
	if !l.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer l.running.Store(false)
	c := l.connect()
	defer c.Close()
	defer l.health.forget()
	for {
		n, err := l.partitions(ctx, c)
		if err != nil {
			break
		}
		l.grow(n)
		s := newSession(l, c, n)
		l.counts.setQueues(s.queues)
		s.run(ctx)
	}
	if n := l.rec.Drain(func(uint64, *schemas.Entry) {}); n > 0 {
		l.rec.Dropped(record.Shutdown, n)
	}
	return nil
}

// partitions returns how many partitions both topics have. It waits until Kafka can be reached; the error is ctx's.
func (l *Link) partitions(ctx context.Context, c client) (int, error) {
	var wait kafkaio.Backoff
	for {
		n, err := l.askPartitions(ctx, c)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		l.health.note("find topics", err)
		if err == nil {
			return n, nil
		}
		if err := wait.Pause(ctx); err != nil {
			return 0, err
		}
	}
}

var errPartitions = errors.New("the topics of requests and decisions differ in partitions")

func (l *Link) askPartitions(ctx context.Context, c client) (int, error) {
	n, err := c.Partitions(ctx, l.config.Topics.Requests)
	if err != nil {
		return 0, err
	}
	m, err := c.Partitions(ctx, l.config.Topics.Decisions)
	if err != nil {
		return 0, err
	}
	if n != m || n <= 0 {
		return 0, fmt.Errorf("%w: got %d in %s and %d in %s", errPartitions, n, l.config.Topics.Requests, m, l.config.Topics.Decisions)
	}
	return n, nil
}

// grow makes room for the sequence numbers of n partitions. Numbers that exist stay, because the producer is the same.
func (l *Link) grow(n int) {
	for len(l.seqs) < n {
		l.seqs = append(l.seqs, 0)
	}
}

// Ready waits until the Link has applied all decisions that were in the log when it began. It returns early if ctx ends; the
// error is that of ctx.
func (l *Link) Ready(ctx context.Context) error {
	select {
	case <-l.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
