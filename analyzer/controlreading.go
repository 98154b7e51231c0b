package analyzer

import (
	"context"
	"errors"
	"fmt"

	"github.com/509da70d/floodgate/analyzer/control"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// controlReader is a running follower, and the means to stop it.
type controlReader struct {
	*control.Follower

	stop context.CancelFunc
	done chan struct{}
}

// reading is what the control topic says after the place that a mark names.
type reading struct {
	*control.Order

	skipped control.Skipped
	found   bool // the topic has the place that the mark names
}

// read reads what the topic says after the place that a mark names, and the rules that count there. It waits while the topic is away.
// The error is errFenced if the topic has a take or place of a later owner.
func (c *controls) read(ctx context.Context, at control.Mark, id uint64) (r *reading, err error) {
	r = new(reading)
	r.Order, r.skipped, r.found, err = control.Read(ctx, c.log, c.topic, at, c.retry)
	if err != nil {
		return nil, fmt.Errorf("read the control topic: %w", err)
	}
	c.counters.trouble.Store(nil)
	if epoch := c.ledger.epoch; epoch > 0 && r.Epoch() > epoch {
		return nil, errFenced
	}
	if noted, ok := r.Noted(id); ok {
		err = c.learn(ctx, id, noted)
	}
	for _, s := range r.Steps() {
		if err == nil {
			err = c.learn(ctx, s.RulesID, s.RulesAt)
		}
		if noted, ok := r.Noted(s.RulesID); err == nil && ok {
			err = c.learn(ctx, s.RulesID, noted)
		}
	}
	return r, err
}

// learn reads the rules of an id, unless they are known.
func (c *controls) learn(ctx context.Context, id uint64, offset int64) error {
	if c.sets[id] != nil {
		return nil
	}
	set, err := control.Rules(ctx, c.log, c.topic, id, offset, c.retry)
	if errors.Is(err, control.ErrNoRules) {
		return nil
	}
	c.sets[id] = set
	return err
}

// use takes over a reading, and follows the topic from there. A nil reading says that the topic is away.
func (c *controls) use(ctx context.Context, r *reading) {
	if r == nil {
		c.follow(ctx, kafkaio.Earliest)
		return
	}
	c.order, c.appended = r.Order, false
	c.counters.add(r.skipped)
	r.skipped.Log(c.ledger.logger, r.Next())
	c.follow(ctx, r.Next())
	c.note()
}

// follow reads the topic ahead from an offset on, until ctx ends.
func (c *controls) follow(ctx context.Context, offset int64) {
	c.close()
	ctx, stop := context.WithCancel(ctx)
	f := &controlReader{control.NewFollower(c.log, c.topic, offset, c.ledger.logger), stop, make(chan struct{})}
	go func() {
		defer close(f.done)
		f.Run(ctx)
	}()
	c.reader = f
	c.counters.follower.Store(f.Follower)
}

// close stops the follower, and waits for its end.
func (c *controls) close() {
	if c.reader != nil {
		c.reader.stop()
		<-c.reader.done
		c.reader = nil
	}
}

// batches returns the channel of batches that were read. It is nil while maxWaiting decisions wait for a place.
func (c *controls) batches() <-chan control.Batch {
	if c.reader == nil || c.order == nil && c.topicReadable || c.order != nil && len(c.order.Waiting()) >= maxWaiting {
		return nil
	}
	return c.reader.Batches()
}

// errOtherTopic says that the control topic was made anew, or has lost its end.
var errOtherTopic = errors.New("the control topic is another one")

// receive takes a batch that was read. The error is errFenced or errOtherTopic.
func (c *controls) receive(b *control.Batch) error {
	if c.order == nil || b.Again {
		c.order, c.topicReadable = nil, true
		return errOtherTopic
	}
	c.counters.add(b.Skipped)
	for i := range b.Records {
		c.order.Add(&b.Records[i])
	}
	c.order.ReadTo(b.Next)
	if c.order.Epoch() > c.ledger.epoch {
		return errFenced
	}
	return nil
}

// receiveAndPlace receives a batch, and then places what is new.
func (c *controls) receiveAndPlace(ctx context.Context, b *control.Batch) error {
	if err := c.receive(b); err != nil && !errors.Is(err, errOtherTopic) {
		return err
	}
	return c.turn(ctx)
}

// join begins to use a topic that could not be read until now, or that was made anew. What is in force stays in force.
func (c *controls) join(ctx context.Context) error {
	if !c.topicReadable {
		return nil
	}
	l := c.ledger
	limited, cancel := context.WithTimeout(ctx, topicWait)
	defer cancel()
	c.topicReadable = false
	r, err := c.takeAndRead(limited)
	switch {
	case err == nil:
	case limited.Err() != nil && ctx.Err() == nil: // away again
		c.follow(ctx, kafkaio.Earliest)
		return nil
	default:
		return err
	}
	if r.found && r.PassedOver(l.next.Load(), l.placed.Placed) {
		return errReplaced
	}
	if !r.found {
		c.forget(r, l.next.Load())
	}
	c.use(ctx, r)
	return c.place(ctx)
}

// takeAndRead appends a take, and reads what the topic says after the last place that was applied.
func (c *controls) takeAndRead(ctx context.Context) (*reading, error) {
	if err := c.take(ctx); err != nil {
		return nil, err
	}
	return c.read(ctx, c.ledger.placed, c.ledger.fold.Rules().ID())
}

// ready waits until the topic can be read, and returns the highest epoch in the topic or the store. If the store was counted by this
// owner's own rules, it waits for topicWait only; known is false if the topic could not be read in that time.
func (c *controls) ready(ctx context.Context) (epoch uint64, known bool, err error) {
	l := c.ledger
	at := l.store.Checkpoint()
	limited, cancel := ctx, context.CancelFunc(func() {})
	if at.Placed > 0 && at.RulesID == l.config.Rules.ID() {
		limited, cancel = context.WithTimeout(ctx, topicWait)
	}
	defer cancel()
	r, err := c.read(limited, l.placed, 0)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return at.Epoch, false, nil
	} else if err != nil {
		return 0, false, err
	}
	return max(at.Epoch, r.Epoch()), true, nil
}

// forget drops the places of a new topic that stand before an offset of requests[p]: the old topic has said what applies there.
func (c *controls) forget(r *reading, offset int64) {
	c.ledger.logger.Error("the control topic was made anew, or has lost its end: what is in force stays")
	c.counters.again.Add(1)
	c.ledger.config.notes.forget()
	c.snapshots.beginAnew() // no snapshot has places of two topics
	r.Forget(offset)
}
