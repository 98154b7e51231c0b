package kafkalink

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Log is what Links and Follow need of Kafka, or of a log in its place; *kafkaio.Client is one.
type Log interface {
	kafkaio.Log
	Partitions(ctx context.Context, topic string) (int, error)
}

// Source is what a Link sends frames to and gets decisions from, in place of Kafka. Package feedlink has one.
type Source interface {
	// Producer appends frames to the topic of requests. The Link tells its errors apart as those of a kafkaio.Client.
	kafkaio.Producer

	// Follow gives decisions to h until ctx ends, as the function Follow does; but Decisions may get those of several partitions at once,
	// as partition 0. note is to be called with an error when decisions cannot be followed, and with nil when they can again.
	Follow(ctx context.Context, h Handler, note func(error))

	// Close is the last call, when the Link ends.
	Close()
}

// dial returns given, or if that is nil a client of its own, and what closes the client.
func dial(given Log, c kafkaio.Config) (log Log, hangUp func()) {
	if given != nil {
		return given, func() {}
	}
	client := kafkaio.New(c)
	return client, client.Close
}

// Link connects a Set and a Recorder to Kafka, from Open to Close. All methods may be called from any goroutine.
type Link struct {
	set      *gate.Set
	rec      *record.Recorder
	config   Config
	producer schemas.ProducerID
	end      context.CancelFunc // ends running, by Close
	running  sync.WaitGroup
	seqs     []uint64 // by partition: the last sequence number used; while a sender runs, its number is its own

	health   health
	counts   counts
	canaries canaries

	announced chan int      // the newest number of partitions, until it is taken
	ready     chan struct{} // closed once the decisions that were in the log at the start have been applied
	readyOnce sync.Once
}

// Open returns a Link that sends what the Recorder records, and applies decisions to the Set, until Close. It returns at once: a
// Kafka that cannot be reached is no error, and the Link tries again until it can. The error is kafkaio.ErrNoBrokers or nil. A
// Recorder has one Link at a time.
func Open(set *gate.Set, rec *record.Recorder, c Config) (*Link, error) {
	if c.Source == nil && c.Log == nil && len(c.Brokers) == 0 {
		return nil, kafkaio.ErrNoBrokers
	}
	l := newLink(set, rec, c)
	l.start()
	return l, nil
}

// newLink returns a Link that does not run yet.
func newLink(set *gate.Set, rec *record.Recorder, c Config) *Link {
	c.setDefaults()
	l := &Link{set: set, rec: rec, config: c, announced: make(chan int, 1), ready: make(chan struct{})}
	_, _ = rand.Read(l.producer[:]) // never fails, by its documentation
	l.health.logger, l.health.name = c.Logger, "kafka link"
	if _, kafka := c.Log.(*kafkaio.Client); c.Log != nil && !kafka || c.Source != nil {
		l.health.name = "link"
	}
	l.canaries.producer = l.producer
	return l
}

// start starts the goroutine that runs until Close.
func (l *Link) start() {
	ctx, end := context.WithCancel(context.Background())
	l.end = end
	l.running.Go(func() { l.run(ctx) })
}

// Close sends what has been recorded, for at most Config.Drain, drops the rest, and returns when all goroutines of the Link have
// ended. If something was dropped, the log says how many requests. Further calls wait for the first and do nothing.
//
// Close the Link after the server has answered its last request, as a "defer link.Close()" behind Open does: what is recorded
// after Close is not sent. It stays in the Recorder, and the log warns of it once.
func (l *Link) Close() {
	l.end()
	l.running.Wait()
}

func (l *Link) run(ctx context.Context) {
	log, follow, hangUp := l.source()
	defer hangUp()
	defer l.health.forget()
	var following sync.WaitGroup
	following.Go(func() { follow(ctx, &applier{Link: l}) })
	l.send(ctx, log)
	following.Wait()
	if n := l.rec.Drain(func(uint64, *schemas.Entry) {}); n > 0 {
		l.rec.Dropped(record.Shutdown, n)
		l.warnUnsent(n)
	}
	l.rec.Abandon(func() {
		l.config.Logger.Warn("a request was recorded after the "+l.health.name+" was closed, and is not sent: close the link after the server",
			"queued", l.rec.Stats().Queued)
	})
}

// source returns what the Link sends with, what follows decisions, and what ends both.
func (l *Link) source() (log kafkaio.Producer, follow func(context.Context, Handler), hangUp func()) {
	if s := l.config.Source; s != nil {
		note := func(err error) { l.health.note("follow decisions", err) }
		return s, func(ctx context.Context, h Handler) { s.Follow(ctx, h, note) }, s.Close
	}
	kafka, hangUp := dial(l.config.Log, l.config.kafka())
	t := &topics{log: kafka, names: []string{l.config.Topics.Decisions, l.config.Topics.Requests}, health: &l.health}
	return kafka, func(ctx context.Context, h Handler) { _ = readTopic(ctx, t, h, l.canaries.answer) }, hangUp // it ends with ctx only
}

// send runs sessions until ctx ends: one for each number of partitions.
func (l *Link) send(ctx context.Context, log kafkaio.Producer) {
	for n := l.nextPartitions(ctx); n > 0; {
		l.grow(n)
		s := newSession(l, log, n)
		l.counts.setQueues(s.queues)
		session, end := context.WithCancel(ctx)
		var waiting sync.WaitGroup
		waiting.Go(func() {
			n = l.nextPartitions(session)
			end()
		})
		s.run(session)
		waiting.Wait()
	}
}

// nextPartitions waits until the number of partitions is announced, and returns it. It returns 0 if ctx ends before that.
func (l *Link) nextPartitions(ctx context.Context) int {
	select {
	case n := <-l.announced:
		return n
	case <-ctx.Done():
		return 0
	}
}

// warnUnsent logs how many requests, each counted once for each of its callers, were recorded and could not be sent.
func (l *Link) warnUnsent(requests uint64) {
	l.config.Logger.Warn(l.health.name+" could not send everything before it ended", "requests", requests)
}

// grow makes room for the sequence numbers of n partitions. Numbers that exist stay, because the producer is the same.
func (l *Link) grow(n int) {
	for len(l.seqs) < n {
		l.seqs = append(l.seqs, 0)
	}
}

// Ready waits until the Link has applied all decisions that were in the log when it began. It returns early if ctx ends before that; the
// error is that of ctx.
func (l *Link) Ready(ctx context.Context) error {
	select {
	case <-l.ready:
		return nil
	default: // a select of both would choose by chance
	}
	select {
	case <-l.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// applier is the Handler of a Link: it applies decisions to the Set, and then gives them to Config.Watch.
type applier struct {
	*Link
	behind atomic.Int64 // readers that have not caught up yet
}

func (a *applier) Partitions(n int) {
	a.behind.Store(int64(n))
	a.set.Partitions(n)
	a.counts.partitions.Store(int64(n))
	a.config.Watch.Partitions(n)
	select {
	case <-a.announced: // nobody has taken the number before
	default:
	}
	a.announced <- n
}

func (a *applier) Decisions(partition int, ds []schemas.Decision, now time.Time) {
	a.set.Apply(ds)
	a.counts.decisions.Add(uint64(len(ds)))
	if a.config.Observe != nil {
		applied := time.Now()
		for i := range ds {
			a.config.Observe(ds[i], applied)
		}
	}
	a.config.Watch.Decisions(partition, ds, now)
}

func (a *applier) Heartbeat(h *schemas.Heartbeat, now time.Time) {
	a.counts.heartbeats.Add(1)
	a.set.Heartbeat(*h, now)
	a.config.Watch.Heartbeat(h, now)
}

func (a *applier) CaughtUp(partition int) {
	a.config.Watch.CaughtUp(partition)
	if a.behind.Add(-1) == 0 {
		a.readyOnce.Do(func() { close(a.ready) })
	}
}

func (a *applier) Refused(partition int, reason string, n uint64) {
	a.counts.refuse(reason, n)
	a.config.Watch.Refused(partition, reason, n)
}

func (a *applier) Restarted(partition int) {
	a.counts.restarts.Add(1)
	a.config.Watch.Restarted(partition)
}

// nobody is a Handler that does nothing.
type nobody struct{}

func (nobody) Partitions(int)                               {}
func (nobody) Decisions(int, []schemas.Decision, time.Time) {}
func (nobody) Heartbeat(*schemas.Heartbeat, time.Time)      {}
func (nobody) CaughtUp(int)                                 {}
func (nobody) Refused(int, string, uint64)                  {}
func (nobody) Restarted(int)                                {}
