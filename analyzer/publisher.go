package analyzer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// decisionKey is what decisions replace each other by.
type decisionKey struct {
	rule   string
	caller schemas.Caller
}

func keyOf(d *schemas.Decision) decisionKey { return decisionKey{d.Rule, d.Caller} }

// publisher is the only writer of decisions[p]: what changed at once, a heartbeat each second, and in cycles all that is
// in force. One produce is in flight at a time; a retry keeps its sequence numbers, so that readers drop the copy.
type publisher struct {
	log    Log
	config OwnerConfig
	fill   func(*schemas.Heartbeat) // sets what the owner's goroutine and the stateWriter know

	mu       sync.Mutex
	pending  map[decisionKey]pendingDecision // guarded by mu: newest wins
	order    []decisionKey                   // guarded by mu
	canaries []schemas.Entry                 // guarded by mu
	logTime  int64                           // guarded by mu
	wake     chan struct{}
	stop     chan struct{}
	numbers  publishCounters

	// Owned by run's goroutine once it has started.
	epoch   uint64
	seq     uint64
	end     int64 // the offset behind our last record
	from    int64 // where the last complete cycle began
	inForce map[decisionKey]schemas.Decision
	cycle   []decisionKey // what the cycle under way has still to repeat
	began   int64         // where that cycle began
}

// pendingDecision is a decision that was not published yet.
type pendingDecision struct {
	decision schemas.Decision
	closes   []Change // those it is about, for Observe: several if they came faster than they were published
}

// maxCloses is the most closes of one rule and caller that wait to be observed, while decisions can't be published.
const maxCloses = 64

func newPublisher(log Log, c OwnerConfig, fill func(*schemas.Heartbeat)) *publisher {
	return &publisher{
		log: log, config: c, fill: fill, pending: make(map[decisionKey]pendingDecision),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), inForce: make(map[decisionKey]schemas.Decision),
	}
}

// claimed sets the epoch to publish under; end is the offset behind the claim.
func (p *publisher) claimed(epoch uint64, end int64) {
	p.epoch, p.seq, p.end = epoch, 0, end
	p.numbers.epoch.Store(epoch)
}

// reconcile sets what is in force and queues the difference to what gates were told.
func (p *publisher) reconcile(told map[decisionKey]schemas.Decision, changes []Change, now int64) {
	for i := range changes {
		d := decision(&changes[i], p.config.Fold.Partition, 0)
		p.inForce[keyOf(&d)] = d
	}
	for key, d := range told {
		if _, ok := p.inForce[key]; !ok && now < d.Until {
			d.Until = min(now, d.CloseAt)
			p.queue(d, Change{})
		}
	}
}

// offer hands over what the fold has changed. It never waits.
func (p *publisher) offer(changes []Change, canaries []schemas.Entry, logTime int64) {
	p.mu.Lock()
	p.logTime = logTime
	p.canaries = append(p.canaries, canaries...)
	if old := len(p.canaries) - maxProduce; old > 0 {
		p.canaries = slices.Delete(p.canaries, 0, old) // nobody waits for them any more
	}
	p.mu.Unlock()
	for i := range changes {
		c := &changes[i]
		if c.Kind == policy.Same {
			continue
		}
		p.queue(decision(c, p.config.Fold.Partition, p.numbers.lag.Load()), *c)
	}
	if len(changes)+len(canaries) > 0 {
		p.nudge()
	}
}

// queue puts a decision in line, or in the place of an older one about the same rule and caller.
func (p *publisher) queue(d schemas.Decision, c Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := keyOf(&d)
	next, ok := p.pending[key]
	if !ok {
		p.order = append(p.order, key)
	}
	next.decision = d
	if c.Kind == policy.Closed && len(next.closes) < maxCloses {
		next.closes = append(next.closes, c)
	}
	p.pending[key] = next
}

func (p *publisher) nudge() {
	select {
	case p.wake <- struct{}{}:
	default: // it is awake
	}
}

// close lets run publish what is pending and return.
func (p *publisher) close() { close(p.stop) }

// run publishes until close, once start is closed. It returns ErrFenced if another owner has claimed the partition.
func (p *publisher) run(ctx context.Context, start <-chan struct{}) error {
	select {
	case <-start:
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
	if err := p.firstCycle(ctx); err != nil {
		return err
	}
	for {
		if err := p.flush(ctx); err != nil {
			return err
		}
		if len(p.cycle) > 0 {
			p.nudge() // more to repeat, but changes go first
		}
		select {
		case <-p.stop:
			return p.flush(ctx)
		case <-p.wake:
		case <-repeat.C:
			p.beginCycle(time.Now().UnixNano())
		case <-beat.C:
			if err := p.heartbeat(ctx); err != nil {
				return err
			}
		}
	}
}

// firstCycle repeats all that is in force under the new epoch, and then announces it.
func (p *publisher) firstCycle(ctx context.Context) error {
	p.beginCycle(time.Now().UnixNano())
	for len(p.cycle) > 0 {
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

// beginCycle starts to repeat what is in force at now, and forgets what no longer is. A cycle that is still under way
// goes on: from stays where the last complete one began.
func (p *publisher) beginCycle(now int64) {
	if len(p.cycle) > 0 {
		return
	}
	for key, d := range p.inForce {
		if d.Until <= now {
			delete(p.inForce, key)
			continue
		}
		p.cycle = append(p.cycle, key)
	}
	p.began = p.end
	if len(p.cycle) == 0 {
		p.from = p.began
	}
}

// maxProduce is the most records of one produce.
const maxProduce = 1000

// flush publishes what is pending, and one piece of the cycle under way.
func (p *publisher) flush(ctx context.Context) error {
	p.mu.Lock()
	pending, order, canaries := p.pending, p.order, p.canaries
	p.pending, p.order, p.canaries = make(map[decisionKey]pendingDecision, len(pending)), nil, nil
	p.mu.Unlock()
	for len(order) > 0 || len(canaries) > 0 || len(p.cycle) > 0 {
		b := p.newBatch()
		n := min(len(order), maxProduce)
		for _, key := range order[:n] {
			b.decide(pending[key])
		}
		order = order[n:]
		answers := min(len(canaries), maxProduce-len(b.messages))
		for i := range canaries[:answers] {
			b.answer(&canaries[i])
		}
		canaries = canaries[answers:]
		repeats := min(len(p.cycle), maxProduce-len(b.messages)) // none before all that is new is out
		for _, key := range p.cycle[:repeats] {
			if d, ok := p.inForce[key]; ok {
				b.add(&d)
			}
		}
		p.cycle = p.cycle[repeats:]
		if err := b.send(ctx); err != nil {
			return err
		}
		if repeats > 0 {
			if len(p.cycle) == 0 {
				p.from = p.began
			}
			return nil // what has changed meanwhile goes before the rest of the cycle
		}
	}
	return nil
}

// heartbeat says that the owner is alive.
func (p *publisher) heartbeat(ctx context.Context) error {
	p.mu.Lock()
	logTime := p.logTime
	p.mu.Unlock()
	b := p.newBatch()
	p.seq++
	beat := schemas.Heartbeat{
		Partition: int32(p.config.Fold.Partition),
		Epoch:     p.epoch, Seq: p.seq, Time: b.now, LogTime: logTime, Lag: p.numbers.lag.Load(), From: p.from,
	}
	p.fill(&beat)
	value, err := pb.AppendHeartbeat(nil, &beat)
	if err != nil {
		return fmt.Errorf("encode heartbeat: %w", err)
	}
	b.messages = append(b.messages, kafkaio.Message{Time: b.now, Value: value})
	return b.send(ctx)
}
