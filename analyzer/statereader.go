package analyzer

import (
	"context"
	"errors"
	"fmt"

	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// errIncomplete says that what was taken for a snapshot is none, or not a whole one.
var errIncomplete = errors.New("no complete snapshot")

// snapshot is a complete cycle of state[p], which has been read once, and the changes of rules that follow it.
type snapshot struct {
	begin   *pb.StateBegin // without senders
	senders []sent
	from    int64 // offset in state[p] of its rules and begin
	end     int64 // offset in state[p] behind its end
	last    int64 // the newest offset of requests[p] that a row is as of
	rows    int64
	history ruleHistory // from the snapshot to the end of state[p]
}

// stateScan is the pass that finds out whether a snapshot is whole. Of the records it sees only one cycle's count: that
// of the first begin. A zombie's in between, and copies, do no harm.
type stateScan struct {
	snapshot
	parts   map[uint32]bool
	skipped bool // something could not be read before the end
	done    bool
	why     error
}

// findSnapshot reads the snapshot that begins at an offset of state[p], and what follows it. The error is errIncomplete
// where there is none.
func (r reader) findSnapshot(ctx context.Context, from int64) (*snapshot, error) {
	start, end, err := r.rangeOf(ctx, r.config.State)
	if err != nil {
		return nil, err
	}
	if from < start || from >= end {
		return nil, fmt.Errorf("%w: it begins at %d, but the log is %d to %d", errIncomplete, from, start, end)
	}
	s := stateScan{snapshot: snapshot{from: from}, parts: make(map[uint32]bool)}
	err = r.readState(ctx, from, end, func(offset int64, rec *pb.StateRecord) error {
		s.take(offset, rec)
		return s.why
	})
	switch {
	case err != nil:
		return nil, err
	case !s.done:
		return nil, fmt.Errorf("%w: it has no end", errIncomplete)
	}
	return &s.snapshot, nil
}

// readState calls f for each record of state[p] from one offset up to another, and with nil where some could not be read.
// An error of f ends it.
func (r reader) readState(ctx context.Context, from, to int64, f func(offset int64, rec *pb.StateRecord) error) error {
	for from < to {
		b, err := r.fetch(ctx, r.config.State, from)
		if errors.Is(err, kafkaio.ErrOffsetOutOfRange) || errors.Is(err, kafkaio.ErrCorrupt) {
			return fmt.Errorf("%w: %w", errIncomplete, err)
		}
		if err != nil {
			return err
		}
		for range b.Skipped {
			if err := f(from, nil); err != nil {
				return err
			}
		}
		for i := range b.Records {
			rec, err := pb.DecodeState(b.Records[i].Value)
			if errors.Is(err, pb.ErrUnknown) {
				continue // a later version's
			}
			if err := f(b.Records[i].Offset, rec); err != nil { // nil if it can't be read
				return err
			}
		}
		from = max(from, b.Next)
	}
	return nil
}

// take takes note of a record.
func (s *stateScan) take(offset int64, rec *pb.StateRecord) {
	switch m := rec.GetRecord().(type) {
	case nil:
		s.skipped = true
	case *pb.StateRecord_Rules:
		s.history.add(m.Rules)
	case *pb.StateRecord_Begin:
		s.takeBegin(m.Begin)
	case *pb.StateRecord_Row:
		if !s.done && s.ours(m.Row) && m.Row.GetNext() >= s.last {
			s.last = m.Row.GetNext()
			s.rows++
		}
	case *pb.StateRecord_End:
		if s.done || !s.ours(m.End) {
			return
		}
		s.done, s.end = true, offset+1
		switch {
		case len(s.parts) != int(s.begin.GetParts()): // bounded by DecodeState
			s.why = fmt.Errorf("%w: got %d of %d begins", errIncomplete, len(s.parts), s.begin.GetParts())
		case s.rows < m.End.GetRows():
			s.why = fmt.Errorf("%w: got %d of %d rows", errIncomplete, s.rows, m.End.GetRows())
		case s.skipped:
			s.why = fmt.Errorf("%w: some of it cannot be read", errIncomplete)
		}
	}
}

// takeBegin takes the senders of each part once.
func (s *stateScan) takeBegin(b *pb.StateBegin) {
	if s.begin == nil {
		s.begin, s.last = b, b.GetOffset()
	}
	if s.done || !s.ours(b) || b.GetOffset() != s.begin.GetOffset() || s.parts[b.GetPart()] {
		return
	}
	s.parts[b.GetPart()] = true
	for _, row := range b.GetDedupe() {
		s.senders = append(s.senders, readSender(row))
	}
	b.Dedupe = nil
}

// cycled is any record of a cycle.
type cycled interface {
	GetEpoch() uint64
	GetCycle() uint64
}

func (s *stateScan) ours(m cycled) bool { return s.begin != nil && inCycle(s.begin, m) }

func inCycle(b *pb.StateBegin, m cycled) bool {
	return m.GetEpoch() == b.GetEpoch() && m.GetCycle() == b.GetCycle()
}

// eachRow reads the snapshot again and calls f for each of its rows, in the order of what they are as of. Copies that came
// late are passed over.
func (r reader) eachRow(ctx context.Context, s *snapshot, f func(row *pb.StateRow) error) error {
	last := s.begin.GetOffset()
	return r.readState(ctx, s.from, s.end, func(_ int64, rec *pb.StateRecord) error {
		row := rec.GetRow()
		if row == nil || !inCycle(s.begin, row) || row.GetNext() < last {
			return nil
		}
		last = row.GetNext()
		return f(row)
	})
}

// lastSnapshot returns the offset in state[p] where the newest complete snapshot begins, for a reader whom no heartbeat
// tells: it looks for the newest end of the highest epoch, from the end of the log. It returns −1 if there is none.
func (r reader) lastSnapshot(ctx context.Context) (from int64, err error) {
	start, end, err := r.rangeOf(ctx, r.config.State)
	if err != nil {
		return -1, err
	}
	for back := int64(tailStep); ; back *= 8 {
		epoch, found := uint64(0), int64(-1)
		err := r.readState(ctx, max(start, end-back), end, func(_ int64, rec *pb.StateRecord) error {
			if e := rec.GetEnd(); e != nil && e.GetEpoch() >= epoch {
				epoch, found = e.GetEpoch(), e.GetFrom()
			}
			return nil
		})
		if err != nil || found >= 0 || end-back <= start {
			return found, err
		}
	}
}

// allRules returns the changes of rules that state[p] still tells of.
func (r reader) allRules(ctx context.Context) (ruleHistory, error) {
	start, end, err := r.rangeOf(ctx, r.config.State)
	if err != nil {
		return nil, err
	}
	var h ruleHistory
	err = r.readState(ctx, start, end, func(_ int64, rec *pb.StateRecord) error {
		if m := rec.GetRules(); m != nil {
			h.add(m)
		}
		return nil
	})
	return h, err
}
