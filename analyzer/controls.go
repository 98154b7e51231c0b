package analyzer

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/analyzer/control"
	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// controls applies what people have decided by hand, between two records of requests[p]: as soon as a record is read, or, while
// the log is folded again, where an owner had applied it. Only the owner's goroutine may use it, but for numbers.
type controls struct {
	log       kafkaio.Fetcher
	ledger    *ledger
	intake    *intake
	snapshots *snapshotter
	numbers   controlNumbers

	follower *control.Follower      // nil before the owner restores, and without a topic
	read     int64                  // what comes before this offset of the topic was read, …
	held     []control.Batch        // … and this of it is still to be applied
	count    int                    // records held
	places   []schemas.ControlPlace // that state[p] may lack
}

// controlNumbers is what others may see of controls.
type controlNumbers struct {
	follower   atomic.Pointer[control.Follower]
	later      atomic.Uint64
	unreadable atomic.Uint64
	lost       atomic.Uint64
	guessed    atomic.Uint64
	actions    [schemas.ControlRules + 1]atomic.Uint64
}

// maxHeld is how many control records are applied at one place, about: those of one fetch may come on top of it.
const maxHeld = 4096

// run reads the topic until ctx ends. follow was called before.
func (c *controls) run(ctx context.Context) {
	if c.follower != nil {
		c.follower.Run(ctx)
	}
}

// follow makes the follower, which reads from where the ledger stands.
func (c *controls) follow() {
	l := c.ledger
	if l.config.Control == "" {
		return
	}
	o := &l.config.Fold
	c.read = l.control.Load()
	if l.place != (schemas.ControlPlace{}) {
		c.places = append(c.places, l.place) // the owner may have died before it wrote this to state[p]
	}
	c.follower = control.NewFollower(c.log, control.NewTopic(l.config.Control, o.Key, o.Partition, o.Partitions), c.read, l.controlTail, l.logger)
	c.numbers.follower.Store(c.follower)
}

// next is where the owner receives what was read: nothing while something is held.
func (c *controls) next() <-chan control.Batch {
	if c.follower == nil || len(c.held) > 0 {
		return nil
	}
	return c.follower.Batches()
}

// hold puts a batch to those that are to be applied.
func (c *controls) hold(b control.Batch) {
	c.numbers.later.Add(b.Skipped.Later)
	c.numbers.unreadable.Add(b.Skipped.Unreadable)
	c.numbers.lost.Add(b.Skipped.Lost)
	if b.Again { // what was read of the old topic has no place in this one
		c.ledger.control.Store(b.First)
		c.ledger.controlTail = schemas.ControlTail{}
		c.held, c.count = nil, 0
		c.snapshots.beginAnew() // what the old topic held can be restored from a snapshot alone
	}
	c.read = b.Next
	c.held = append(c.held, b)
	c.count += len(b.Records)
}

// gather holds all that was read, without waiting.
func (c *controls) gather() {
	for c.follower != nil && c.count < maxHeld {
		select {
		case b, ok := <-c.follower.Batches():
			if !ok {
				return
			}
			c.hold(b)
		default:
			return
		}
	}
}

// turn applies what waits. It is called before each record, so it must cost next to nothing if nothing does.
func (c *controls) turn(ctx context.Context) error {
	if c.follower == nil || len(c.held) == 0 && len(c.follower.Batches()) == 0 || !c.ledger.current().Decides() {
		return nil
	}
	return c.apply(ctx)
}

// apply applies what is held and what waits, at the next offset, unless the partition may have another owner by now. What changes is
// published at once; it is in the store and in state[p] before anything else is folded.
func (c *controls) apply(ctx context.Context) error {
	c.gather()
	if now := time.Now(); len(c.held) == 0 || !c.ledger.config.Lease(now) || !c.snapshots.mayApply(now) {
		return nil
	}
	again := slices.ContainsFunc(c.held, func(b control.Batch) bool { return b.Again })
	c.ledger.events.Hold()
	applied := c.applyHeld()
	c.intake.publishControl(applied || again) // what heartbeats have said of the old topic is over
	if !applied {
		c.ledger.events.Release()
		return nil
	}
	c.ledger.showStats()
	failpoint.Here(failpoint.ControlApplied)
	if err := c.ledger.commitNow(); err != nil {
		return err // and what is held stays so: the next owner may choose another place
	}
	failpoint.Here(failpoint.ControlCommitted)
	c.snapshots.writePlaces(ctx, c.takePlaces())
	c.ledger.events.Release() // now state[p] has the place
	failpoint.Here(failpoint.ControlRecorded)
	return nil
}

// applyHeld applies what is held, and reports whether that were any records: if not, they are about other partitions.
func (c *controls) applyHeld() bool {
	l := c.ledger
	place := schemas.ControlPlace{From: l.next.Load(), First: l.control.Load(), Next: c.read}
	count := c.count
	place.Chain = l.place.Chain
	for _, b := range c.held {
		c.put(place.From, b.Records)
		place.Chain = control.Chain(place.Chain, place.From, b.Records)
		l.sawTail(b.Tail)
	}
	c.held, c.count = nil, 0
	l.control.Store(place.Next)
	if count == 0 {
		return false
	}
	l.place = place
	c.places = append(c.places, place)
	return true
}

// sawTail notes the last control record that was read.
func (l *ledger) sawTail(tail schemas.ControlTail) {
	if tail.CRC != 0 {
		l.controlTail = tail
	}
}

// put applies records at a place.
func (c *controls) put(from int64, records []control.Record) {
	l := c.ledger
	l.describe(inPlace)
	for i := range records {
		r := &records[i]
		if err := c.ledger.fold.Control(&r.Control, from, r.Offset); err != nil {
			c.ledger.logger.Warn("control record refused", "id", r.Control.ID.String(), "action", r.Control.Action.String(), "offset", r.Offset, "error", err)
			continue
		}
		l.describeControl(&r.Control, from)
		l.describe(from)
		c.numbers.actions[r.Control.Action].Add(1)
	}
}

// takePlaces returns the places that are not in state[p] yet.
func (c *controls) takePlaces() []schemas.ControlPlace {
	places := c.places
	c.places = nil
	return places
}

// ControlStats is what an owner has done with what people have decided by hand, since it was made.
type ControlStats struct {
	Next       int64                            // offset of the topic to apply
	End        int64                            // of the topic, as of the last answer
	Trouble    error                            // why the topic cannot be read now, or nil
	Again      uint64                           // how often the topic was made anew, or lost its end, and was read once more
	Applied    [schemas.ControlRules + 1]uint64 // records, by action
	Later      uint64                           // records of a later version: skipped
	Unreadable uint64                           // records that cannot be read: skipped
	Lost       uint64                           // records that the topic no longer held
	Guessed    uint64                           // records applied by their time, because their place was lost
}

// stats returns a snapshot. Any goroutine may call it.
func (n *controlNumbers) stats(next int64) ControlStats {
	s := ControlStats{Next: next, Later: n.later.Load(), Unreadable: n.unreadable.Load(), Lost: n.lost.Load(), Guessed: n.guessed.Load()}
	for i := range n.actions {
		s.Applied[i] = n.actions[i].Load()
	}
	if f := n.follower.Load(); f != nil {
		status := f.Status()
		s.End, s.Again, s.Trouble = status.End, status.Again, status.Trouble
	}
	return s
}
