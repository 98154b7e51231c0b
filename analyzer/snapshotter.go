package analyzer

import (
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/snapshot"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// snapshotter writes the ledger to state[p], in cycles. A cycle begins each OwnerConfig.Snapshot, or sooner by SnapshotBy and SnapshotNow. Its
// rows go to the writer in pieces that are spread over the cycle, so that the fold never waits longer than it takes to copy a piece. Only the
// owner's goroutine may use it; another one runs the writer.
type snapshotter struct {
	ledger       *ledger
	writer       *snapshot.Writer
	born         time.Time
	began        time.Time // when the newest cycle began; zero: begin one now
	folded       int64     // ledger.folded when it began
	from         int64     // the next offset when that cycle began, …
	placed       int64     // … and the last place then
	announcement announcement
}

func newSnapshotter(log kafkaio.Producer, l *ledger) *snapshotter {
	c := &l.config
	return &snapshotter{ledger: l, born: time.Now(), writer: snapshot.NewWriter(log, snapshot.WriterConfig{
		Topic: c.State, Partition: c.Fold.Partition, Lease: c.Lease, Logger: c.Logger,
	})}
}

// Sizes of a piece, in rows. A small table is done at once, and a large one does not delay the fold for more than some milliseconds.
const (
	minPiece = 256
	maxPiece = 4096
)

// age returns how long ago the newest complete snapshot was begun, or, if there is none, the snapshotter was made; 0 if it writes none. Any
// goroutine may call it.
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

// step continues the cycle under way, or begins the next one if it is due. It never waits.
func (s *snapshotter) step(now time.Time) {
	l := s.ledger
	if l.config.State == "" || s.writer.Busy() {
		return
	}
	scan := l.fold.Scan()
	switch {
	case scan != nil && scan.Overflowed():
		l.logger.Warn("snapshot given up: callers come and go faster than it is written")
		l.fold.EndScan()
	case scan != nil:
		s.writePiece(min(maxPiece, max(minPiece, scan.Dropped(), scan.Records(), s.behind(scan, now))))
	case s.began.IsZero() || s.passed(now) >= 1:
		s.begin(now)
	}
}

// hurry continues the cycle at once if rows are dropped faster than the cycle reaches them, or if it is late by more than a piece.
func (s *snapshotter) hurry() {
	now := time.Now()
	if scan := s.ledger.fold.Scan(); scan != nil && max(scan.Dropped(), s.behind(scan, now)) > maxPiece {
		s.step(now)
	}
}

// passed returns which part of the cycle has passed; 1 or more: it is over.
func (s *snapshotter) passed(now time.Time) float64 {
	c := &s.ledger.config
	if (s.ledger.fold.Scan() != nil || s.ledger.folded > s.folded) && c.SnapshotNow() { // another one of the same would make no room
		return 1
	}
	part := float64(now.Sub(s.began)) / float64(c.Snapshot)
	if c.SnapshotBy > 0 {
		part = max(part, float64(s.ledger.folded-s.folded)/float64(c.SnapshotBy))
	}
	return part
}

// behind returns how many rows must be written now so that the scan ends after nine tenths of the cycle.
func (s *snapshotter) behind(scan *fold.Scan, now time.Time) int {
	return scan.Behind(min(s.passed(now)/0.9, 1))
}

// begin begins a cycle as of the next offset.
func (s *snapshotter) begin(now time.Time) {
	l := s.ledger
	s.began, s.folded = now, l.folded
	next := l.next.Load()
	s.from, s.placed = next, l.placed.Placed
	senders, losses := l.fold.BeginScan()
	text := l.fold.Rules().Text()
	if len(text) > pb.MaxStateRules {
		text = nil // then only a reader that has the file knows the rules
	}
	s.writer.Start(snapshot.Piece{
		Begin: &pb.StateBegin{
			Offset: next, LogTime: l.fold.LogTime(), TailOffset: l.tail.Offset, TailCrc: l.tail.CRC,
			RulesId: l.fold.Rules().ID(), RulesFrom: l.rulesFrom, Placed: s.placed, PlacedEpoch: l.placed.Epoch, Rules: text,
		},
		Senders: senders, Rows: losses, Next: next, Placed: s.placed,
	})
}

// writePiece writes the next rows, as of the next offset. Control records come first, as of where the cycle began.
func (s *snapshotter) writePiece(rows int) {
	next, placed := s.ledger.next.Load(), s.ledger.placed.Placed
	if s.ledger.fold.Scan().Records() > 0 {
		next, placed = s.from, s.placed
	}
	piece, more := s.ledger.fold.ScanRows(rows)
	if !more {
		s.ledger.fold.EndScan()
		s.ledger.describe(byMessage)
		s.announcement.ends(s.ledger.events.Newest())
	}
	s.writer.Start(snapshot.Piece{Rows: piece, Next: next, Placed: placed, End: !more, Tail: s.ledger.tail})
}

// beginAnew ends the cycle under way, and makes the next step begin another.
func (s *snapshotter) beginAnew() {
	s.ledger.fold.EndScan()
	s.began = time.Time{}
}
