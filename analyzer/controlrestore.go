package analyzer

import (
	"context"
	"errors"
	"time"

	"github.com/509da70d/floodgate/analyzer/control"
	"github.com/509da70d/floodgate/analyzer/snapshot"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// standing says how a store agrees with the places of control records that owners have noted in state[p].
type standing int

const (
	agrees       standing = iota // it was folded with the places that count
	unproven                     // nothing says so: only a snapshot is sure to be right
	contradicted                 // it was folded with other ones
)

// standing finds out where control records were applied since the store was written, and how the store agrees with that. An owner that
// was replaced, and has not noticed it yet, applies records at places that do not count, or does not apply records that do.
func (r *recovery) standing(ctx context.Context, at store.Checkpoint) (standing, error) {
	own := at.Epoch != unrestored && r.claimed <= at.Epoch // nobody else has owned the partition since
	if r.ledger.config.Control == "" || own && r.beat.Control <= at.Control {
		return agrees, nil // nobody has applied any since
	}
	begin, err := r.snapshots.BeginAt(ctx, r.beat.State-1)
	if err != nil {
		return agrees, err
	}
	from := int64(0)
	switch {
	case begin == nil:
	case begin.GetOffset() <= at.Next, begin.GetControl() == at.Control && snapshot.PlaceOf(begin.GetPlace()) == at.Place:
		from = r.beat.State - 1
	default:
		return unproven, nil // records were applied between: only the snapshot knows where, unless all of state[p] is read
	}
	if err := r.readPlaces(ctx, from); err != nil {
		return agrees, err
	}
	is := standingOf(&at, r.places.List, &r.beat)
	if known := r.known(); known.Last >= 0 && known.Last < at.Next && known.Limit > max(at.Control, lastNext(r.places.List)) {
		is = contradicted // the last ones were applied before that, and nothing else says where
	}
	if own && is == unproven {
		is = agrees // it is this store's owner who had to note it
	}
	return is, nil
}

// lastNext returns the offset of the control topic behind the records of the last place.
func lastNext(places []schemas.ControlPlace) int64 {
	if n := len(places); n > 0 {
		return places[n-1].Next
	}
	return 0
}

// readPlaces reads where control records were applied, from an offset of state[p] up to our mark.
func (r *recovery) readPlaces(ctx context.Context, from int64) (err error) {
	start, _, err := r.snapshots.Range(ctx)
	if err != nil {
		return err
	}
	r.places, err = r.snapshots.Places(ctx, max(from, start), r.mark)
	r.placesWhole = from > 0 || r.places.Epoch >= r.beat.Epoch
	return err
}

// standingOf compares a store with the places that owners have noted. A store whose last place was noted has all others from the same
// owner, who had noted them before, or from one before it: the chain says so.
func standingOf(at *store.Checkpoint, places []schemas.ControlPlace, beat *schemas.Heartbeat) standing {
	noted := at.Place == schemas.ControlPlace{}
	for _, p := range places {
		switch {
		case p.From < at.Next && p.Next > at.Control: // passed over
			return contradicted
		case p == at.Place:
			noted = true
		case p.First < at.Place.Next && at.Place.First < p.Next: // the same records elsewhere, or behind others
			return contradicted
		}
	}
	switch {
	case noted:
		return agrees
	case beat.Epoch > at.Epoch && at.Epoch != unrestored && beat.Control < at.Control && beat.Watermark > at.Place.From:
		return contradicted // others went on without
	}
	return unproven
}

// known is what is known of the places of the control records that are to be applied again.
func (r *recovery) known() control.Known {
	k := control.Known{Control: r.ledger.control.Load(), Places: r.places.List, Limit: r.beat.Control, Last: -1}
	if r.placesWhole {
		k.Last = r.beat.Watermark // its owner has folded no record behind the place, or had noted it
	}
	if r.snapshot != nil {
		k.Limit = max(k.Limit, r.snapshot.Control)
	}
	return k
}

const (
	missingWait = 2 * time.Second       // how long an owner that restores waits for a topic that is not there
	missingPoll = 50 * time.Millisecond // how often it looks
)

// readAhead reads the topic of control up to its end, and makes the schedule of what is to be applied again. The rest is held. If
// the topic is not there, the schedule is empty: what a snapshot or the store says is in force all the same.
func (c *controls) readAhead(ctx context.Context, k control.Known) error {
	if c.follower == nil {
		return nil
	}
	c.snapshots.writePlaces(ctx, c.takePlaces()) // before a later place is all that the store knows
	end, err := c.topicEnd(ctx)
	if err != nil {
		return ctx.Err()
	}
	if err := c.readUpTo(ctx, end); err != nil {
		return err
	}
	k.Limit = min(k.Limit, c.read)
	var records []control.Record
	for _, b := range c.held {
		if b.Again { // what is noted is about another topic
			c.ledger.schedule = control.Schedule{}
			return nil
		}
		records = append(records, b.Records...)
	}
	for len(k.Places) > 0 && k.Places[len(k.Places)-1].Next > c.read {
		k.Places = k.Places[:len(k.Places)-1]
	}
	c.ledger.schedule = *control.NewSchedule(records, k)
	limit := c.ledger.schedule.Limit()
	for _, b := range c.held {
		if b.Next <= limit {
			c.ledger.sawTail(b.Tail)
		}
	}
	n := 0
	for n < len(records) && records[n].Offset < limit {
		n++
	}
	c.held, c.count = nil, 0
	if limit < c.read {
		c.held, c.count = []control.Batch{{Records: records[n:], First: limit, Next: c.read}}, len(records)-n
	}
	return nil
}

// topicEnd returns the end of the topic.
func (c *controls) topicEnd(ctx context.Context) (int64, error) {
	cursor := kafkaio.NewCursor(c.log, kafkaio.CursorConfig{Topic: c.ledger.config.Control, SameTopic: true})
	_, end, err := cursor.Range(ctx)
	return end, err
}

// readUpTo holds what the topic has before an offset. It gives up if the topic is not there.
func (c *controls) readUpTo(ctx context.Context, end int64) error {
	tick := time.NewTicker(missingPoll)
	defer tick.Stop()
	missing := time.Now().Add(missingWait)
	for c.read < end {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b, ok := <-c.follower.Batches():
			if !ok {
				return errors.Join(ctx.Err(), context.Canceled)
			}
			c.hold(b)
		case now := <-tick.C:
			if s := c.follower.Status(); !s.Missing() {
				missing = now.Add(missingWait)
			} else if now.After(missing) {
				return nil
			}
		}
	}
	return nil
}

// applyBefore applies the control records that were applied before a record of requests[p], while the log is folded again.
func (c *controls) applyBefore(offset, at int64) error {
	for {
		due, ok := c.ledger.schedule.Before(offset, at)
		if !ok {
			return nil
		}
		if err := c.applyDue(&due); err != nil {
			return err
		}
	}
}

// applyUpTo applies the control records that a row of a snapshot is as of.
func (c *controls) applyUpTo(control, next int64) error {
	for {
		due, ok := c.ledger.schedule.UpTo(control, next)
		if !ok {
			return nil
		}
		if err := c.applyDue(&due); err != nil {
			return err
		}
	}
}

// applyRest applies what owners before this one had applied at the end of the log.
func (c *controls) applyRest() error {
	l := c.ledger
	for {
		due, ok := l.schedule.Rest(l.next.Load())
		if !ok {
			break
		}
		if err := c.applyDue(&due); err != nil {
			return err
		}
	}
	if n := l.schedule.Guessed; n > 0 {
		c.numbers.guessed.Add(n)
		l.logger.Warn("control records were applied by their time, because nothing says where they were applied at first", "records", n)
	}
	l.schedule = control.Schedule{}
	return nil
}

// applyRestored applies what nobody has applied before, when the log was folded to its end: gates must not learn of anything that a
// person has undone.
func (c *controls) applyRestored(ctx context.Context) error {
	l := c.ledger
	c.snapshots.writePlaces(ctx, c.takePlaces()) // likewise
	l.events.Hold()
	if now := time.Now(); l.config.Lease(now) && c.snapshots.mayApply(now) && len(c.held) > 0 {
		c.applyHeld()
	}
	c.intake.publish(true) // nothing, but it empties the fold's list of changes
	c.intake.publisher.applied.Store(l.control.Load())
	if l.control.Load() != l.store.Checkpoint().Control {
		if err := l.commitNow(); err != nil {
			return err // and what is held stays so
		}
	}
	c.snapshots.writePlaces(ctx, c.takePlaces())
	l.events.Release() // now state[p] has the place
	return nil
}

// applyDue applies what is due of the schedule.
func (c *controls) applyDue(d *control.Due) error {
	l := c.ledger
	if err := l.changeRulesTo(d.Place.From, d.Place.First); err != nil {
		return err
	}
	c.put(d.Place.From, d.Records)
	l.control.Store(d.Place.Next)
	if len(d.Records) > 0 {
		d.Place.Chain = control.Chain(l.place.Chain, d.Place.From, d.Records)
		l.place = d.Place
		if !d.Noted {
			c.places = append(c.places, d.Place)
		}
	}
	return nil
}
