package analyzer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/snapshot"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Owner owns one partition: it folds requests[p], keeps the counts in its store, and is the only writer of decisions[p].
// Make one with NewOwner and call Run once. Ask, SetRules, Stats and Next may be called from any goroutine.
//
// Only Run's goroutine uses its parts, unless they say otherwise.
type Owner struct {
	log    kafkaio.Log
	config OwnerConfig
	rules  chan *rules.Set

	ledger    *ledger       // what is counted
	intake    *intake       // takes batches to the ledger
	questions *questions    // answers questions about the ledger
	controls  *controls     // applies what the control topic says
	snapshots *snapshotter  // writes state[p]
	publisher *publisher    // writes decisions[p]
	rejects   *rejectWriter // writes what could not be counted
	events    *eventWriter  // writes what has happened
	pools     *poolSender   // writes tallies and levels to requests
	ahead     atomic.Uint64 // how many frames came from producers whose clocks are ahead
	drained   chan struct{} // closed when all that was counted is published and committed; the store is closed after that
}

// NewOwner returns an owner that has done nothing yet.
func NewOwner(log kafkaio.Log, c OwnerConfig) *Owner {
	c = c.withDefaults()
	c.Logger = c.Logger.With("partition", c.Fold.Partition)
	o := &Owner{log: log, rules: make(chan *rules.Set, 1), drained: make(chan struct{})}
	c.Fold.OnClockAhead = o.noteAhead
	o.config = c
	o.ledger = newLedger(c)
	o.questions = newQuestions(o.ledger)
	o.snapshots = newSnapshotter(log, o.ledger)
	o.rejects = newRejectWriter(log, c)
	o.events = newEventWriter(log, c, o.ledger.events)
	o.publisher = newPublisher(log, c, o.fillHeartbeat)
	o.pools = newPoolSender(log, c)
	o.intake = &intake{ledger: o.ledger, rejects: o.rejects, publisher: o.publisher, questions: o.questions, pools: o.pools}
	o.controls = newControls(log, o.ledger, o.intake, o.snapshots)
	o.intake.controls = o.controls
	return o
}

func (o *Owner) snapshotReader() *snapshot.Reader {
	return snapshot.NewReader(o.log, o.config.State, o.config.Fold.Partition, kafkaio.Always, o.config.Logger)
}

// Run owns the partition until ctx ends. Then it commits what it has counted and returns nil. It returns an error if another owner has
// claimed the partition (errFenced), or if the store cannot be used. Its caller may then start another owner.
func (o *Owner) Run(ctx context.Context) error {
	l := o.ledger
	defer l.enter(stateIdle)
	l.enter(stateOpening)
	if err := l.open(); err != nil {
		return err
	}
	defer func() {
		l.enter(stateIdle) // first, because closing the store waits while the disk is broken
		l.closeStore()
	}()
	failpoint.Here(failpoint.Opened)
	defer o.controls.close()
	defer o.pools.close()
	r, err := o.prepare(ctx)
	if err != nil {
		return ended(ctx, err)
	}
	fetchCtx, stopFetching := context.WithCancel(ctx)
	defer stopFetching()
	eventsCtx, stopEvents := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEvents()
	// The helpers outlive ctx: what was folded is still published and committed.
	helpers, helperCtx := errgroup.WithContext(context.WithoutCancel(ctx))
	f := newFetcher(o.log, o.config, l.next.Load(), l.tail)
	l.commits = newCommitter(l.store, l.config.Sync, l.took)
	helpers.Go(func() error { f.run(fetchCtx); return nil })
	helpers.Go(func() error { l.commits.run(); return nil })
	helpers.Go(func() error { o.snapshots.writer.Run(fetchCtx); return nil })
	helpers.Go(func() error { o.rejects.run(fetchCtx); return nil })
	helpers.Go(func() error { o.events.run(eventsCtx); return nil })
	helpers.Go(func() error { return o.publisher.run(helperCtx) })
	err = o.own(ctx, helperCtx, r, f)
	stopFetching()
	stopEvents()
	l.commits.close()
	o.publisher.close()
	err = errors.Join(err, helpers.Wait())
	failpoint.Here(failpoint.Drained)
	close(o.drained)
	return err
}

// prepare claims the partition, in decisions[p] and in the control topic, and decides what the owner starts from.
func (o *Owner) prepare(ctx context.Context) (*recovery, error) {
	l := o.ledger
	l.enter(stateClaiming)
	stored := l.store.Checkpoint().Epoch
	epoch, known, err := o.controls.ready(ctx)
	if err != nil {
		return nil, err
	}
	claimer := claimer{o.log, &o.config}
	claim, err := claimer.claim(ctx, epoch)
	if err != nil {
		return nil, fmt.Errorf("claim partition %d: %w", o.config.Fold.Partition, err)
	}
	l.epoch = claim.epoch
	o.publisher.setEpoch(claim.epoch, claim.end)
	o.snapshots.writer.SetEpoch(claim.epoch, claim.view.beat.State)
	o.snapshots.announcement.begin(claim.view.beat.State)
	l.enter(stateVerifying)
	r := &recovery{
		ledger: l, intake: o.intake, controls: o.controls, log: o.log, snapshots: o.snapshotReader(),
		beat: claim.view.beat, published: claim.view.published, away: !known && claim.before <= stored,
	}
	o.intake.frames = max(schemas.FrameVersion, claim.view.beat.Frames)
	if o.config.otherLog {
		r.beat.Events = 0 // the heartbeat is about the other log
	}
	if !r.away {
		if err := o.controls.take(ctx); err != nil {
			return nil, err
		}
	}
	if err := r.chooseStart(ctx); err != nil {
		return nil, fmt.Errorf("decide what to start from: %w", err)
	}
	_, end, err := r.requests().Range(ctx)
	l.beginEvents(r.beat.Events, end, r.snapshot)
	return r, err
}

// reconcile compares what gates believe with what is counted, and passes the difference to the publisher. Closures that gates hold and that
// are not in force here are opened. All closures in force are repeated, so that the first cycle of the new epoch is complete. Closures of a
// rule that has lost weight are not opened, because their callers may have lost their rows.
func (o *Owner) reconcile(published map[outbox.Key]schemas.Decision) {
	failpoint.Here(failpoint.Restored)
	now := time.Now().UnixNano()
	changes := o.ledger.fold.View().Closures(now)
	for i := range changes {
		changes[i].Offset = o.ledger.tail.Offset
	}
	o.publisher.reconcile(published, changes, now, func(d *schemas.Decision) bool {
		return o.ledger.fold.View().MayBeClosed(d.Rule, d.RuleVersion, d.Caller.ID)
	})
	failpoint.Here(failpoint.Reconciled)
}

// own restores the counts, and then folds until ctx or a helper ends.
func (o *Owner) own(ctx, helperCtx context.Context, r *recovery, f *fetcher) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(helperCtx, cancel)() // the helper's own error is what counts
	if err := o.restore(ctx, r, f); err != nil {
		return ended(ctx, fmt.Errorf("restore partition %d: %w", o.config.Fold.Partition, err))
	}
	o.publisher.start()
	o.ledger.enter(stateRunning)
	err := o.loop(ctx, f)
	close(o.questions.over)
	if err != nil {
		return err
	}
	o.ledger.enter(stateDraining)
	failpoint.Here(failpoint.Draining)
	o.events.drain(ctx)
	return o.ledger.commitAll()
}

// restore folds the log up to its end, places what is new in the control topic, and finds out what gates must learn.
func (o *Owner) restore(ctx context.Context, r *recovery, f *fetcher) error {
	o.ledger.enter(stateRestoring)
	if err := o.controls.begin(ctx); err != nil {
		return err
	}
	if err := r.refold(ctx, f); err != nil {
		return err
	}
	if err := o.controls.turn(ctx); err != nil {
		return err
	}
	o.ledger.enter(stateReconciling)
	o.reconcile(r.published)
	return nil
}

// loop is the main loop of an owner: it folds what was fetched, publishes what changed, and commits from time to time.
func (o *Owner) loop(ctx context.Context, f *fetcher) error {
	tick := time.NewTicker(o.config.Checkpoint / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case set := <-o.rules:
			o.controls.setRules(set)
			o.controls.wake()
		case b, ok := <-o.controls.batches():
			if !ok {
				return ended(ctx, ctx.Err())
			}
			if err := o.controls.receiveAndPlace(ctx, &b); err != nil {
				return ended(ctx, err)
			}
		case <-o.controls.again: // what waits in the log has its turn between two places, too
			if err := o.controls.turn(ctx); err != nil {
				return ended(ctx, err)
			}
		case q := <-o.questions.waiting:
			o.questions.answer(q)
		case b, ok := <-f.batches:
			if !ok {
				return ended(ctx, f.err(ctx))
			}
			failpoint.Here(failpoint.Fetched)
			if err := o.intake.take(ctx, &b); err != nil {
				return ended(ctx, err)
			}
		case result := <-o.ledger.commits.done:
			if err := o.ledger.commitEnded(result); err != nil {
				return err
			}
		case <-o.snapshots.writer.Done():
			o.snapshots.hurry()
		case now := <-tick.C:
			o.snapshots.step(now)
			o.config.closeLog.flush(now)
			if err := o.controls.turn(ctx); err != nil { // for what came while there was no lease
				return ended(ctx, err)
			}
		}
		o.ledger.commitIfDue(time.Now())
	}
}

// noteAhead counts a frame whose producer's clock is ahead of the message's time by more than a broker allows.
func (o *Owner) noteAhead(id schemas.ProducerID, ahead time.Duration) {
	if ahead > kafkaio.MaxAhead {
		o.ahead.Add(1)
		o.config.clockNames.name(id, ahead)
	}
}

// Next returns the next offset to fold.
func (o *Owner) Next() int64 { return o.ledger.next.Load() }

// Stats returns a snapshot. Its numbers of the fold are as of the last batch.
func (o *Owner) Stats() OwnerStats {
	return OwnerStats{
		Partition: o.config.Fold.Partition, State: o.ledger.current(), Next: o.Next(), End: max(o.ledger.end.Load(), o.Next()), Committed: o.ledger.durable.Load(),
		Fold: *o.ledger.stats.Load(), Publish: o.publisher.numbers.stats(), Snapshots: o.snapshots.writer.Cycles(),
		SnapshotAge: o.snapshots.age(time.Now()), Restore: time.Duration(o.ledger.restored.Load()),
		Unshown: o.rejects.dropped.Load(), Ahead: o.ahead.Load(), OtherLogs: o.ledger.otherLogs.Load(), Commits: o.ledger.took.Snapshot(),
		Control: o.controls.counters.stats(o.ledger.control.Load()), Events: o.ledger.events.Stats(), PoolReplaced: o.pools.dropped.Load(),
	}
}

// ended returns nil in place of an error that only says that ctx has ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it is what this is for
	}
	return err
}

// fillHeartbeat sets how far this owner is, which snapshot it announces, before which offset all events are written, and which rules count.
func (o *Owner) fillHeartbeat(b *schemas.Heartbeat) {
	mark := o.ledger.mark.Load()
	b.Watermark, b.RulesID, b.RulesFrom, b.Frames = o.ledger.next.Load(), mark.id, mark.from, o.intake.frames
	b.End = max(o.ledger.end.Load(), b.Watermark)
	b.State, b.Events = o.snapshots.announcement.next(o.snapshots.writer.Complete(), time.Now(), o.ledger.events.Acked), o.ledger.eventsMark()
}

// SetRules changes the rules that the owner counts by, from the next record on that it folds.
func (o *Owner) SetRules(set *rules.Set) {
	for {
		select {
		case o.rules <- set:
			return
		default:
		}
		select {
		case <-o.rules: // an older set that is not in use yet
		default:
		}
	}
}
