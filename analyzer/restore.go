package analyzer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Errors of an Owner. Test with errors.Is.
var (
	// ErrFenced says that another owner has claimed the partition.
	ErrFenced = errors.New("partition was claimed by another")
	// ErrLogTruncated says that the log ends before what was counted: the topic was truncated or made anew.
	ErrLogTruncated = errors.New("log ends before what was counted")
	// ErrTopicAway says that the topic was not there for a while: whether it is still the same log is to be verified.
	ErrTopicAway = errors.New("topic was away")
)

// open opens the store and reads its rows. A store that can't be trusted is moved aside, and counting starts from the
// log: that is slower, never wrong.
func (o *Owner) open() error {
	err := o.load()
	if err == nil || errors.Is(err, store.ErrLocked) {
		return err
	}
	return o.quarantine(err)
}

// load opens the store and fills a new fold from it.
func (o *Owner) load() error {
	o.fold = NewFold(o.config.Rules, o.config.Fold)
	s, err := o.openStore(o.config.Dir, o.config.Store)
	if errors.Is(err, store.ErrNoSpace) {
		o.config.Logger.Error("cannot open store: counting from snapshot and log, in memory", "error", err)
		o.store = noStore{func() (rowStore, error) { return o.openStore(o.config.Dir, o.config.Store) }}
		return nil
	}
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	o.store = s
	at := s.Checkpoint()
	o.durable.Store(max(at.Next, 0))
	if at.Next == incomplete {
		return fmt.Errorf("%w: the last checkpoint is incomplete", store.ErrCorrupt)
	}
	if err := s.Load(o.fold.Restore); err != nil {
		return fmt.Errorf("load store: %w", err)
	}
	if at == (store.Checkpoint{}) {
		return nil
	}
	o.fold.Resume(at.LogTime)
	o.next.Store(at.Next)
	o.tailOffset, o.tailCRC = at.TailOffset, at.TailCRC
	o.setRulesFrom(at.RulesFrom)
	if at.RulesID != o.config.Rules.ID() {
		o.fold.SetRules(o.config.Rules) // the same windows, decided upon by other rules
		o.setRulesFrom(at.Next)
	}
	return nil
}

// quarantine moves the store aside because of why, and starts an empty one.
func (o *Owner) quarantine(why error) error {
	o.closeStore()
	moved, err := store.Quarantine(o.config.Dir, time.Now())
	if err != nil {
		return fmt.Errorf("move aside a store that cannot be used (%w): %w", why, err)
	}
	failpoint.Here(failpoint.Quarantined)
	o.config.Logger.Error("store moved aside, counting anew from snapshot and log", "to", moved, "error", why)
	o.next.Store(0)
	o.tailOffset, o.tailCRC = 0, 0
	if err := o.load(); err != nil {
		return err
	}
	o.setRulesFrom(0)
	return nil
}

func (o *Owner) closeStore() {
	if o.store == nil {
		return
	}
	if err := o.store.Close(); err != nil {
		o.config.Logger.Error("close store", "error", err)
	}
	o.store = nil
}

// verify checks that the store belongs to this log: that the log reaches as far, and that the last record counted is
// still the same one, if the log still holds it.
func (o *Owner) verify(ctx context.Context) error {
	start, end, err := o.rangeOf(ctx, o.config.Requests)
	if err != nil {
		return err
	}
	next := o.next.Load()
	if next == 0 {
		o.next.Store(start)
		return nil
	}
	failpoint.Here(failpoint.Verifying)
	why := ErrLogTruncated
	if next <= end {
		if o.tailOffset < start || o.tailOffset >= next {
			return nil
		}
		same, err := o.sameTail(ctx, o.tailOffset, o.tailCRC)
		if err != nil || same {
			return err
		}
		why = errors.New("the last record counted is not the log's")
	}
	if err := o.quarantine(why); err != nil {
		return err
	}
	o.next.Store(start)
	return nil
}

// sameTail fetches a record that was counted and compares it.
func (o *Owner) sameTail(ctx context.Context, offset int64, crc uint32) (bool, error) {
	for wait := retryFirst; ; wait = min(2*wait, retryLast) {
		b, err := o.log.Fetch(ctx, kafkaio.FetchRequest{
			Topic: o.config.Requests, Partition: o.config.Fold.Partition, Offset: offset,
			MaxWait: fetchWait, MinBytes: fetchMinLen, MaxBytes: fetchMinLen,
		})
		switch {
		case err == nil && len(b.Records) > 0:
			return b.Records[0].Offset == offset && castagnoli(b.Records[0].Value) == crc, nil
		case err == nil && b.Next > offset, errors.Is(err, kafkaio.ErrOffsetOutOfRange), errors.Is(err, kafkaio.ErrCorrupt):
			return false, nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		}
		sleep(ctx, wait)
	}
}

// restore folds what the log holds beyond the store or the snapshot. Nothing is published meanwhile.
func (o *Owner) restore(ctx context.Context, f *fetcher) error {
	if o.snapshot != nil {
		if err := o.merge(ctx, f); err != nil {
			return fmt.Errorf("restore snapshot: %w", err)
		}
	}
	_, end, err := o.rangeOf(ctx, o.config.Requests)
	if err != nil {
		return err
	}
	for o.next.Load() < end {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b := <-f.batches:
			if err := o.foldBatch(b); err != nil {
				return err
			}
			failpoint.Here(failpoint.BatchRefolded)
		case r := <-o.commits.done:
			if err := o.committedOne(r); err != nil {
				return err
			}
		}
		if err := o.maybeCommit(time.Now()); err != nil {
			return err
		}
	}
	if err := o.changeRulesBefore(o.next.Load() + 1); err != nil {
		return err
	}
	o.changes = nil
	o.showStats()
	if err := o.changeRules(ctx, o.config.Rules); err != nil {
		return err
	}
	o.setState(Reconciling)
	return o.commitRestored()
}

// commitRestored commits that restoring is over, and by which rules, if the store says otherwise.
func (o *Owner) commitRestored() error {
	if err := o.settle(); err != nil {
		return err
	}
	at := o.store.Checkpoint()
	if at == (store.Checkpoint{}) || at.Epoch != unrestored && at.RulesID == o.fold.Rules().ID() {
		return nil
	}
	return o.commitNow()
}

// reconcile compares what gates were told with what is counted, and hands the difference to the publisher: closures that
// are not in force here open, and all that are in force are repeated, so that the first cycle of the new epoch is whole.
func (o *Owner) reconcile(ctx context.Context) error {
	failpoint.Here(failpoint.Restored)
	told, err := o.readDecisions(ctx)
	if err != nil {
		return err
	}
	now := time.Now().UnixNano()
	var changes []Change
	o.fold.table.each(func(_ uint32, r *row) bool {
		if now >= r.closure.Until {
			return true
		}
		rule := o.fold.set.Rules[r.rule]
		limit, _ := rule.LimitFor(r.id)
		changes = append(changes, Change{
			Rule: rule, Caller: schemas.Caller{Kind: rule.Kind, ID: r.id}, Kind: policy.Moved, Closure: r.closure,
			Count: rule.Window.View(r.state, limit, o.fold.now), Limit: limit, At: r.closure.CloseAt, Offset: o.tailOffset,
		})
		return true
	})
	o.publisher.reconcile(told, changes, now)
	failpoint.Here(failpoint.Reconciled)
	return nil
}
