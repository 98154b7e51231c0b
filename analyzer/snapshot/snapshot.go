package snapshot

import (
	"context"
	"errors"
	"fmt"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/rows"
)

// Snapshot is a complete cycle of state[p]. Reader.EachRow reads its rows again, so that a table of them need not be in memory twice.
type Snapshot struct {
	Begin   *pb.StateBegin // without senders
	Senders []fold.Sender
	Tail    kafkaio.Tail // the last record of requests[p] that any row counts
	Last    int64        // the newest offset of requests[p] that any row is as of, …
	Placed  int64        // … and the offset of the control topic behind the last place
	Rows    int64        // how many rows it has

	from int64 // offset in state[p] of its begin
	end  int64 // offset in state[p] behind its end
}

// At reads the snapshot that begins at an offset of state[p]. The error is ErrIncomplete if there is no complete one there, and
// rows.ErrNewer if a newer version of floodgate has begun one there.
func (r *Reader) At(ctx context.Context, from int64) (*Snapshot, error) {
	start, end, err := r.Range(ctx)
	if err != nil {
		return nil, err
	}
	if from < start || from >= end {
		return nil, fmt.Errorf("%w: it begins at %d, but the log is %d to %d", ErrIncomplete, from, start, end)
	}
	f := finder{Snapshot: Snapshot{from: from}, parts: make(map[uint32]bool)}
	err = r.each(ctx, from, end, func(offset int64, rec *pb.StateRecord) error {
		f.take(offset, rec)
		if f.ended {
			return errEnded
		}
		return f.newer
	})
	if errors.Is(err, errEnded) {
		err = f.err
	}
	switch {
	case err != nil:
		return nil, err
	case !f.ended:
		return nil, fmt.Errorf("%w: it has no end", ErrIncomplete)
	}
	return &f.Snapshot, nil
}

// errEnded ends the search for a snapshot's end.
var errEnded = errors.New("ended")

// EachRow reads a snapshot again and calls f for each of its rows, in the order of the offsets that they are as of. It skips copies that
// came late.
func (r *Reader) EachRow(ctx context.Context, s *Snapshot, f func(row *pb.StateRow) error) error {
	last := asOf{s.Begin.GetOffset(), s.Begin.GetPlaced()}
	return r.each(ctx, s.from, s.end, func(_ int64, rec *pb.StateRecord) error {
		row := rec.GetRow()
		if row == nil || !inCycle(s.Begin, row) || !last.reach(row) {
			return nil
		}
		return f(row)
	})
}

// asOf says what a row is as of: an offset of requests[p], and the offset of the control topic behind the last place.
type asOf struct{ next, placed int64 }

// reach moves on to a row, and returns true. If the row is as of an earlier place than the last one, it is a late copy, and reach returns
// false.
func (a *asOf) reach(row *pb.StateRow) bool {
	next, placed := row.GetNext(), row.GetPlaced()
	if next < a.next || next == a.next && placed < a.placed {
		return false
	}
	*a = asOf{next, placed}
	return true
}

// finder finds out whether a snapshot is complete. Only records of one cycle count: the cycle of the first begin. Copies, and records that
// a replaced owner wrote in between, are ignored.
type finder struct {
	Snapshot

	last       asOf
	parts      map[uint32]bool
	unreadable bool  // some record before the end could not be read
	newer      error // a rows.ErrNewer, or nil
	ended      bool
	err        error
}

// take adds a record.
func (f *finder) take(offset int64, rec *pb.StateRecord) {
	switch m := rec.GetRecord().(type) {
	case nil:
		f.unreadable = true
	case *pb.StateRecord_Begin:
		f.takeBegin(m.Begin)
	case *pb.StateRecord_Row:
		if f.inCycle(m.Row) && f.last.reach(m.Row) {
			f.Last, f.Placed = f.last.next, max(f.Placed, f.last.placed)
			f.Rows++
		}
	case *pb.StateRecord_End:
		if f.inCycle(m.End) {
			f.ended, f.end = true, offset+1
			f.Tail = kafkaio.Tail{Offset: m.End.GetTailOffset(), CRC: m.End.GetTailCrc()}
			f.err = f.missing(m.End)
		}
	}
}

// takeBegin takes the senders of each part once.
func (f *finder) takeBegin(b *pb.StateBegin) {
	if f.Begin == nil {
		f.newer = rows.Check(b.GetFormat(), b.GetSince())
		f.Begin, f.Last, f.Placed = b, b.GetOffset(), b.GetPlaced()
		f.last = asOf{f.Last, f.Placed}
	}
	if !f.inCycle(b) || b.GetOffset() != f.Begin.GetOffset() || f.parts[b.GetPart()] {
		return
	}
	f.parts[b.GetPart()] = true
	if b.GetPart() == 0 {
		f.Begin.Rules = b.GetRules()
	}
	for _, row := range b.GetDedupe() {
		f.Senders = append(f.Senders, decodeSender(row))
	}
	b.Dedupe = nil
}

// missing returns an ErrIncomplete if a part, a row or a readable record is missing before the end of the snapshot.
func (f *finder) missing(end *pb.StateEnd) error {
	switch {
	case len(f.parts) != int(f.Begin.GetParts()): // bounded by DecodeState
		return fmt.Errorf("%w: got %d of %d begins", ErrIncomplete, len(f.parts), f.Begin.GetParts())
	case f.Rows < end.GetRows():
		return fmt.Errorf("%w: got %d of %d rows", ErrIncomplete, f.Rows, end.GetRows())
	case f.unreadable:
		return fmt.Errorf("%w: some of it cannot be read", ErrIncomplete)
	}
	return nil
}

// cycled is any record of a cycle.
type cycled interface {
	GetEpoch() uint64
	GetCycle() uint64
}

func (f *finder) inCycle(m cycled) bool { return f.Begin != nil && inCycle(f.Begin, m) }

func inCycle(b *pb.StateBegin, m cycled) bool {
	return m.GetEpoch() == b.GetEpoch() && m.GetCycle() == b.GetCycle()
}
