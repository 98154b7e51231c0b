package analyzer

import (
	"context"
	"fmt"
	"time"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// refold folds the records after those that the store or the snapshot has, up to the end that the log has when refold reads it.
func (r *recovery) refold(ctx context.Context, f *fetcher) error {
	l := r.ledger
	if r.snapshot != nil {
		if err := r.restoreSnapshot(ctx, f); err != nil {
			return fmt.Errorf("restore snapshot: %w", err)
		}
	}
	_, end, err := r.requests().Range(ctx)
	if err != nil {
		return err
	}
	for l.next.Load() < end {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b, ok := <-f.batches:
			if !ok {
				return f.err(ctx)
			}
			if err := r.intake.take(ctx, &b); err != nil {
				return err
			}
			failpoint.Here(failpoint.BatchRefolded)
		case result := <-l.commits.done:
			if err := l.commitEnded(result); err != nil {
				return err
			}
		}
		l.commitIfDue(time.Now())
	}
	r.controls.applyBefore(l.next.Load())
	l.showStats()
	return nil
}

// restoreSnapshot folds the log from where the snapshot began. Each row of the snapshot is as of some offset. When the log is folded up to
// that offset, the row replaces the fold's row. So each row has counted each record once, and the dedupe table and log time are those of
// the log. Nothing is committed before the last row is in place, because until then the fold matches no prefix of the log.
func (r *recovery) restoreSnapshot(ctx context.Context, f *fetcher) error {
	l := r.ledger
	var ahead kafkaio.Batch
	err := r.snapshots.EachRow(ctx, r.snapshot, func(row *pb.StateRow) error {
		if err := r.foldUpTo(ctx, f, &ahead, row.GetNext()); err != nil {
			return err
		}
		r.controls.applyUpTo(row.GetPlaced(), row.GetNext())
		err := l.fold.Put(row.GetKey(), row.GetValue())
		failpoint.Here(failpoint.RowRestored)
		return err
	})
	if err != nil {
		return err
	}
	l.fold.EndPuts()
	failpoint.Here(failpoint.SnapshotRestored)
	r.snapshot, l.partial = nil, false
	return r.intake.take(ctx, &ahead)
}

// foldUpTo folds the records before an offset. Records from that offset on that were fetched, and reported by admit, stay in ahead.
func (r *recovery) foldUpTo(ctx context.Context, f *fetcher, ahead *kafkaio.Batch, to int64) error {
	l := r.ledger
	for l.next.Load() < to {
		for len(ahead.Records) > 0 && ahead.Records[0].Offset < to {
			if err := r.intake.count(&ahead.Records[0]); err != nil {
				return err
			}
			ahead.Records = ahead.Records[1:]
		}
		if len(ahead.Records) > 0 {
			return nil // the log has no records in between
		}
		l.next.Store(max(l.next.Load(), ahead.Next))
		r.intake.publish(false) // publishes nothing while restoring, but empties the fold's list of changes
		if l.next.Load() >= to {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b, ok := <-f.batches:
			if !ok {
				return f.err(ctx)
			}
			r.intake.admit(&b)
			*ahead = b
			ahead.Skipped = nil // admit has reported them
		}
	}
	return nil
}
