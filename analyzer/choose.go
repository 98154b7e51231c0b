package analyzer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store"
)

// ruleMark is which rules count, and since which offset.
type ruleMark struct {
	id   uint64
	from int64
}

func (o *Owner) setRulesFrom(from int64) {
	o.rulesFrom = from
	o.mark.Store(&ruleMark{o.fold.Rules().ID(), from})
}

// fillHeartbeat tells readers how far this owner is, where its last snapshot is, and which rules count.
func (o *Owner) fillHeartbeat(b *schemas.Heartbeat) {
	mark := o.mark.Load()
	b.Watermark, b.State, b.RulesID, b.RulesFrom = o.next.Load(), o.states.complete.Load(), mark.id, mark.from
}

// errStale says that a store is good, but that it is quicker or more exact to start from a snapshot.
var errStale = errors.New("store is older than the last snapshot")

// choose decides what the owner starts from: its store, which has been found good; else the last complete snapshot, if it
// is of this log; else the log alone. And it finds out by which rules the log from there on was counted.
func (o *Owner) choose(ctx context.Context) error {
	if o.config.State == "" {
		return nil
	}
	at := o.store.Checkpoint()
	if at != (store.Checkpoint{}) {
		if at.Epoch != unrestored && o.beat.Epoch <= at.Epoch {
			return nil // nobody has owned the partition since
		}
		stale, err := o.stale(ctx, at.Next)
		if err != nil {
			return err
		}
		if !stale && !o.strayed(at) {
			return o.chooseRules(ctx, at)
		}
	}
	s, err := o.usableSnapshot(ctx)
	switch {
	case err != nil:
		return err
	case s == nil && at != (store.Checkpoint{}):
		return o.chooseRules(ctx, at)
	case s == nil:
		return o.startFromLog(ctx)
	}
	if at != (store.Checkpoint{}) {
		if err := o.quarantine(errStale); err != nil {
			return err
		}
	}
	o.startFrom(s)
	failpoint.Here(failpoint.SnapshotChosen)
	return nil
}

// strayed reports whether other rules count than the store was folded by. Another owner changed them: since, or before
// this one, as a zombie, had stopped. Which of them counted when is surely known of a snapshot.
func (o *Owner) strayed(at store.Checkpoint) bool {
	b := &o.beat
	if at.Epoch == unrestored && b.RulesFrom >= at.Next {
		return false // it hadn't come so far
	}
	return b.RulesID != 0 && (b.RulesID != at.RulesID || b.RulesFrom != at.RulesFrom)
}

// longAhead is how many more records than from the snapshot there must be to fold from the store for that to be stale: a
// snapshot's rows have to be read as well.
const longAhead = 10_000

// stale reports whether it is better to start from the last snapshot than from a store that holds the counts up to next:
// because the log no longer holds what comes after, or because it is so much.
func (o *Owner) stale(ctx context.Context, next int64) (bool, error) {
	start, end, err := o.rangeOf(ctx, o.config.Requests)
	if err != nil {
		return false, err
	}
	begin, err := o.peek(ctx, o.beat.State-1)
	if begin == nil || err != nil {
		return false, err
	}
	from := begin.GetOffset()
	return next < from && (next < start || end-next > 2*(end-from)+longAhead), nil
}

// peek returns the begin of the snapshot at an offset of state[p], or nil if there is none.
func (o *Owner) peek(ctx context.Context, from int64) (begin *pb.StateBegin, err error) {
	start, end, err := o.rangeOf(ctx, o.config.State)
	if err != nil || from < start || from >= end {
		return nil, err
	}
	enough := errors.New("found")
	err = o.readState(ctx, from, min(end, from+8), func(_ int64, rec *pb.StateRecord) error {
		if begin = rec.GetBegin(); begin != nil {
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) || errors.Is(err, errIncomplete) {
		err = nil
	}
	return begin, err
}

// usableSnapshot returns the last complete snapshot if it is of this log, or nil.
func (o *Owner) usableSnapshot(ctx context.Context) (*snapshot, error) {
	s, err := o.findSnapshot(ctx, o.beat.State-1)
	if errors.Is(err, errIncomplete) {
		if o.beat.State > 0 {
			o.config.Logger.Warn("the snapshot that was announced cannot be used", "error", err)
		}
		from, lastErr := o.lastSnapshot(ctx)
		if lastErr != nil || from < 0 {
			return nil, ignoreIncomplete(lastErr)
		}
		s, err = o.findSnapshot(ctx, from)
	}
	if err != nil {
		return nil, ignoreIncomplete(err)
	}
	if err := o.verifySnapshot(ctx, s); err != nil {
		o.config.Logger.Warn("the last snapshot cannot be used", "error", err)
		return nil, ignoreIncomplete(err)
	}
	return s, nil
}

func ignoreIncomplete(err error) error {
	if errors.Is(err, errIncomplete) {
		return nil
	}
	return err
}

// verifySnapshot checks that the snapshot is of this log, as verify does for a store.
func (o *Owner) verifySnapshot(ctx context.Context, s *snapshot) error {
	start, end, err := o.rangeOf(ctx, o.config.Requests)
	if err != nil {
		return err
	}
	if s.last > end {
		return fmt.Errorf("%w: it counts up to %d: %w", errIncomplete, s.last, ErrLogTruncated)
	}
	tail := s.begin.GetTailOffset()
	if tail < start || tail >= s.begin.GetOffset() {
		return nil
	}
	same, err := o.sameTail(ctx, tail, s.begin.GetTailCrc())
	if err == nil && !same {
		err = fmt.Errorf("%w: the last record it counts is not the log's", errIncomplete)
	}
	return err
}

// startFrom prepares the fold for a snapshot whose rows merge will put in.
func (o *Owner) startFrom(s *snapshot) {
	b := s.begin
	o.config.Logger.Info("starting from a snapshot", "offset", b.GetOffset(), "rows", s.rows, "senders", len(s.senders), "epoch", b.GetEpoch())
	set, from := o.knownRules(b.GetRulesId(), s.history), b.GetRulesFrom()
	if set == nil {
		o.config.Logger.Warn("the rules of the snapshot are not known: counting from it by today's")
		set, from = o.config.Rules, b.GetOffset()
	}
	o.fold = NewFold(set, o.config.Fold)
	for _, sender := range s.senders {
		o.fold.restoreSender(sender)
	}
	s.senders = nil
	o.fold.Resume(b.GetLogTime())
	o.next.Store(b.GetOffset())
	o.tailOffset, o.tailCRC = b.GetTailOffset(), b.GetTailCrc()
	o.setRulesFrom(from)
	o.snapshot, o.changes = s, s.history.after(b.GetRulesFrom())
}

// chooseRules finds out by which rules the log was counted beyond a store, if another owner has changed them since and
// there is no snapshot, or if the store's own owner was still restoring when it ended.
func (o *Owner) chooseRules(ctx context.Context, at store.Checkpoint) error {
	if at.Epoch != unrestored && o.beat.RulesFrom < at.Next {
		return nil
	}
	h, err := o.allRules(ctx)
	if err != nil {
		return ignoreIncomplete(err)
	}
	o.changes = h.after(at.Next-1).since(at.RulesID, at.RulesFrom)
	set := o.knownRules(at.RulesID, h)
	if set == nil || set.ID() == o.fold.Rules().ID() {
		return nil
	}
	o.fold = NewFold(set, o.config.Fold) // as it was counted, not by today's rules
	if err := o.store.Load(o.fold.Restore); err != nil {
		return fmt.Errorf("load store: %w", err)
	}
	o.fold.Resume(at.LogTime)
	o.setRulesFrom(at.RulesFrom)
	return nil
}

// startFromLog finds out by which rules the log was counted.
func (o *Owner) startFromLog(ctx context.Context) error {
	h, err := o.allRules(ctx)
	if err != nil || len(h) == 0 {
		return ignoreIncomplete(err)
	}
	if first := h[0]; first.set != nil {
		o.fold = NewFold(first.set, o.config.Fold)
		o.setRulesFrom(first.from)
	}
	o.changes = h[1:]
	return nil
}

// knownRules returns the rules of an id, or nil.
func (o *Owner) knownRules(id uint64, h ruleHistory) *rules.Set {
	if id == o.config.Rules.ID() {
		return o.config.Rules
	}
	for _, c := range h {
		if c.id == id && c.set != nil {
			return c.set
		}
	}
	return nil
}

// since returns the changes after one of them, all if it is not there.
func (h ruleHistory) since(id uint64, from int64) ruleHistory {
	for i, c := range slices.Backward(h) {
		if c.id == id && c.from == from {
			return h[i+1:]
		}
	}
	return h
}

// after returns the changes from beyond an offset.
func (h ruleHistory) after(offset int64) ruleHistory {
	for len(h) > 0 && h[0].from <= offset {
		h = h[1:]
	}
	return h
}
