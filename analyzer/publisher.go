package analyzer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// publisher is the only writer of decisions[p]. It sends changes at once, a heartbeat each second, and in cycles all that is in force. One
// produce request is in flight at a time. A retry keeps its sequence numbers, so that readers drop the copy.
type publisher struct {
	log      kafkaio.Log
	config   OwnerConfig
	appender *kafkaio.Appender
	fill     func(*schemas.Heartbeat) // sets the fields that the owner knows

	waiting decisionQueue
	wake    chan struct{}
	started chan struct{} // closed by start
	stop    chan struct{} // closed by close
	numbers publishCounters
	applied atomic.Int64 // the offset of the next control record to apply: the changes of those before it were offered
	beatNow atomic.Bool  // a heartbeat must follow what was offered

	// Owned by run's goroutine once it has started.
	signature signature
	end       int64 // the offset behind our last record
	control   int64 // the offset of a control record: decisions[p] has what follows from those before it
	inForce   *outbox.InForce
	due       *time.Timer // fires when a decision that waits must go out
}

func newPublisher(log kafkaio.Log, c OwnerConfig, fill func(*schemas.Heartbeat)) *publisher {
	p := &publisher{
		log: log, config: c, fill: fill,
		wake: make(chan struct{}, 1), started: make(chan struct{}), stop: make(chan struct{}),
		numbers: newPublishCounters(),
		inForce: outbox.NewInForce(c.Fold.MaxRows + override.MaxRecords), // callers closed by hand need no row
	}
	p.appender = kafkaio.NewAppender(log, kafkaio.AppenderConfig{
		Topic: c.Decisions, Partition: c.Fold.Partition, Lease: c.Lease, Retry: p.retry, Logger: c.Logger,
	})
	return p
}

// retry allows a batch to be sent again until the publisher is stopped, whatever the error is.
func (p *publisher) retry(err error) bool {
	if !errors.Is(err, kafkaio.ErrNoLease) {
		p.numbers.retries.Add(1)
	}
	return !p.stopped()
}

// setEpoch sets the epoch to publish under. end is the offset behind the claim.
func (p *publisher) setEpoch(epoch uint64, end int64) {
	p.signature, p.end = signature{partition: int32(p.config.Fold.Partition), epoch: epoch}, end // a partition number
	p.numbers.epoch.Store(epoch)
}

// offer passes to the publisher what the fold has changed and predicted. It never waits. It sets the fields Now and Measured of t itself.
func (p *publisher) offer(changes []fold.Change, plans []predict.Plan, canaries []schemas.Entry, t outbox.Terms) {
	t.Now, t.Measured = time.Now().UnixNano(), p.numbers.lag.Load()
	spared := p.waiting.offer(changes, plans, canaries, t)
	p.numbers.spared.Add(uint64(spared)) // ≥ 0
	if len(changes)+len(plans)+len(canaries) > 0 {
		p.nudge()
	}
}

// reconcile sets what is in force, and queues a decision for each difference from what gates believe. keep reports which decisions of gates
// stay in force although they are not counted here.
func (p *publisher) reconcile(believed map[outbox.Key]schemas.Decision, changes []fold.Change, now int64, keep func(*schemas.Decision) bool) {
	for _, d := range p.inForce.Reconcile(believed, changes, now, keep) {
		p.waiting.open(d)
	}
}

// applyControl notes that the changes of all control records before an offset were offered. If some is set, a heartbeat says so as soon as
// these changes are published.
func (p *publisher) applyControl(next int64, some bool) {
	p.applied.Store(next)
	if some {
		p.beatNow.Store(true)
		p.nudge()
	}
}

func (p *publisher) nudge() {
	select {
	case p.wake <- struct{}{}:
	default: // it is awake
	}
}

// close lets run publish what is pending and return.
func (p *publisher) close() { close(p.stop) }

// start lets run publish.
func (p *publisher) start() { close(p.started) }

// run publishes from start until close. It returns errFenced if another owner has claimed the partition.
func (p *publisher) run(ctx context.Context) error {
	select {
	case <-p.started:
	case <-p.stop:
		return nil
	}
	if err := p.publish(ctx); !errors.Is(err, errUnsent) {
		return err
	}
	return nil
}

func (p *publisher) publish(ctx context.Context) error {
	beat := time.NewTicker(p.config.Heartbeat)
	defer beat.Stop()
	repeat := time.NewTicker(p.config.Repeat)
	defer repeat.Stop()
	p.due = time.NewTimer(p.config.Heartbeat)
	defer p.due.Stop()
	if err := p.firstCycle(ctx); err != nil {
		return err
	}
	for beatDue := false; ; {
		beatDue = p.beatNow.Swap(false) || beatDue
		if err := p.flush(ctx); err != nil {
			return err
		}
		if beatDue {
			if err := p.heartbeat(ctx); err != nil {
				return err
			}
			beatDue = false
		}
		if p.inForce.Left() > 0 {
			p.nudge() // more to repeat, but changes go first
		}
		select {
		case <-p.stop:
			return p.flush(ctx)
		case <-p.wake:
		case <-p.due.C:
		case <-repeat.C:
			p.inForce.BeginCycle(time.Now().UnixNano(), p.end)
		case <-beat.C:
			beatDue = true
		}
	}
}

// firstCycle repeats all that is in force, under the new epoch. The heartbeat after it announces that this cycle is complete.
func (p *publisher) firstCycle(ctx context.Context) error {
	p.inForce.BeginCycle(time.Now().UnixNano(), p.end)
	for first := true; first || p.inForce.Left() > 0; first = false {
		if err := p.flush(ctx); err != nil {
			return err
		}
		if p.stopped() {
			return nil
		}
	}
	failpoint.Here(failpoint.CycleRepeated)
	return p.heartbeat(ctx)
}

func (p *publisher) stopped() bool {
	select {
	case <-p.stop:
		return true
	default:
		return false
	}
}

// maxProduce is how many records one produce request may hold.
const maxProduce = 1000

// flush publishes what is due, and one piece of the cycle under way. A publisher that stops publishes all that waits.
func (p *publisher) flush(ctx context.Context) error {
	now, control := time.Now().UnixNano(), p.applied.Load()
	pending, canaries, next := p.waiting.take(now, p.stopped())
	if next > 0 && p.due != nil {
		p.due.Reset(time.Duration(max(next-now, 0)))
	}
	for len(pending) > 0 || len(canaries) > 0 || p.inForce.Left() > 0 {
		b := p.newBatch()
		n := min(len(pending), maxProduce)
		for i := range pending[:n] {
			if pending[i].Spared {
				b.spared = append(b.spared, pending[i].Closes...)
				continue
			}
			p.inForce.Set(&pending[i].Decision, b.now)
			b.decide(&pending[i])
		}
		pending = pending[n:]
		answers := min(len(canaries), maxProduce-len(b.messages))
		for i := range canaries[:answers] {
			if cost := canaries[i].Cost; cost > 0 { // the lag that its sender measured last
				p.numbers.gateLag.Store(cost)
			}
			b.answer(&canaries[i])
		}
		canaries = canaries[answers:]
		repeats := min(p.inForce.Left(), maxProduce-len(b.messages)) // none before all that is new is sent
		for _, d := range p.inForce.Next(repeats, b.now) {
			b.repeat(&d)
		}
		if err := p.send(ctx, b); err != nil {
			return err
		}
		p.inForce.Repeated(repeats)
		if repeats > 0 {
			break // changes that came meanwhile go before the rest of the cycle
		}
	}
	p.control = control
	return nil
}

// heartbeat publishes a heartbeat, which says that the owner is alive and how far it is.
func (p *publisher) heartbeat(ctx context.Context) error {
	b := p.newBatch()
	p.numbers.forgetLag(b.now)
	h := schemas.Heartbeat{
		LogTime: p.waiting.time(), Lag: p.numbers.lag.Load(), From: p.inForce.From(), API: p.config.API, Control: p.control,
	}
	p.fill(&h)
	b.beat(&h)
	return p.send(ctx, b)
}

func (p *publisher) newBatch() *batch {
	return &batch{signature: &p.signature, now: time.Now().UnixNano()}
}

// send appends a batch to decisions[p], and tries until it is acknowledged. After a failure it sends the same bytes again. While there is
// no lease it sends nothing. The error is errUnsent if the owner stops before the acknowledgement.
func (p *publisher) send(ctx context.Context, b *batch) error {
	b.observeSpared(p.config.Observe)
	if b.err != nil || len(b.messages) == 0 {
		return b.err
	}
	base, err := p.appender.Append(ctx, b.messages...)
	switch {
	case err == nil:
	case p.stopped():
		return errUnsent
	default:
		return fmt.Errorf("publish %d records: %w", len(b.messages), err)
	}
	failpoint.Here(failpoint.Published)
	p.numbers.acknowledged(b, p.inForce, time.Now().UnixNano(), p.config.Observe)
	from := p.end
	p.end = base + int64(len(b.messages))
	if base <= from || p.stopped() {
		return nil // an owner that stops need not know who else writes
	}
	return p.watch(ctx, from, base)
}

// watch looks for another owner's records between our last batch and this one.
func (p *publisher) watch(ctx context.Context, from, to int64) error {
	ctx, cancel := context.WithCancel(ctx)
	var stopping sync.WaitGroup
	defer stopping.Wait()
	defer cancel()
	stopping.Go(func() {
		defer cancel()
		select {
		case <-p.stop:
		case <-ctx.Done():
		}
	})
	fenced, err := newDecisionsReader(p.log, &p.config, from).fences(ctx, to, &p.signature)
	switch {
	case fenced:
		return errFenced
	case err != nil && !p.stopped():
		return fmt.Errorf("read between our decisions: %w", err)
	}
	return nil
}
