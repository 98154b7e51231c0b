package kafkalink

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

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
	topics := &topics{client: c, names: []string{l.config.Topics.Requests, l.config.Topics.Decisions}, health: &l.health}
	for {
		n, err := topics.partitions(ctx)
		if err != nil {
			break
		}
		l.grow(n)
		s := newSession(l, topics, n)
		l.counts.setQueues(s.queues)
		s.run(ctx)
	}
	if n := l.rec.Drain(func(uint64, *schemas.Entry) {}); n > 0 {
		l.rec.Dropped(record.Shutdown, n)
	}
	return nil
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

// applier is the Handler of a Link: it applies decisions to the Set.
type applier struct {
	*Link
	behind atomic.Int64 // readers that have not caught up yet
}

func (a *applier) Partitions(n int) {
	a.behind.Store(int64(n))
	a.set.Partitions(n)
	a.counts.partitions.Store(int64(n))
}

func (a *applier) Decisions(_ int, ds []schemas.Decision, _ time.Time) {
	a.set.Apply(ds)
	a.counts.decisions.Add(uint64(len(ds)))
	if a.config.Observe != nil {
		now := time.Now()
		for i := range ds {
			a.config.Observe(ds[i], now)
		}
	}
}

func (a *applier) Heartbeat(h *schemas.Heartbeat, now time.Time) {
	a.counts.heartbeats.Add(1)
	a.set.Heartbeat(*h, now)
}

func (a *applier) CaughtUp(int) {
	if a.behind.Add(-1) == 0 {
		a.readyOnce.Do(func() { close(a.ready) })
	}
}

func (a *applier) Refused(_ int, reason string, n uint64) { a.counts.refuse(reason, n) }

func (a *applier) Restarted(int) { a.counts.restarts.Add(1) }
