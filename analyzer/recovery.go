package analyzer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/509da70d/floodgate/analyzer/control"
	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/snapshot"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/rows"
)

// recovery brings an owner to the counts as of the end of the log. It starts from the owner's store, from a snapshot, or from the log
// alone. Then it folds the log from there, and applies each place of the control topic at its offset. Meanwhile nothing is published.
//
// It asks two questions about counts that it may start from:
//  1. Are they of this log? The log must reach as far as they do, and must still have the last record that they count.
//  2. Do they have all places? Between the last place that they have and the offset that they reach, no other place may count.
//
// Counts that lack a place were made by an owner that was replaced and did not notice it at once.
type recovery struct {
	ledger    *ledger
	intake    *intake
	controls  *controls
	log       kafkaio.Fetcher
	snapshots *snapshot.Reader

	beat      schemas.Heartbeat               // the newest heartbeat before our claim
	published map[outbox.Key]schemas.Decision // what gates believed before our claim
	away      bool                            // the control topic is away, and the store's owner was the last one

	snapshot *snapshot.Snapshot // the snapshot to start from, or nil
}

// counts describes the counts of a store or snapshot that an owner may start from.
type counts struct {
	from    int64        // the first offset of requests[p] to fold
	reach   int64        // the newest offset of requests[p] that any row is as of
	tail    kafkaio.Tail // the last record that is counted
	mark    control.Mark // the last place before from
	placed  int64        // the offset of the control topic behind the last place that any row has
	rulesID uint64       // the rules by which they were counted
}

// chooseStart decides what the owner starts from.
func (r *recovery) chooseStart(ctx context.Context) error {
	stored, stale, why := r.fittingStore(ctx)
	switch {
	case why == nil && !stale:
		return r.startFromStore(ctx, stored)
	case why != nil && !errors.Is(why, errNoCounts):
		return why
	}
	s, kept, err := r.fittingSnapshot(ctx)
	switch {
	case err != nil:
		return err
	case s != nil:
		return r.startFromSnapshot(ctx, s, kept, why)
	case stale:
		return r.startFromStore(ctx, stored)
	}
	return r.startFromLog(ctx, why)
}

// errNoCounts says that an owner cannot start from some counts.
var errNoCounts = errors.New("the counts cannot be used")

// fittingStore returns what the control topic says after the store's last place. stale reports whether it is better to start from a
// snapshot. The error is an errNoCounts if the store cannot be used. If the control topic is away, and the owner need not wait for it,
// order is nil.
func (r *recovery) fittingStore(ctx context.Context) (order *reading, stale bool, err error) {
	at := r.ledger.store.Checkpoint()
	if at == (store.Checkpoint{}) {
		return nil, false, fmt.Errorf("%w: there are none", errNoCounts)
	}
	failpoint.Here(failpoint.Verifying)
	c := counts{at.Next, at.Next, r.ledger.tail, control.Mark{Placed: at.Placed, Epoch: at.Epoch}, at.Placed, at.RulesID}
	if r.away {
		if err := r.ofThisLog(ctx, &c); !errors.Is(err, errNoCounts) {
			return nil, false, err
		}
		if err := r.controls.take(ctx); err != nil { // now the owner must wait for the topic
			return nil, false, err
		}
	}
	if order, err = r.fits(ctx, &c); err == nil {
		stale, err = r.stale(ctx, &c, order.found)
	}
	return order, stale, err
}

// fits asks both questions about counts. It returns what the control topic says after their last place, or an errNoCounts.
func (r *recovery) fits(ctx context.Context, c *counts) (*reading, error) {
	if err := r.ofThisLog(ctx, c); err != nil {
		return nil, err
	}
	order, err := r.controls.read(ctx, c.mark, c.rulesID)
	switch {
	case err != nil:
		return nil, err
	case !order.found && c.mark.Placed > 0: // counts stay good when the control topic is another one
		r.controls.forget(order, c.from)
	case order.PassedOver(c.reach, c.placed):
		return nil, fmt.Errorf("%w: %w", errNoCounts, errReplaced)
	}
	return order, nil
}

// ofThisLog asks the first question: are the counts of this log?
func (r *recovery) ofThisLog(ctx context.Context, c *counts) error {
	_, end, err := r.requests().Range(ctx)
	if err == nil && c.reach > end {
		err = fmt.Errorf("%w: the counts reach up to offset %d, and the log ends at %d", kafkaio.ErrTruncated, c.reach, end)
	}
	if err == nil {
		err = r.requests().Verify(ctx, c.tail)
	}
	if errors.Is(err, kafkaio.ErrTruncated) {
		r.beat.Events = 0 // the heartbeat is about the other log
		return fmt.Errorf("%w: %w: %w", errNoCounts, errOtherLog, err)
	}
	return err
}

// requests returns a cursor on requests[p] that is independent of the fetcher.
func (r *recovery) requests() *kafkaio.Cursor {
	return r.ledger.config.cursor(r.log, r.ledger.config.Requests, 0)
}

// A store is stale if more records must be folded from it than twice those from the snapshot, plus staleBy. staleBy stands for the time
// that it takes to read the snapshot's rows.
const staleBy = 10_000

// stale reports whether it is better to start from the last snapshot than from the store's counts: because the log no longer has the
// records that follow the counts, or has very many of them. Or because a later owner made the snapshot, and the control topic no longer has
// the last place of the store: what people decided since then is in the snapshot alone.
func (r *recovery) stale(ctx context.Context, c *counts, found bool) (bool, error) {
	if r.ledger.config.State == "" {
		return false, nil
	}
	start, end, err := r.requests().Range(ctx)
	if err != nil {
		return false, err
	}
	begin, err := r.snapshots.BeginAt(ctx, r.beat.State-1)
	if begin == nil || err != nil {
		return false, err
	}
	from := begin.GetOffset()
	readable := rows.Check(begin.GetFormat(), begin.GetSince()) == nil
	far := c.from < from && (c.from < start || readable && end-c.from > 2*(end-from)+staleBy)
	return far || !found && c.mark.Epoch < begin.GetPlacedEpoch(), nil
}

// fittingSnapshot returns the last complete snapshot, and what the control topic says after the place of its begin; nil if it cannot be
// used.
func (r *recovery) fittingSnapshot(ctx context.Context) (*snapshot.Snapshot, *reading, error) {
	s, err := r.lastSnapshot(ctx)
	if s == nil || err != nil {
		return nil, nil, err
	}
	b := s.Begin
	order, err := r.fits(ctx, &counts{
		b.GetOffset(), s.Last, s.Tail, control.Mark{Placed: b.GetPlaced(), Epoch: b.GetPlacedEpoch()}, s.Placed, b.GetRulesId(),
	})
	if errors.Is(err, errNoCounts) {
		r.ledger.logger.Warn("the last snapshot cannot be used", "error", err)
		return nil, nil, nil
	}
	return s, order, err
}

// lastSnapshot returns the last complete snapshot, or nil. That is the one that heartbeats announce, unless it cannot be used, or the log no
// longer has what follows it.
func (r *recovery) lastSnapshot(ctx context.Context) (*snapshot.Snapshot, error) {
	if r.ledger.config.State == "" {
		return nil, nil
	}
	announced, why := r.snapshots.At(ctx, r.beat.State-1)
	if err := snapshot.IgnoreIncomplete(why); err != nil {
		return nil, err
	}
	start, _, err := r.requests().Range(ctx)
	if err != nil {
		return nil, err
	}
	whole, err := r.whole(ctx, start)
	switch {
	case err != nil:
		return nil, err
	case announced != nil && announced.Begin.GetOffset() >= start:
		return announced, nil
	case announced == nil && r.beat.State > 0:
		r.ledger.logger.Warn("the snapshot that was announced cannot be used", "error", why)
	case announced == nil && r.ledger.config.Events != "" && whole:
		return nil, nil // a snapshot that was not announced may lack events, and the log has all of them
	}
	from, err := r.snapshots.Newest(ctx)
	if err != nil || from < 0 {
		return announced, err
	}
	if newest, err := r.snapshots.At(ctx, from); newest != nil || snapshot.IgnoreIncomplete(err) != nil {
		return newest, err
	}
	return announced, nil
}

// whole reports whether the log, which begins at start, has everything that was ever counted of the partition.
func (r *recovery) whole(ctx context.Context, start int64) (bool, error) {
	if start > 0 {
		return false, nil
	}
	_, migrated, err := r.requests().Leading(ctx, func(first *kafkaio.Record) bool {
		_, is := schemas.Migrated(first.Value)
		return is
	})
	return !migrated, err
}

// startFromStore prepares to continue counting from the store.
func (r *recovery) startFromStore(ctx context.Context, order *reading) error {
	l := r.ledger
	at := l.store.Checkpoint()
	if set := r.rules(at.RulesID, at.Next, nil); set.ID() != l.fold.Rules().ID() {
		l.fold = fold.New(set, l.config.Fold) // by the rules that the store was counted by
		if err := l.store.Load(l.fold.Restore); err != nil {
			return fmt.Errorf("load store: %w", err)
		}
		l.fold.Resume(at.LogTime)
		l.setRulesFrom(at.RulesFrom)
	}
	r.controls.use(ctx, order)
	return nil
}

// startFromSnapshot prepares to continue counting from the begin of a snapshot. Its rows are put in later. why says why the store is not
// used.
func (r *recovery) startFromSnapshot(ctx context.Context, s *snapshot.Snapshot, order *reading, why error) error {
	l, b := r.ledger, s.Begin
	if err := l.discard(why); err != nil {
		return err
	}
	l.logger.Info("starting from a snapshot", "offset", b.GetOffset(), "rows", s.Rows, "senders", len(s.Senders), "epoch", b.GetEpoch())
	l.fold = fold.New(r.rules(b.GetRulesId(), b.GetOffset(), b.GetRules()), l.config.Fold)
	for _, sender := range s.Senders {
		l.fold.RestoreSender(&sender)
	}
	s.Senders = nil
	l.fold.Resume(b.GetLogTime())
	l.next.Store(b.GetOffset())
	l.tail = kafkaio.Tail{Offset: b.GetTailOffset(), CRC: b.GetTailCrc()}
	l.placed = control.Mark{Placed: b.GetPlaced(), Epoch: b.GetPlacedEpoch()}
	l.setRulesFrom(b.GetRulesFrom())
	r.snapshot, l.partial = s, true
	r.controls.use(ctx, order)
	failpoint.Here(failpoint.SnapshotChosen)
	return nil
}

// startFromLog prepares to count all that the log holds. The rules of the first place count from the first record on.
func (r *recovery) startFromLog(ctx context.Context, why error) error {
	l := r.ledger
	if err := l.discard(why); err != nil {
		return err
	}
	start, _, err := r.requests().Range(ctx)
	if err != nil {
		return err
	}
	whole, err := r.whole(ctx, start)
	if err != nil {
		return err
	}
	order, err := r.controls.read(ctx, control.Mark{}, 0)
	if err != nil {
		return err
	}
	if start == 0 && !whole {
		l.logger.Error("the counts that were brought from another log are lost: neither store nor snapshot has them")
	}
	l.next.Store(start)
	if steps := order.Steps(); len(steps) > 0 {
		l.fold = fold.New(r.rules(steps[0].RulesID, start, nil), l.config.Fold)
	}
	l.setRulesFrom(start)
	r.controls.use(ctx, order)
	return nil
}

// rules returns the rules of an id, which counted up to an offset. text is their text in a snapshot, or nil. If the rules are not known, it
// returns those of this analyzer.
func (r *recovery) rules(id uint64, offset int64, text []byte) *rules.Set {
	if set := r.controls.sets[id]; set != nil {
		return set
	}
	if set, err := rules.Parse("a snapshot", text); err == nil && set.ID() == id {
		r.controls.sets[id] = set
		return set
	}
	r.ledger.logger.Warn("the rules that counted before are not known: counting on by this analyzer's", "offset", offset, "rules_id", fmt.Sprintf("%016x", id))
	return r.ledger.config.Rules
}

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
