package analyzer

import (
	"context"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/snapshot"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// snapshotter writes the ledger to state[p], in cycles. A cycle is begun each OwnerConfig.Snapshot, and its rows are given
// to the writer in pieces, so spread over the cycle that the fold never waits for longer than it takes to copy a piece.
// Only the owner's goroutine may use it; another one runs the writer.
type snapshotter struct {
	ledger *ledger
	writer *snapshot.Writer
	born   time.Time
	began  time.Time // when the newest cycle began; zero: one is due
	from   int64     // the offset as of which it began, …
	upTo   int64     // … and that of the control topic
	events announcement

	places  []schemas.ControlPlace // of control records, which could not be written yet
	unnoted time.Time              // since when some are not in state[p]; zero if all are
}

func newSnapshotter(log kafkaio.Producer, l *ledger) *snapshotter {
	c := &l.config
	return &snapshotter{ledger: l, born: time.Now(), writer: snapshot.NewWriter(log, snapshot.WriterConfig{
		Topic: c.State, Partition: c.Fold.Partition, Lease: c.Lease, Logger: c.Logger,
	})}
}

// Sizes of a piece, in rows: a small table is done at once, and a large one does not hold up the fold for more than some
// milliseconds.
const (
	minPiece = 256
	maxPiece = 4096
)

// age returns how long ago the newest complete snapshot was begun, or the snapshotter was made; 0 if it writes none. Any goroutine may
// call it.
func (s *snapshotter) age(now time.Time) time.Duration {
	if s.ledger.config.State == "" {
		return 0
	}
	since := s.writer.CompleteSince()
	if since.IsZero() {
		since = s.born
	}
	return max(0, now.Sub(since))
}

// step goes on with the cycle under way, or begins the next when it is due. It never waits.
func (s *snapshotter) step(now time.Time) {
	l := s.ledger
	if l.config.State == "" || s.writer.Busy() {
		return
	}
	if len(s.places) > 0 {
		s.startPlaces()
		return
	}
	s.unnoted = time.Time{}
	scan := l.fold.Scan()
	switch {
	case scan != nil && scan.Overflowed():
		l.logger.Warn("snapshot given up: callers come and go faster than it is written")
		l.fold.EndScan()
	case scan != nil:
		s.writePiece(min(maxPiece, max(minPiece, scan.Dropped(), scan.Records(), s.behind(scan, now))))
	case s.began.IsZero() || now.Sub(s.began) >= l.config.Snapshot:
		s.begin(now)
	}
}

// hurry goes on at once where rows are deleted faster than the cycle comes to them.
func (s *snapshotter) hurry() {
	if scan := s.ledger.fold.Scan(); scan != nil && scan.Dropped() > maxPiece {
		s.step(time.Now())
	}
}

// behind returns how many rows are to be written now for the scan to end after nine tenths of the cycle.
func (s *snapshotter) behind(scan *fold.Scan, now time.Time) int {
	passed := float64(now.Sub(s.began)) / (0.9 * float64(s.ledger.config.Snapshot))
	return scan.Behind(min(passed, 1))
}

// begin begins a cycle as of the next offset.
func (s *snapshotter) begin(now time.Time) {
	l := s.ledger
	s.began = now
	next := l.next.Load()
	s.from, s.upTo = next, l.control.Load()
	senders, losses := l.fold.BeginScan()
	s.writer.Start(snapshot.Piece{
		Rules: snapshot.RulesRecord(l.fold.Rules(), l.rulesFrom, l.rulesControl),
		Begin: &pb.StateBegin{
			Offset: next, LogTime: l.fold.LogTime(), TailOffset: l.tailOffset, TailCrc: l.tailCRC,
			RulesId: l.fold.Rules().ID(), RulesFrom: l.rulesFrom, Control: s.upTo, Place: snapshot.PlaceRecord(l.place),
			ControlTail: l.controlTail.Offset, ControlCrc: l.controlTail.CRC,
		},
		Senders: senders, Rows: losses, Next: next, Control: s.upTo,
	})
}

// writePiece writes the next rows, as of the next offset. Control records come first, as of where the cycle began.
func (s *snapshotter) writePiece(rows int) {
	next, control := s.ledger.next.Load(), s.ledger.control.Load()
	if s.ledger.fold.Scan().Records() > 0 {
		next, control = s.from, s.upTo
	}
	piece, more := s.ledger.fold.ScanRows(rows)
	if !more {
		s.ledger.fold.EndScan()
		s.ledger.describe(inPlace)
		s.events.ends(s.ledger.events.Newest())
	}
	s.writer.Start(snapshot.Piece{Rows: piece, Next: next, Control: control, End: !more})
}

// beginAnew ends the cycle under way, so that the next one begins at once.
func (s *snapshotter) beginAnew() {
	s.ledger.fold.EndScan()
	s.began = time.Time{}
}

// rulesWait is the longest that the fold waits for a change of rules to be in state[p]. The store has it already.
const rulesWait = 2 * time.Second

// writeRules writes a change of rules to state[p], before the fold goes on. The next cycle, which begins at once, repeats
// it.
func (s *snapshotter) writeRules(ctx context.Context) {
	l := s.ledger
	s.beginAnew()
	if l.config.State == "" {
		return
	}
	waitCtx, cancel := context.WithTimeout(ctx, rulesWait)
	defer cancel()
	err := s.idle(waitCtx)
	if err == nil {
		s.writer.Start(snapshot.Piece{Rules: snapshot.RulesRecord(l.fold.Rules(), l.rulesFrom, l.rulesControl)})
		err = s.idle(waitCtx)
	}
	if err != nil && ctx.Err() == nil {
		l.logger.Warn("cannot write the change of rules to state yet", "error", err)
	}
}

// mark ends what owners before this one say of the places of control records, and returns the offset of the mark in state[p].
func (s *snapshotter) mark(ctx context.Context) (at int64, err error) {
	c := &s.ledger.config
	if c.State == "" || c.Control == "" {
		return 0, nil
	}
	end, err := s.writer.Mark(ctx)
	return end - 1, err
}

// writePlaces writes to state[p] where control records were applied, before the fold goes on. If that takes too long, the fold goes
// on, and they are written before any other piece.
func (s *snapshotter) writePlaces(ctx context.Context, places []schemas.ControlPlace) {
	if s.ledger.config.State == "" || len(places) == 0 {
		return
	}
	s.places = append(s.places, places...)
	waitCtx, cancel := context.WithTimeout(ctx, rulesWait)
	defer cancel()
	err := s.idle(waitCtx)
	if err == nil {
		s.startPlaces()
		err = s.idle(waitCtx)
	}
	if err != nil && s.unnoted.IsZero() {
		s.unnoted = time.Now()
	}
	if err != nil && ctx.Err() == nil {
		s.ledger.logger.Warn("cannot write to state yet where control records were applied", "error", err)
	}
}

// notedWait is the longest that control records wait until the places of those before them are in state[p].
const notedWait = 30 * time.Second

// mayApply reports whether control records may be applied at another place: the store knows no more than the last one that is not in
// state[p], so the one before it would be lost with the process. After notedWait they may all the same: people must be able to act.
func (s *snapshotter) mayApply(now time.Time) bool {
	if s.unnoted.IsZero() || now.Sub(s.unnoted) >= notedWait {
		return true
	}
	if !s.writer.Busy() && len(s.places) == 0 {
		s.unnoted = time.Time{}
	}
	return s.unnoted.IsZero()
}

// startPlaces gives the writer the places that wait.
func (s *snapshotter) startPlaces() {
	s.writer.Start(snapshot.Piece{Places: s.places})
	s.places = nil
}

// idle waits until the writer is not busy, or until ctx ends.
func (s *snapshotter) idle(ctx context.Context) error {
	for s.writer.Busy() {
		select {
		case <-s.writer.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
