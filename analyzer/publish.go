package analyzer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// RuleCanary is the rule name of answers to canaries.
const RuleCanary = "_canary"

// PublishStats is what an owner has published since it was made, and how late.
type PublishStats struct {
	Epoch     uint64
	Decisions uint64        // closes, moves and opens, without repeats
	Repeats   uint64        // decisions in force, published again
	Retries   uint64        // produces that failed and were tried again
	InForce   int64         // closures not yet expired when last looked at
	Lag       time.Duration // from an entry's time to its decision acknowledged by Kafka, smoothed
	GateLag   time.Duration // from a request to its decision in force at a gate, as the last canary measured it; 0: never
}

type publishCounters struct {
	decisions, repeats, retries, epoch atomic.Uint64
	lag, gateLag, inForce              atomic.Int64
}

func (p *publisher) stats() PublishStats {
	n := &p.numbers
	return PublishStats{
		Epoch: n.epoch.Load(), Decisions: n.decisions.Load(), Repeats: n.repeats.Load(), Retries: n.retries.Load(),
		InForce: n.inForce.Load(), Lag: time.Duration(n.lag.Load()), GateLag: time.Duration(n.gateLag.Load()),
	}
}

// batch is the records of one produce.
type batch struct {
	p        *publisher
	now      int64 // Unix nanoseconds
	messages []kafkaio.Message
	closes   []Change
	encoding error
	changed  uint64
	repeated uint64
}

func (p *publisher) newBatch() *batch {
	return &batch{p: p, now: time.Now().UnixNano()}
}

// append encodes a decision under the next sequence number.
func (b *batch) append(d *schemas.Decision) {
	b.p.seq++
	d.Epoch, d.Seq, d.Partition = b.p.epoch, b.p.seq, int32(b.p.config.Fold.Partition)
	value, err := pb.AppendDecision(nil, d)
	if err != nil && b.encoding == nil {
		b.encoding = fmt.Errorf("encode decision about %s: %w", d.Caller, err)
		return
	}
	b.messages = append(b.messages, kafkaio.Message{Time: b.now, Value: value})
}

// decide adds a decision that is new, and takes note of it for the cycles.
func (b *batch) decide(d pendingDecision) {
	key := keyOf(&d.decision)
	if d.decision.Until > b.now {
		b.p.inForce[key] = d.decision
	} else {
		delete(b.p.inForce, key)
	}
	b.closes = append(b.closes, d.closes...)
	b.append(&d.decision)
	b.changed++
}

// add repeats a decision that is in force.
func (b *batch) add(d *schemas.Decision) {
	b.append(d)
	b.repeated++
}

// answer echoes a canary: it closes nothing, and tells its sender how long the way takes. The canary's cost is what its
// sender measured last.
func (b *batch) answer(e *schemas.Entry) {
	if e.Cost > 0 {
		b.p.numbers.gateLag.Store(e.Cost)
	}
	b.append(&schemas.Decision{
		Rule: RuleCanary, Caller: e.Caller(), Mode: schemas.ModeShadow, CloseAt: e.Time, Until: e.Time,
		Evidence: schemas.Evidence{AsOfTime: e.Time},
	})
}

// errUnsent says that the owner stops and that no more could be published: what is left unsaid, the next owner says.
var errUnsent = errors.New("stopped with decisions unsent")

// leasePoll is how often an owner without a lease looks whether it has one again.
const leasePoll = 50 * time.Millisecond

// send produces the batch until it is acknowledged: one in flight, the same bytes again after a failure, and nothing at
// all while there is no lease.
func (b *batch) send(ctx context.Context) error {
	if b.encoding != nil {
		return b.encoding
	}
	if len(b.messages) == 0 {
		return nil
	}
	p := b.p
	wait := retryFirst
	for {
		if !p.config.Lease(time.Now()) {
			if p.stopped() {
				return errUnsent // the partition is another's
			}
			sleep(ctx, leasePoll)
			continue
		}
		base, err := p.log.Produce(ctx, p.config.Decisions, p.config.Fold.Partition, b.messages...)
		if err == nil {
			failpoint.Here(failpoint.Published)
			b.acknowledged(time.Now().UnixNano())
			return p.watch(ctx, base, int64(len(b.messages)))
		}
		p.numbers.retries.Add(1)
		p.config.Logger.Warn("cannot publish decisions", "records", len(b.messages), "error", err)
		if p.stopped() {
			return errUnsent
		}
		sleep(ctx, wait)
		wait = min(2*wait, retryLast)
	}
}

// acknowledged updates the numbers, and smooths the lag over about ten closes.
func (b *batch) acknowledged(now int64) {
	n := &b.p.numbers
	n.decisions.Add(b.changed)
	n.repeats.Add(b.repeated)
	n.inForce.Store(int64(len(b.p.inForce)))
	for _, c := range b.closes {
		lag := now - c.At
		if old := n.lag.Load(); old != 0 {
			n.lag.Store(old + (lag-old)/10)
		} else {
			n.lag.Store(lag)
		}
		if b.p.config.Observe != nil {
			b.p.config.Observe(c, lag)
		}
	}
}

// watch looks at what stands between our last records and these: a claim of a higher epoch means that the partition is
// another's now. Usually nothing does, and nothing is read. An owner that stops need not know.
func (p *publisher) watch(ctx context.Context, base, n int64) error {
	from := p.end
	p.end = base + n
	if base <= from || p.stopped() {
		return nil
	}
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
	fenced := false
	_, err := reader{p.log, p.config}.scan(ctx, from, base, func(r pb.Record) {
		fenced = fenced || r.Claim != nil && r.Claim.Epoch > p.epoch
	})
	switch {
	case fenced:
		return ErrFenced
	case err != nil && !p.stopped():
		return fmt.Errorf("read between our decisions: %w", err)
	}
	return nil
}
