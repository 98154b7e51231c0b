package decisions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Errors of Follower.Take, beside those of package schemas/pb and schemas.ErrEpoch. Test with errors.Is; Reason turns them
// into metric labels.
var (
	// ErrPartition says that a record is about another partition than the one it was read from.
	ErrPartition = errors.New("record of another partition")
	// ErrFenced says that a record is of an owner that was replaced, of an epoch that was not announced, or a copy.
	ErrFenced = errors.New("record of another epoch than the owner's, or a copy")
	// ErrMoved says that the Place was wrong: an owner that the reader did not know has decided before it. The record itself,
	// a heartbeat, counts. The reader calls Find and Start again.
	ErrMoved = errors.New("owner has decisions before the place where reading began")
)

// Reason returns the metric label for an error of Take: a short word, from a fixed list.
func Reason(err error) string {
	switch {
	case errors.Is(err, ErrPartition):
		return "partition" // about another partition than the one it was read from
	case errors.Is(err, ErrFenced):
		return "fenced" // of an owner that was replaced, or a copy
	case errors.Is(err, schemas.ErrEpoch):
		return "epoch" // a claim or heartbeat whose epoch schemas.CheckEpoch refuses
	case errors.Is(err, ErrMoved):
		return "moved"
	}
	return pb.Reason(err)
}

// Follower judges the records of one partition in the order of the log. The zero value with a Partition is ready for Start.
// One goroutine may use it.
type Follower struct {
	Partition int32

	// Unannounced makes the Follower take decisions of epochs that were not announced, while it reads from a Place without
	// a heartbeat. It is for owners: gates that run for longer than the log reaches back have read the announcement.
	Unannounced bool

	fence    schemas.Fence
	place    Place
	moved    uint64 // the epoch whose heartbeat was ErrMoved: that happens once for each
	restarts bool   // there was an ErrMoved since Start
}

// Start begins to read at a place. Records that were taken before are not taken again, because the fence is kept, except
// after ErrMoved.
func (f *Follower) Start(at Place) {
	if f.restarts {
		f.fence = schemas.Fence{}
	}
	f.place, f.restarts = at, false
}

// Epoch returns the highest epoch announced so far, 0 before the first.
func (f *Follower) Epoch() uint64 { return f.fence.Epoch }

// Take judges the next record. now is the reader's clock, in Unix nanoseconds. If the error is nil or ErrMoved, the record
// counts: a claim that takes the partition over, a heartbeat, or a decision to apply. A decision before Place.Apply is the
// zero pb.Record with a nil error: there is nothing to apply. Any other error says why a record does not count.
func (f *Follower) Take(r *kafkaio.Record, now int64) (pb.Record, error) {
	m, err := pb.Decode(r.Value)
	if err != nil {
		return pb.Record{}, fmt.Errorf("decode record at offset %d: %w", r.Offset, err)
	}
	if err := check(&m, f.Partition, r.Time, now); err != nil {
		return pb.Record{}, err
	}
	switch {
	case m.Claim != nil:
		if !f.fence.Claim(m.Claim.Epoch) {
			return pb.Record{}, ErrFenced
		}
	case m.Heartbeat != nil:
		return f.heartbeat(m)
	default:
		return f.decision(m, r, now)
	}
	return m, nil
}

// heartbeat takes a heartbeat. If the heartbeat raises the epoch, the claim was not read, and the cycle began before the
// place, then decisions of its owner were passed over.
func (f *Follower) heartbeat(m pb.Record) (pb.Record, error) {
	h, epoch := m.Heartbeat, f.fence.Epoch
	if !f.fence.Heartbeat(h.Epoch, h.Seq) {
		return pb.Record{}, ErrFenced
	}
	if epoch != 0 && h.Epoch > max(epoch, f.moved) && h.From < f.place.Apply {
		f.moved, f.restarts = h.Epoch, true
		return m, ErrMoved
	}
	return m, nil
}

func (f *Follower) decision(m pb.Record, r *kafkaio.Record, now int64) (pb.Record, error) {
	d := m.Decision
	if f.Unannounced && f.place.Beat.Epoch == 0 && schemas.CheckEpoch(d.Epoch, r.Time, now) == nil {
		f.fence.Claim(d.Epoch)
	}
	taken := f.fence.Decision(d.Epoch, d.Seq)
	switch {
	case r.Offset < f.place.Apply:
		return pb.Record{}, nil
	case !taken:
		return pb.Record{}, ErrFenced
	}
	return m, nil
}

// Replay takes the records that the log held when Find looked, from Place.Read up to Place.End. It calls each for those
// that count. A heartbeat with ErrMoved ends it, with that error; other errors are those of the log.
func (f *Follower) Replay(ctx context.Context, log Log, now func() time.Time, each func(m *pb.Record)) error {
	log.MoveTo(f.place.Read)
	return log.Scan(ctx, f.place.End, func(b *kafkaio.Batch) error {
		for i := range b.Records {
			m, err := f.Take(&b.Records[i], now().UnixNano())
			if m != (pb.Record{}) {
				each(&m)
			}
			if errors.Is(err, ErrMoved) {
				return err
			}
		}
		return nil
	})
}

// check reports why no reader of a partition believes a record of the given time.
func check(m *pb.Record, partition int32, recordTime, now int64) error {
	if got := m.Partition(); got != partition {
		return fmt.Errorf("%w: got %d, want %d", ErrPartition, got, partition)
	}
	if m.Decision != nil {
		return nil // a decision never raises the epoch
	}
	return schemas.CheckEpoch(m.Epoch(), recordTime, now)
}
