package analyzer

import (
	"context"
	"fmt"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/schemas/pb"
)

// merge restores a snapshot: it folds the log from where the snapshot began, and makes each row what the snapshot says it
// was as soon as the log has been folded up to there. So a row holds what it has counted, once, and the dedupe table and
// log time are those of the log. Nothing is committed before the last row is in place: until then the fold is of no
// prefix of the log.
func (o *Owner) merge(ctx context.Context, f *fetcher) error {
	var ahead fetched
	err := o.eachRow(ctx, o.snapshot, func(row *pb.StateRow) error {
		if err := o.foldUpTo(ctx, f, &ahead, row.GetNext()); err != nil {
			return err
		}
		err := o.fold.put(row.GetKey(), row.GetValue())
		failpoint.Here(failpoint.RowRestored)
		return err
	})
	if err != nil {
		return err
	}
	o.fold.endPuts()
	failpoint.Here(failpoint.SnapshotRestored)
	o.snapshot = nil
	return o.foldBatch(ahead)
}

// foldUpTo folds the records before an offset. What was fetched beyond it stays in ahead.
func (o *Owner) foldUpTo(ctx context.Context, f *fetcher, ahead *fetched, to int64) error {
	for o.next.Load() < to {
		for len(ahead.batch.Records) > 0 && ahead.batch.Records[0].Offset < to {
			if err := o.foldRecord(&ahead.batch.Records[0]); err != nil {
				return err
			}
			ahead.batch.Records = ahead.batch.Records[1:]
		}
		if len(ahead.batch.Records) > 0 {
			return nil // the log has none in between
		}
		o.next.Store(max(o.next.Load(), ahead.batch.Next))
		o.publish() // nothing, but it empties the fold's list of changes
		if o.next.Load() >= to {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case *ahead = <-f.batches:
			if ahead.err != nil {
				return ahead.err
			}
			o.report(*ahead)
			ahead.lost, ahead.batch.Skipped = 0, nil
		}
	}
	return nil
}

// changeRulesBefore applies the changes of rules that the log was counted by, up to those from offset−1 on.
func (o *Owner) changeRulesBefore(offset int64) error {
	for len(o.changes) > 0 && o.changes[0].from < offset {
		c := o.changes[0]
		o.changes = o.changes[1:]
		switch {
		case c.id == o.fold.Rules().ID():
		case c.set == nil:
			o.config.Logger.Warn("the log was counted by rules that are not known", "from", c.from, "rules_id", fmt.Sprintf("%016x", c.id))
		default:
			o.fold.SetRules(c.set)
			o.setRulesFrom(c.from)
			if o.snapshot != nil {
				continue // not before its last row is in place
			}
			if err := o.commitNow(); err != nil {
				return err
			}
		}
	}
	return nil
}
