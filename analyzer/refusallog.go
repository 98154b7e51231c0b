package analyzer

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/509da70d/floodgate/analyzer/snapshot"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// refusalLog is the list of messages from the future that were refused (OwnerConfig.JudgeTimes), as state[p] holds it. A
// refusal is there before any record behind it is folded, and in the store with the next checkpoint. An owner that folds
// the log again obeys the list, and judges nothing anew: see fold.Refusals.
type refusalLog struct {
	ledger    *ledger
	requests  *kafkaio.Cursor // asked for its range only
	reader    *snapshot.Reader
	snapshots *snapshotter

	list *snapshot.Refused // of state[p], once it was read
	read int64             // the offset of state[p] from which it was read
	end  int64             // the offset behind our mark in state[p]
}

// takeOver ends the lists of all owners before this one: what they still write to state[p] does not count.
func (r *refusalLog) takeOver(ctx context.Context) error {
	if !r.ledger.config.JudgeTimes || r.ledger.config.State == "" {
		return nil
	}
	base, err := r.snapshots.writer.WriteRefused(ctx, snapshot.UnknownSince, nil)
	r.end = base + 1
	return err
}

// add puts messages on the list: first in state[p], or in the store where there is no such topic, and then in the fold.
func (r *refusalLog) add(ctx context.Context, offsets []int64) error {
	l := r.ledger
	if l.config.State != "" {
		if err := r.snapshots.idle(ctx); err != nil {
			return err
		}
		since, _, _ := l.fold.Refusals().Judged()
		if _, err := r.snapshots.writer.WriteRefused(ctx, since, offsets); err != nil {
			return fmt.Errorf("record which messages were refused: %w", err)
		}
	}
	for _, offset := range offsets {
		l.fold.Refusals().Add(offset, l.epoch)
	}
	if l.config.State == "" {
		return l.commitNow()
	}
	return nil
}

// stored returns the list of state[p], from the last complete snapshot on, which began at offset snapshotAt of state[p];
// whole returns all that the topic still holds.
func (r *refusalLog) stored(ctx context.Context, snapshotAt int64, whole bool) (*snapshot.Refused, error) {
	start, end, err := r.reader.Range(ctx)
	if err != nil {
		return nil, err
	}
	if r.ledger.config.JudgeTimes {
		end = r.end
	}
	from := start
	if !whole && snapshotAt > start && snapshotAt < end {
		from = snapshotAt
	}
	if r.list == nil || from < r.read {
		r.read = from
		if r.list, err = r.reader.Refused(ctx, from, end); err != nil {
			return nil, err
		}
	}
	return r.list, nil
}

// used reports whether times are judged, or were when the store was written.
func (r *refusalLog) used() bool {
	_, _, judged := r.ledger.fold.Refusals().Judged()
	return r.ledger.config.State != "" && (r.ledger.config.JudgeTimes || judged)
}

// differs reports whether the store was folded by another list than that of state[p]: its owner went on after it was
// replaced, and its clock was not that of the others.
func (r *refusalLog) differs(ctx context.Context, at store.Checkpoint, snapshotAt int64) (bool, error) {
	if !r.used() {
		return false, nil
	}
	l, err := r.stored(ctx, snapshotAt, false)
	if err != nil || l.Since == snapshot.UnknownSince {
		return false, err
	}
	start, _, err := r.requests.Range(ctx)
	if err != nil {
		return false, err
	}
	f := r.ledger.fold.Refusals()
	from := max(start, l.Since, f.Kept())
	if since, _, ok := f.Judged(); ok {
		from = max(from, since)
	}
	return !slices.Equal(l.List.Within(from, at.Next), f.Within(from, at.Next)), nil
}

// obey puts the refusals of state[p] from the next offset on into the fold's list. It returns the offset from which on
// messages are to be judged: what others have folded and published about is not. s is the snapshot that the owner starts
// from, or nil; what comes before offset folded was folded by others; snapshotAt is as in stored.
func (r *refusalLog) obey(ctx context.Context, s *snapshot.Snapshot, folded, snapshotAt int64) (judgeFrom int64, err error) {
	l := r.ledger
	f, next := l.fold.Refusals(), l.next.Load()
	hasStore := s == nil && l.store.Checkpoint() != store.Checkpoint{}
	list := snapshot.NewRefused()
	switch {
	case s != nil:
		list = s.Refused
	case r.used(), l.config.State != "" && !hasStore && folded > next:
		if list, err = r.stored(ctx, snapshotAt, !hasStore); err != nil {
			return 0, err
		}
	}
	covered := list.Since <= next // else there is only what the store itself says
	if covered {
		for _, offset := range f.Within(next, math.MaxInt64) {
			if !list.List.Has(offset) {
				f.Remove(offset)
			}
		}
	}
	for _, offset := range list.List.Within(next, math.MaxInt64) {
		f.Add(offset, list.Epoch)
	}
	if !l.config.JudgeTimes {
		return 0, nil
	}
	since, doubt := int64(0), list.Doubt()
	switch storedSince, storedDoubt, judged := f.Judged(); {
	case hasStore && judged:
		since, doubt = storedSince, storedDoubt
	case !hasStore:
		since = min(list.Since, next)
	}
	judgeFrom = next
	switch {
	case covered && s != nil:
		judgeFrom = max(folded, s.Last)
	case covered:
		judgeFrom = folded
	case folded > next:
		doubt = folded
		l.logger.Warn("which messages were refused is not known: judging them anew", "from", next, "to", folded)
	}
	f.JudgedSince(since, doubt)
	if l.config.State == "" {
		return judgeFrom, nil
	}
	_, err = r.snapshots.writer.WriteRefused(ctx, since, nil)
	return judgeFrom, err
}
