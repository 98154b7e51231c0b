package analyzer

import (
	"context"
	"errors"
	"fmt"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/analyzer/snapshot"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// recovery is how an owner comes to the counts as of the end of the log: it decides what to start from, its store, a
// snapshot or the log alone, and folds the log from there. Nothing is published meanwhile.
type recovery struct {
	ledger    *ledger
	intake    *intake
	log       kafkaio.Fetcher
	snapshots *snapshot.Reader

	beat      schemas.Heartbeat               // the newest before our claim
	claimed   uint64                          // the highest epoch that was claimed before ours
	published map[outbox.Key]schemas.Decision // what gates believed before our claim

	snapshot *snapshot.Snapshot // to start from, or nil

	mark        int64           // the offset in state[p] of our mark
	places      snapshot.Places // of control records: where owners before us have applied them
	placesWhole bool            // state[p] still has what the last of them has written
}

// verify checks that the store belongs to this log: that the log reaches as far, and that the last record counted is still
// the same one, if the log still holds it.
func (r *recovery) verify(ctx context.Context) error {
	l := r.ledger
	start, end, err := r.requests().Range(ctx)
	if err != nil {
		return err
	}
	next := l.next.Load()
	if next == 0 {
		l.next.Store(start)
		return nil
	}
	failpoint.Here(failpoint.Verifying)
	cause := fmt.Errorf("%w: got offset %d as its end, want %d", kafkaio.ErrTruncated, end, next)
	if next <= end {
		if l.tailOffset < start || l.tailOffset >= next {
			return nil
		}
		same, err := r.sameTail(ctx, l.tailOffset, l.tailCRC)
		if err != nil || same {
			return err
		}
		cause = errOtherLog
		r.beat.Events = 0 // it is about the other log
	}
	if err := l.quarantine(cause); err != nil {
		return err
	}
	l.next.Store(start)
	return nil
}

// requests returns a cursor on requests[p], for what the fetcher is not for.
func (r *recovery) requests() *kafkaio.Cursor {
	return r.ledger.config.cursor(r.log, r.ledger.config.Requests, 0)
}

// sameTail fetches a record that was counted and compares it.
func (r *recovery) sameTail(ctx context.Context, offset int64, crc uint32) (same bool, err error) {
	cursor := r.requests()
	cursor.MoveTo(offset)
	err = cursor.Scan(ctx, offset+1, func(b *kafkaio.Batch) error {
		for i := range b.Records {
			record := fold.Record{Value: b.Records[i].Value}
			same = b.Records[i].Offset == offset && record.Checksum() == crc
		}
		return nil
	})
	if errors.Is(err, kafkaio.ErrTruncated) {
		return false, nil
	}
	return same, err
}

// prepare decides what the owner starts from: its store, which has been verified; else the last complete snapshot, if it is
// of this log; else the log alone. It finds out by which rules the log from there on was counted.
func (r *recovery) prepare(ctx context.Context) error {
	l := r.ledger
	if l.config.State == "" {
		return nil
	}
	at := l.store.Checkpoint()
	places := agrees
	if at != (store.Checkpoint{}) {
		var err error
		if places, err = r.standing(ctx, at); err != nil {
			return err
		}
		if at.Epoch != unrestored && r.beat.Epoch <= at.Epoch && places == agrees {
			return nil // nobody has owned the partition since
		}
		stale, err := r.stale(ctx, at.Next)
		if err != nil {
			return err
		}
		if !stale && places == agrees && !r.otherRules(at) {
			return r.startWithoutSnapshot(ctx, at)
		}
	}
	s, err := r.usableSnapshot(ctx)
	switch {
	case err != nil:
		return err
	case s == nil && places != agrees && r.whole(ctx):
		if err := l.quarantine(errStale); err != nil {
			return err
		}
		if err := r.verify(ctx); err != nil { // moves to the start of the log
			return err
		}
		return r.startWithoutSnapshot(ctx, store.Checkpoint{})
	case s == nil:
		return r.startWithoutSnapshot(ctx, at)
	}
	if err := l.startFromSnapshot(s); err != nil {
		return err
	}
	r.snapshot, r.places, r.placesWhole = s, s.Places, true
	failpoint.Here(failpoint.SnapshotChosen)
	return nil
}

// whole reports whether requests[p] still has its first record, and state[p] the places of control records: then the log alone is
// counted as it was at first.
func (r *recovery) whole(ctx context.Context) bool {
	start, _, err := r.requests().Range(ctx)
	return err == nil && start == 0 && r.readPlaces(ctx, 0) == nil && r.placesWhole
}

// startWithoutSnapshot starts from the store, or from the log alone if the store is empty. It finds out by which rules the
// log was counted from there on, unless the store knows them all: because nobody has changed them since, and its owner was
// not restoring when it ended.
func (r *recovery) startWithoutSnapshot(ctx context.Context, at store.Checkpoint) error {
	if at != (store.Checkpoint{}) && at.Epoch != unrestored && r.beat.RulesFrom < at.Next {
		return nil
	}
	if at == (store.Checkpoint{}) && r.ledger.config.Control != "" {
		if err := r.readPlaces(ctx, 0); err != nil {
			return err
		}
	}
	h, err := r.snapshots.Rules(ctx)
	if err != nil {
		return snapshot.IgnoreIncomplete(err)
	}
	if at != (store.Checkpoint{}) {
		return r.ledger.startFromStore(h)
	}
	r.ledger.startFromLog(h)
	return nil
}

// otherRules reports whether other rules count than the store was folded by. Another owner has changed them: later, or
// before this one, which had been replaced, stopped. A snapshot says for sure which of them counted which offsets.
func (r *recovery) otherRules(at store.Checkpoint) bool {
	b := &r.beat
	if at.Epoch == unrestored && b.RulesFrom >= at.Next {
		return false // the store does not reach the change
	}
	return b.RulesID != 0 && (b.RulesID != at.RulesID || b.RulesFrom != at.RulesFrom)
}

// staleBy is how many more records than from the snapshot there must be to fold from the store, for the store to be stale:
// a snapshot's rows have to be read as well.
const staleBy = 10_000

// stale reports whether it is better to start from the last snapshot than from a store that holds the counts up to next:
// because the log no longer holds what comes after, or because it is so much.
func (r *recovery) stale(ctx context.Context, next int64) (bool, error) {
	start, end, err := r.requests().Range(ctx)
	if err != nil {
		return false, err
	}
	begin, err := r.snapshots.BeginAt(ctx, r.beat.State-1)
	if begin == nil || err != nil {
		return false, err
	}
	from := begin.GetOffset()
	return next < from && (next < start || end-next > 2*(end-from)+staleBy), nil
}

// usableSnapshot returns the last complete snapshot if it is of this log, or nil.
func (r *recovery) usableSnapshot(ctx context.Context) (*snapshot.Snapshot, error) {
	logger := r.ledger.logger
	s, err := r.snapshots.At(ctx, r.beat.State-1)
	if errors.Is(err, snapshot.ErrIncomplete) {
		if r.beat.State > 0 {
			logger.Warn("the snapshot that was announced cannot be used", "error", err)
		}
		if whole, err := r.wholeLog(ctx); err != nil || whole {
			return nil, err
		}
		from, newestErr := r.snapshots.Newest(ctx)
		if newestErr != nil || from < 0 {
			return nil, snapshot.IgnoreIncomplete(newestErr)
		}
		s, err = r.snapshots.At(ctx, from)
	}
	if err != nil {
		return nil, snapshot.IgnoreIncomplete(err)
	}
	if err := r.verifySnapshot(ctx, s); err != nil {
		logger.Warn("the last snapshot cannot be used", "error", err)
		return nil, snapshot.IgnoreIncomplete(err)
	}
	return s, nil
}

// wholeLog reports whether the log alone says all. If no snapshot was announced, there may be one whose events are not all in the topic:
// then the log is better.
func (r *recovery) wholeLog(ctx context.Context) (bool, error) {
	if r.ledger.config.Events == "" || r.beat.State != 0 {
		return false, nil
	}
	start, _, err := r.requests().Range(ctx)
	return start == 0 && err == nil, err
}

// verifySnapshot checks that the snapshot is of this log, as verify does for a store.
func (r *recovery) verifySnapshot(ctx context.Context, s *snapshot.Snapshot) error {
	start, end, err := r.requests().Range(ctx)
	if err != nil {
		return err
	}
	if s.Last > end {
		return fmt.Errorf("%w: it counts up to %d: %w", snapshot.ErrIncomplete, s.Last, kafkaio.ErrTruncated)
	}
	tail := s.Begin.GetTailOffset()
	if tail < start || tail >= s.Begin.GetOffset() {
		return nil
	}
	same, err := r.sameTail(ctx, tail, s.Begin.GetTailCrc())
	if err == nil && !same {
		r.beat.Events = 0 // it is about the other log
		err = fmt.Errorf("%w: %w", snapshot.ErrIncomplete, errOtherLog)
	}
	return err
}
