package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// ErrIncomplete says that there is no complete snapshot at the place where it was searched. Test with errors.Is.
var ErrIncomplete = errors.New("no complete snapshot")

// IgnoreIncomplete returns nil in place of an ErrIncomplete, for a caller that goes on without a snapshot.
func IgnoreIncomplete(err error) error {
	if errors.Is(err, ErrIncomplete) {
		return nil
	}
	return err
}

// Reader reads state[p]. Its methods wait for as long as the brokers are away. Any number of goroutines may use it.
type Reader struct {
	log    kafkaio.Fetcher
	config kafkaio.CursorConfig
}

// NewReader returns a reader of one partition of the topic. retry decides whether failed attempts are repeated. logger reports what cannot
// be read; nil discards. It does no I/O.
func NewReader(log kafkaio.Fetcher, topic string, partition int, retry kafkaio.Retry, logger *slog.Logger) *Reader {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Reader{log, kafkaio.CursorConfig{
		Topic: topic, Partition: partition, MaxBytes: 1 << 20, Retry: retry, Logger: logger,
	}}
}

// Range returns the offsets that state[p] holds.
func (r *Reader) Range(ctx context.Context) (start, end int64, err error) {
	return kafkaio.NewCursor(r.log, r.config).Range(ctx)
}

// each calls f for each record from one offset up to another, and with nil where some could not be read. An error of f ends the reading.
func (r *Reader) each(ctx context.Context, from, to int64, f func(offset int64, rec *pb.StateRecord) error) error {
	c := r.config
	c.Offset = max(from, 0)
	err := kafkaio.NewCursor(r.log, c).Scan(ctx, to, func(b *kafkaio.Batch) error {
		for _, s := range b.Skipped {
			if s.Reason == kafkaio.SkipLost || s.Reason == kafkaio.SkipCorrupt {
				return fmt.Errorf("%w: offsets %d to %d: %w", ErrIncomplete, s.From, s.To, s.Err)
			}
			if s.Reason != kafkaio.SkipControl && s.Reason != kafkaio.SkipGap {
				c.Logger.Error("skipped records", "topic", c.Topic, "from", s.From, "to", s.To, "reason", s.Reason, "error", s.Err)
			}
			if err := f(s.From, nil); err != nil {
				return err
			}
		}
		return eachRecord(b.Records, f)
	})
	if errors.Is(err, kafkaio.ErrTruncated) {
		return fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	return err
}

func eachRecord(records []kafkaio.Record, f func(offset int64, rec *pb.StateRecord) error) error {
	for i := range records {
		rec, err := pb.DecodeState(records[i].Value)
		if errors.Is(err, pb.ErrUnknown) {
			continue // a later version's
		}
		if err := f(records[i].Offset, rec); err != nil { // nil if it cannot be read
			return err
		}
	}
	return nil
}

// BeginAt returns the begin of the snapshot at an offset of state[p], or nil if there is none.
func (r *Reader) BeginAt(ctx context.Context, from int64) (begin *pb.StateBegin, err error) {
	start, end, err := r.Range(ctx)
	if err != nil || from < start || from >= end {
		return nil, err
	}
	found := errors.New("found")
	err = r.each(ctx, from, min(end, from+8), func(_ int64, rec *pb.StateRecord) error {
		if begin = rec.GetBegin(); begin != nil {
			return found
		}
		return nil
	})
	if errors.Is(err, found) {
		err = nil
	}
	return begin, IgnoreIncomplete(err)
}

// firstStep is how many offsets before the end Newest begins its search. Each further step goes back eight times as far.
const firstStep = 256

// Newest returns the offset in state[p] where the newest complete snapshot begins, for a reader that has no heartbeat to
// say so. It looks for the newest end of the highest epoch, from the end of the log. It returns −1 if there is none.
func (r *Reader) Newest(ctx context.Context) (from int64, err error) {
	start, end, err := r.Range(ctx)
	if err != nil {
		return -1, err
	}
	for back := int64(firstStep); ; back *= 8 {
		epoch, found := uint64(0), int64(-1)
		err := r.each(ctx, max(start, end-back), end, func(_ int64, rec *pb.StateRecord) error {
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
