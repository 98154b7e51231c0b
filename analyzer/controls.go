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

// controls applies what the control topic says, each step before the record of requests[p] where its place says so. It appends the
// places of what is new: people's decisions, and rules of this analyzer that are not those of the last place. Nothing is folded from
// when a place is appended until it is applied, and nothing is applied that was not read back. So all who read the topic agree.
//
// Only the owner's goroutine may use it, but for numbers.
type controls struct {
	log       kafkaio.Log
	ledger    *ledger
	intake    *intake
	snapshots *snapshotter
	topic     control.Topic
	numbers   controlNumbers

	order    *control.Order // nil while it is not known what the topic says
	reader   *controlReader // nil before the owner has decided what to start from
	answers  bool           // without an order: the topic can be read
	rules    *rules.Set     // by which the owner wants to count; nil: those that do
	sets     map[uint64]*rules.Set
	seq      uint64 // of the last place
	appended bool   // a place, in this topic
}

const (
	// maxWaiting is how many decisions of people wait for a place until no more are read; those of one fetch may come on top.
	maxWaiting = 4096
	// topicWait is how long an owner waits for a control topic that is away before it goes on without it.
	topicWait = 2 * time.Second
	topicPoll = 50 * time.Millisecond // how often it tries to append its first place
)

func newControls(log kafkaio.Log, l *ledger, i *intake, s *snapshotter) *controls {
	c, f := &l.config, &l.config.Fold
	return &controls{
		log: log, ledger: l, intake: i, snapshots: s, rules: c.Rules, sets: map[uint64]*rules.Set{c.Rules.ID(): c.Rules},
		topic: control.NewTopic(c.Control, c.Requests, f.Key, f.Partition, f.Partitions),
	}
}

// retry notes why the topic cannot be read or written, and lets everybody try again.
func (c *controls) retry(err error) bool {
	if c.numbers.trouble.Swap(&err) == nil && !errors.Is(err, context.Canceled) {
		c.ledger.logger.Warn("the control topic is away", "error", err)
	}
	return true
}

// take ends the places of all owners before this one. Without a lease it waits.
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

// turn receives what was read, and places what is new, if this owner may. It is called before records, so it must cost next to
// nothing if there is nothing to do.
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

// note says how far what people decided is applied.
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

// place appends a place at the next offset, for all that waits and for the rules that are to count, waits to read it back, and
// applies it. If the place cannot be appended, it is tried again later.
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
	c.numbers.trouble.Store(nil)
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
				return nil // and the place is gone with the topic before it
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
	return nil
}

// retryUnknown tries again only while it is not known whether the record is in the topic: until then nothing may be folded.
func (c *controls) retryUnknown() kafkaio.Retry {
	unknown := false
	return func(err error) bool {
		unknown = unknown || kafkaio.OutcomeOf(err) == kafkaio.Unknown
		return c.retry(err) && unknown
	}
}

// noteRules returns where the topic has the text of rules. It appends the text if nobody has, and tries once: a text that stands
// twice does no harm.
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

// applyBefore applies the steps that stand before a record of requests[p].
func (c *controls) applyBefore(offset int64) {
	for c.order != nil {
		step, ok := c.order.Due(offset)
		if !ok {
			return
		}
		c.apply(&step)
	}
}

// applyUpTo applies the steps before an offset of the topic, because a row of a snapshot is as of there and of the next record.
func (c *controls) applyUpTo(placed, next int64) {
	for steps := c.order.Steps(); len(steps) > 0 && steps[0].Place < placed && steps[0].Before <= next; steps = c.order.Steps() {
		step, _ := c.order.Due(next)
		c.apply(&step)
	}
}

// apply applies a step: first what people decided, and then the rules.
func (c *controls) apply(s *control.Step) {
	l := c.ledger
	l.describe(inPlace)
	for i := range s.Records {
		r := &s.Records[i]
		if err := l.fold.Control(&r.Control, s.Before, r.Offset); err != nil {
			l.logger.Warn("control record refused", "id", r.Control.ID.String(), "action", r.Control.Action.String(), "offset", r.Offset, "error", err)
			continue
		}
		l.describeControl(&r.Control, s.Before)
		l.describe(s.Before)
		c.numbers.actions[r.Control.Action].Add(1)
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
