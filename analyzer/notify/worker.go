package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/notify/endpoint"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// How a worker works.
const (
	maxSending  = 8 // calls at a time
	commitEvery = time.Second
	joinPause   = time.Second
	stopGrace   = 2 * time.Second // for the calls that are being sent when partitions are taken away
)

// worker delivers to one endpoint. Its methods are safe for concurrent use, but run is called once.
type worker struct {
	c    *Config
	name string

	mu       sync.Mutex
	settings *endpoint.Endpoint // guarded by mu
	sender   Sender             // guarded by mu: of the settings
	disabled bool               // guarded by mu: the endpoint has answered 410 under these settings
	failing  bool               // guarded by mu: the last attempt failed
	joined   bool               // guarded by mu: the group has assigned partitions
	queue    *queue             // guarded by mu
	ledgers  map[int]*ledger    // guarded by mu: of the partitions of this generation
	seen     *recentIDs         // guarded by mu
	stats    EndpointStats      // guarded by mu
	changed  chan struct{}      // guarded by mu: closed when there may be work, or room for it
}

func newWorker(c *Config, e *endpoint.Endpoint) *worker {
	w := &worker{c: c, name: e.Name, settings: e, sender: c.Sender(e.Webhook), changed: make(chan struct{}), seen: newRecentIDs()}
	w.stats.Dropped = map[string]uint64{DroppedExpired: 0, DroppedTemplate: 0}
	w.begin(new(kafkaio.Generation))
	w.joined = false
	return w
}

// logger returns the log of the worker.
func (w *worker) logger() *slog.Logger { return w.c.Logger.With("endpoint", w.name) }

// signal wakes everyone who waits for a change. The caller has the lock.
func (w *worker) signal() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// change makes the worker use other settings at once. Calls that wait are tried now, and a disabled endpoint is enabled.
func (w *worker) change(e *endpoint.Endpoint, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if closer, ok := w.sender.(interface{ Close() }); ok {
		closer.Close()
	}
	w.settings, w.sender, w.disabled = e, w.c.Sender(e.Webhook), false
	w.queue.change(e.Digest, now)
	w.signal()
}

// begin forgets the partitions of before, and takes those of a new generation.
func (w *worker) begin(gen *kafkaio.Generation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue, w.ledgers, w.seen = newQueue(w.settings.Digest, w.c.MaxPending), make(map[int]*ledger), newRecentIDs()
	for _, p := range gen.Partitions {
		w.ledgers[p] = &ledger{next: gen.Committed[p]}
	}
	w.joined = true
	w.signal()
}

// run delivers until ctx ends.
func (w *worker) run(ctx context.Context) (err error) {
	member, err := w.c.Join(w.c.Group + "." + w.name)
	if err != nil {
		return fmt.Errorf("endpoint %s: %w", w.name, err)
	}
	defer func() { err = errors.Join(err, member.Close()) }()
	for {
		gen, err := member.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && kafkaio.Temporary(err):
			w.logger().Warn("cannot join group, trying again", "error", err)
			_ = kafkaio.Sleep(ctx, joinPause) // whether ctx has ended is seen above
			continue
		case err != nil:
			return fmt.Errorf("endpoint %s: %w", w.name, err)
		}
		w.begin(gen)
		w.logger().Info("reading events", "topic", w.c.Topic, "partitions", gen.Partitions)
		w.generation(ctx, gen)
	}
}

// generation delivers the events of one assignment until it is over.
func (w *worker) generation(ctx context.Context, gen *kafkaio.Generation) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	sending, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	context.AfterFunc(ctx, func() { time.AfterFunc(stopGrace, abort) })
	committed := make(map[int]int64)
	var g errgroup.Group
	for _, p := range gen.Partitions {
		committed[p] = gen.Committed[p]
		r := &reader{worker: w, partition: p}
		g.Go(func() error { r.run(ctx, gen.Committed[p]); return nil })
	}
	g.Go(func() error { w.dispatch(ctx, sending); return nil })
	g.Go(func() error {
		select {
		case <-gen.Done():
			stop()
		case <-ctx.Done():
		}
		return nil
	})
	g.Go(func() error {
		tick := time.NewTicker(commitEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				if err := w.commit(gen, committed); err != nil {
					w.logger().Warn("cannot commit", "error", err)
				}
			}
		}
	})
	_ = g.Wait() // none fails
	if err := w.commit(gen, committed); err != nil {
		w.logger().Info("cannot commit: events since the last commit will be sent again", "error", err)
	}
}

// commit commits to the group up to where everything is delivered or dropped.
func (w *worker) commit(gen *kafkaio.Generation, committed map[int]int64) error {
	moved := make(map[int]int64)
	w.mu.Lock()
	for p, l := range w.ledgers {
		if done := l.done(); done >= 0 && done != committed[p] {
			moved[p] = done
		}
	}
	w.mu.Unlock()
	if len(moved) == 0 {
		return nil
	}
	if err := gen.Commit(moved); err != nil {
		return err
	}
	maps.Copy(committed, moved)
	return nil
}

// add gives an event to the queue. It waits while the queue is full, and returns the error of ctx if that ends.
func (w *worker) add(ctx context.Context, i *item, offset int64) error {
	for {
		w.mu.Lock()
		if w.queue.pending < w.c.MaxPending {
			if !w.seen.add(i.event.ID) {
				w.ledgers[i.partition].passed(offset + 1)
				w.mu.Unlock()
				return nil
			}
			i.place = w.ledgers[i.partition].begin(offset, i.written)
			w.queue.add(i, time.Now())
			w.signal()
			w.mu.Unlock()
			return nil
		}
		changed := w.changed
		w.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// dispatch sends what is due until ctx ends, and returns when the last of it has an answer. sending is the context of calls.
func (w *worker) dispatch(ctx, sending context.Context) {
	var g errgroup.Group
	defer func() { _ = g.Wait() }() // none fails
	free := make(chan struct{}, maxSending)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		c, ok := w.next(ctx, timer)
		if !ok {
			return
		}
		g.Go(func() error {
			defer func() { <-free }()
			w.attempt(sending, c)
			return nil
		})
	}
}

// next waits for a call that is due, and returns false if ctx ends first.
func (w *worker) next(ctx context.Context, timer *time.Timer) (*call, bool) {
	for ctx.Err() == nil {
		var wait <-chan time.Time
		w.mu.Lock()
		changed := w.changed
		if !w.disabled {
			now := time.Now()
			c, at := w.queue.next(now)
			if c != nil {
				w.mu.Unlock()
				return c, true
			}
			if !at.IsZero() {
				timer.Reset(at.Sub(now))
				wait = timer.C
			}
		}
		w.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-changed:
		case <-wait:
		}
	}
	return nil, false
}
