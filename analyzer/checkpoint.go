package analyzer

import (
	"context"
	"errors"
	"hash/crc32"
	"time"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// castagnoli is the polynomial of the checksums in records and frames (RFC 3720).
func castagnoli(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// foldBatch folds what was fetched and hands what changed to the publisher. Checkpoints fall between records.
func (o *Owner) foldBatch(b fetched) error {
	if b.err != nil {
		return b.err
	}
	o.report(b)
	for i := range b.batch.Records {
		if err := o.foldRecord(&b.batch.Records[i]); err != nil {
			return err
		}
	}
	o.next.Store(max(o.next.Load(), b.batch.Next))
	failpoint.Here(failpoint.BatchFolded)
	o.publish()
	o.showStats()
	return nil
}

// report counts what could not be had of the log.
func (o *Owner) report(b fetched) {
	if b.lost > 0 {
		o.fold.stats.Lost += uint64(b.lost) // > 0
		o.config.Logger.Error("log no longer holds records that were not counted", "lost", b.lost)
	}
	for _, s := range b.batch.Skipped {
		if s.Reason == kafkaio.SkipControl {
			continue // nobody's record
		}
		o.fold.stats.Rejected[string(s.Reason)] += uint64(max(1, s.To-s.From+1)) // ≥ 1
		o.rejects.offer(time.Now(), s.From, string(s.Reason), nil)
		o.config.Logger.Error("skipped records", "from", s.From, "to", s.To, "reason", s.Reason, "error", s.Err)
	}
}

// foldRecord folds one record. One that is refused is counted; the fold goes on.
func (o *Owner) foldRecord(r *kafkaio.Record) error {
	if err := o.changeRulesBefore(r.Offset + 1); err != nil {
		return err
	}
	if o.snapshot == nil && o.fold.Dirty() >= o.store.MaxChanges()/2 {
		if err := o.commitNow(); err != nil {
			return err
		}
	}
	err := o.fold.Frame(Record{Offset: r.Offset, Time: r.Time, Value: r.Value})
	if err != nil {
		o.rejects.offer(time.Now(), r.Offset, reasonOf(err), r.Value)
		o.config.Logger.Debug("refused record", "offset", r.Offset, "error", err)
	}
	o.tailOffset, o.tailCRC = r.Offset, castagnoli(r.Value)
	o.next.Store(r.Offset + 1)
	failpoint.Here(failpoint.RecordFolded)
	return nil
}

// publish hands what the fold changed to the publisher. While the owner restores, nothing is published.
func (o *Owner) publish() {
	changes, canaries := o.fold.TakeChanges(), o.fold.TakeCanaries()
	if s := State(o.state.Load()); s == Running || s == MemoryOnly {
		o.publisher.offer(changes, canaries, o.fold.LogTime())
	}
	for i := range changes {
		if changes[i].Kind == policy.Same {
			o.config.Logger.Info("warning", "rule", changes[i].Rule.Name, "caller", changes[i].Caller.String(),
				"share", changes[i].Warn, "count", changes[i].Count.Total, "limit", changes[i].Limit)
		}
	}
}

func (o *Owner) showStats() {
	s := o.fold.Stats()
	o.stats.Store(&s)
}

// unrestored is the epoch of a store whose owner has not yet folded all that others had counted: by which rules the rest
// was counted is still to be found out.
const unrestored = 0

func (o *Owner) checkpoint() store.Checkpoint {
	epoch := o.claimed
	if State(o.state.Load()) <= Restoring {
		epoch = unrestored
	}
	return store.Checkpoint{
		Next: o.next.Load(), RulesID: o.fold.Rules().ID(), RulesFrom: o.rulesFrom, Epoch: epoch,
		LogTime: o.fold.LogTime(), TailOffset: o.tailOffset, TailCRC: o.tailCRC,
	}
}

// maybeCommit starts a checkpoint when one is due and none is under way.
func (o *Owner) maybeCommit(now time.Time) error {
	if o.commits.busy || now.Sub(o.committed) < o.config.Checkpoint {
		return nil
	}
	if o.next.Load() == o.store.Checkpoint().Next && o.commits.rest.changes == nil {
		return nil
	}
	o.committed = now
	o.commits.start(o.job())
	return nil
}

// job is the next checkpoint: what a full disk has left over, or what has changed since.
func (o *Owner) job() job {
	if o.commits.rest.changes != nil {
		return o.commits.rest
	}
	return job{at: o.checkpoint(), changes: o.fold.TakeDirty()}
}

// committedOne takes note of how a checkpoint ended. A full disk is no reason to stop deciding.
func (o *Owner) committedOne(r result) error {
	o.commits.busy, o.commits.rest = false, r.rest
	state := State(o.state.Load())
	running := state == Running || state == MemoryOnly
	if r.err == nil {
		o.durable.Store(o.store.Checkpoint().Next)
	}
	switch {
	case r.err == nil && running:
		o.setState(Running)
	case errors.Is(r.err, store.ErrNoSpace) && state != Draining:
		if state != MemoryOnly { // said once
			o.config.Logger.Error("cannot checkpoint: counting goes on in memory", "error", r.err)
		}
		if running {
			o.setState(MemoryOnly)
		}
		return nil
	}
	return r.err
}

// commitNow waits for the checkpoint under way and for one more. With the disk full it does nothing.
func (o *Owner) commitNow() error {
	if err := o.settle(); err != nil || o.commits.rest.changes != nil {
		return err
	}
	o.commits.start(o.job())
	o.committed = time.Now()
	return o.settle()
}

// settle waits for the checkpoint under way, if there is one.
func (o *Owner) settle() error {
	if !o.commits.busy {
		return nil
	}
	return o.committedOne(<-o.commits.done)
}

// commitAll leaves nothing uncommitted, or says so.
func (o *Owner) commitAll() error {
	if err := o.settle(); err != nil {
		return err
	}
	for o.commits.rest.changes != nil || o.next.Load() != o.store.Checkpoint().Next {
		o.commits.start(o.job())
		if err := o.settle(); err != nil {
			return err
		}
	}
	return nil
}

// changeRules commits the offset from which the new rules count, to the store and then to state[p], before it folds that
// offset.
func (o *Owner) changeRules(ctx context.Context, set *rules.Set) error {
	if set.ID() == o.fold.Rules().ID() {
		return nil
	}
	o.fold.SetRules(set)
	o.setRulesFrom(o.next.Load())
	o.config.Logger.Info("rules changed", "from", o.rulesFrom, "rules", len(set.Rules))
	o.publish()
	o.showStats()
	failpoint.Here(failpoint.RulesChanged)
	if err := o.commitNow(); err != nil {
		return err
	}
	failpoint.Here(failpoint.RulesCommitted)
	o.recordRules(ctx)
	return nil
}
