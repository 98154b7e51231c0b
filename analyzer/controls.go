package analyzer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/509da70d/floodgate/analyzer/control"
	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// controls applies what the control topic says. Each place names a record of requests[p], and what the place says applies before that
// record. When people have decided something new, or this analyzer gets new rules, controls appends a place, reads it back, and then
// applies it. Meanwhile nothing is folded. So all readers of the topic agree.
//
// Only the owner's goroutine may use it. Others may read its numbers.
type controls struct {
	log       kafkaio.Log
	ledger    *ledger
	intake    *intake
	snapshots *snapshotter
	topic     control.Topic
	counters  controlCounters

	order         *control.Order // what the topic says; nil while it has not been read
	reader        *controlReader // reads the topic; nil until the owner has decided what to start from
	topicReadable bool           // order is nil, but the topic can be read again
	rules         *rules.Set     // the rules that the next place is to name; nil: those of the fold
	sets          map[uint64]*rules.Set
	seq           uint64        // the number of the last place that this owner has appended
	appended      bool          // this owner has appended a place to this topic
	again         chan struct{} // turn has more to do: new rules, or what was read together with a place and needs another
}

const (
	// maxWaiting is how many decisions of people may wait for a place before the owner stops reading. The decisions of one fetch may be added
	// to that.
	maxWaiting = 4096
	// topicWait is how long an owner waits for a control topic that is away before it goes on without it.
	topicWait = 2 * time.Second
	topicPoll = 50 * time.Millisecond // how often it tries to append its first place
)

func newControls(log kafkaio.Log, l *ledger, i *intake, s *snapshotter) *controls {
	c, f := &l.config, &l.config.Fold
	return &controls{
		again: make(chan struct{}, 1),
		log:   log, ledger: l, intake: i, snapshots: s, rules: c.Rules, sets: map[uint64]*rules.Set{c.Rules.ID(): c.Rules},
		topic: control.NewTopic(c.Control, c.Requests, f.Key, f.Partition, f.Partitions),
	}
}

// retry notes why the topic cannot be read or written. It allows another attempt.
func (c *controls) retry(err error) bool {
	if c.counters.trouble.Swap(&err) == nil && !errors.Is(err, context.Canceled) {
		c.ledger.logger.Warn("the control topic is away", "error", err)
	}
	return true
}

// take appends a take. After it, places of earlier owners do not count. Without a lease it waits.
func (c *controls) take(ctx context.Context) error {
	l := c.ledger
	_, err := c.append(ctx, &schemas.Control{Action: schemas.ControlTake, Epoch: l.epoch}, c.retry)
	if err != nil {
		return fmt.Errorf("append a take: %w", err)
	}
	failpoint.Here(failpoint.TakeAppended)
	return nil
}

// append appends a record of this owner, and returns its offset.
func (c *controls) append(ctx context.Context, r *schemas.Control, retry kafkaio.Retry) (int64, error) {
	conf := &c.ledger.config
	r.Time, r.Author = schemas.EpochTime(r.Epoch, time.Now().UnixNano()), conf.author()
	r.Topic, r.Partition = conf.Requests, int32(conf.Fold.Partition) // a partition number
	return (&ControlWriter{log: c.log, topic: conf.Control, lease: conf.Lease, retry: retry, logger: conf.Logger}).Append(ctx, r)
}

// turn receives the batches that were read. If there is something new, and this owner has the lease, turn places it. It must be cheap when
// there is nothing to do, because it is called between records.
func (c *controls) turn(ctx context.Context) error {
	for {
		select {
		case b, ok := <-c.batches():
			if !ok {
				return ctx.Err()
			}
			if err := c.receive(&b); err != nil && !errors.Is(err, errOtherTopic) {
				return err
			}
			continue
		default:
		}
		if !c.ledger.config.Lease(time.Now()) {
			return nil
		}
		if c.order == nil {
			return c.join(ctx)
		}
		if c.rules == nil && c.appended && len(c.order.Waiting()) == 0 {
			c.note()
			return nil
		}
		return c.place(ctx)
	}
}

// note stores the offset of the topic before which all decisions of people are applied, and passes it to the publisher.
func (c *controls) note() {
	c.ledger.control.Store(c.order.Applied())
	c.intake.publisher.applyControl(c.ledger.control.Load(), false)
}

// begin appends the first place of a partition, before anything is folded: it says by which rules the first record is counted.
func (c *controls) begin(ctx context.Context) error {
	for c.order != nil && c.ledger.placed.Placed == 0 && len(c.order.Steps()) == 0 {
		if err := c.place(ctx); err != nil {
			return err
		}
		if !c.appended && kafkaio.Sleep(ctx, topicPoll) != nil {
			return ctx.Err()
		}
	}
	return nil
}

// place appends a place at the next offset, for all decisions that wait and for the rules that are to count. It reads the place back
// and applies it. If the place cannot be appended, a later turn tries again.
func (c *controls) place(ctx context.Context) error {
	l, set := c.ledger, c.rules
	if set == nil {
		set = l.fold.Rules()
	}
	noted, err := c.noteRules(ctx, set)
	if err != nil {
		return ctx.Err()
	}
	p := schemas.Control{
		Action: schemas.ControlPlace, Epoch: l.epoch, Seq: c.seq + 1,
		Before: l.next.Load(), UpTo: c.order.Next(), RulesID: set.ID(), RulesAt: noted,
	}
	offset, err := c.append(ctx, &p, c.retryUnknown())
	if err != nil {
		return ctx.Err()
	}
	failpoint.Here(failpoint.PlaceAppended)
	c.counters.trouble.Store(nil)
	c.seq++
	for c.order.Next() <= offset {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b, ok := <-c.reader.Batches():
			if !ok {
				return ctx.Err()
			}
			if err := c.receive(&b); errors.Is(err, errOtherTopic) {
				return nil // the place is lost with the old topic
			} else if err != nil {
				return err
			}
		}
	}
	failpoint.Here(failpoint.PlaceRead)
	if c.order.Seq() != c.seq {
		return errFenced // somebody else writes under this epoch, so the place does not count
	}
	c.rules, c.appended = nil, true
	c.applyBefore(l.next.Load())
	c.intake.publishControl()
	l.showStats()
	failpoint.Here(failpoint.PlaceApplied)
	if len(c.order.Waiting()) > 0 {
		c.wake()
	}
	return nil
}

// wake makes the owner call turn soon. What else is ready has its turn in between.
func (c *controls) wake() {
	select {
	case c.again <- struct{}{}:
	default: // it is known already
	}
}

// retryUnknown returns a Retry for appending a place. It allows another attempt only after an attempt whose outcome is not known: the
// record may be in the topic, and until that is clear nothing may be folded.
func (c *controls) retryUnknown() kafkaio.Retry {
	unknown := false
	return func(err error) bool {
		unknown = unknown || kafkaio.OutcomeOf(err) == kafkaio.Unknown
		return c.retry(err) && unknown
	}
}

// noteRules returns the offset at which the topic has the text of rules. If the topic does not have it, noteRules tries once to append it.
// A text that is there twice does no harm.
func (c *controls) noteRules(ctx context.Context, set *rules.Set) (offset int64, err error) {
	if offset, ok := c.order.Noted(set.ID()); ok {
		return offset, nil
	}
	return c.ledger.config.notes.offset(set.ID(), func() (int64, error) {
		r := newNote(set, c.ledger.config.RulesFile)
		offset, err := c.append(ctx, &r, func(err error) bool { c.retry(err); return false })
		failpoint.Here(failpoint.RulesNoted)
		return offset, err
	})
}

// applyBefore applies the steps that come before a record of requests[p].
func (c *controls) applyBefore(offset int64) {
	for c.order != nil {
		step, ok := c.order.Due(offset)
		if !ok {
			return
		}
		c.apply(&step)
	}
}

// applyUpTo applies the steps that a row of a snapshot contains: their places are before the offset placed of the topic, and apply before
// the record next of requests[p] or an earlier one.
func (c *controls) applyUpTo(placed, next int64) {
	for steps := c.order.Steps(); len(steps) > 0 && steps[0].Place < placed && steps[0].Before <= next; steps = c.order.Steps() {
		step, _ := c.order.Due(next)
		c.apply(&step)
	}
}

// apply applies a step: first what people decided, and then the rules.
func (c *controls) apply(s *control.Step) {
	l := c.ledger
	l.describe(byMessage)
	for i := range s.Records {
		r := &s.Records[i]
		known := l.fold.View().Records().Knows(&r.Control)
		if err := l.fold.Control(&r.Control, s.Before, r.Offset); err != nil {
			l.logger.Warn("control record refused", "id", r.Control.ID.String(), "action", r.Control.Action.String(), "offset", r.Offset, "error", err)
			continue
		}
		if !known { // else its event was described then, perhaps in another installation
			l.describeControl(&r.Control, s.Before)
		}
		l.describe(s.Before)
		c.counters.actions[r.Control.Action].Add(1)
	}
	switch set := c.sets[s.RulesID]; {
	case s.RulesID == l.fold.Rules().ID():
	case set == nil:
		l.logger.Warn("the log was counted by rules that are not known", "from", s.Before, "rules_id", fmt.Sprintf("%016x", s.RulesID))
	default:
		l.setRules(set, s.Before)
		l.logger.Info("rules changed", "from", s.Before, "rules", len(set.Rules))
	}
	l.placed = control.Mark{Placed: s.Place + 1, Epoch: s.Epoch}
	l.control.Store(c.order.Applied())
}

// setRules makes the owner count by rules from its next place on.
func (c *controls) setRules(set *rules.Set) {
	c.rules, c.sets[set.ID()] = set, set
	if c.order != nil && c.appended && set.ID() == c.ledger.fold.Rules().ID() {
		c.rules = nil
	}
}
