package analyzer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/decisions"
)

// decisionsReader reads decisions[p] from an offset on. It waits for as long as the brokers are away. It implements decisions.Log.
type decisionsReader struct {
	*kafkaio.Cursor

	config *OwnerConfig
}

func newDecisionsReader(log kafkaio.Fetcher, c *OwnerConfig, offset int64) *decisionsReader {
	return &decisionsReader{c.cursor(log, c.Decisions, offset), c}
}

// gateView is what a gate that starts now learns from the decisions log.
type gateView struct {
	beat     schemas.Heartbeat // the newest; the zero value if there is none
	follower decisions.Follower
	next     int64 // the offset behind what was read

	published map[outbox.Key]schemas.Decision // the newest for each key: what gates believe
}

// take notes a decision that gates believe. Answers to canaries are left out.
func (v *gateView) take(rec *pb.Record) {
	if d := rec.Decision; d != nil && d.Caller.Kind != schemas.KindCanary {
		v.published[outbox.KeyOf(d)] = *d
	}
}

// gateClock returns the time of a gate whose clock is ahead of ours by as much as well-kept clocks differ. Such a gate believes more
// epochs, and an owner needs an epoch above all that any gate believes.
func gateClock() time.Time { return time.Now().Add(5 * time.Second) }

// view reads the decisions log as a gate that starts now does.
func (r *decisionsReader) view(ctx context.Context) (gateView, error) {
	v := gateView{follower: decisions.Follower{Partition: int32(r.config.Fold.Partition), Unannounced: true}} // a partition number
	for {
		place, err := decisions.Find(ctx, r, v.follower.Partition, gateClock)
		if err != nil {
			return v, err
		}
		v.beat, v.next, v.published = place.Beat, place.End, make(map[outbox.Key]schemas.Decision)
		v.follower.Start(place)
		if err := v.follower.Replay(ctx, r, gateClock, v.take); !errors.Is(err, decisions.ErrMoved) {
			return v, err
		}
	}
}

// Scan implements decisions.Log. It logs records that cannot be read. If records are removed before they are read, it returns an error,
// because reading then began at the wrong place.
func (r *decisionsReader) Scan(ctx context.Context, end int64, f func(b *kafkaio.Batch) error) error {
	return r.Cursor.Scan(ctx, end, func(b *kafkaio.Batch) error {
		for _, s := range b.Skipped {
			if s.Reason == kafkaio.SkipLost {
				return fmt.Errorf("decisions at offsets %d to %d were removed before they were read: %w", s.From, s.To, s.Err)
			}
			if s.Reason != kafkaio.SkipControl && s.Reason != kafkaio.SkipGap {
				r.config.Logger.Error("skipped records", "topic", r.config.Decisions, "from", s.From, "to", s.To, "reason", s.Reason, "error", s.Err)
			}
		}
		return f(b)
	})
}

// each reads up to an offset, and calls f for each record about the owner's partition.
func (r *decisionsReader) each(ctx context.Context, end int64, f func(at *kafkaio.Record, rec *pb.Record)) error {
	return r.Scan(ctx, end, func(b *kafkaio.Batch) error {
		for i := range b.Records {
			rec, err := pb.Decode(b.Records[i].Value)
			if err == nil && int(rec.Partition()) == r.config.Fold.Partition {
				f(&b.Records[i], &rec)
			}
		}
		return nil
	})
}

// fences reports whether gates refuse records under our signature because of a record before an offset. That is a claim or heartbeat of a
// higher epoch: another owner has the partition now. Or it is a record of our epoch that we did not write: gates then drop our records up
// to its sequence number.
func (r *decisionsReader) fences(ctx context.Context, end int64, ours *signature) (fenced bool, err error) {
	err = r.each(ctx, end, func(at *kafkaio.Record, rec *pb.Record) {
		if believed(rec, at.Time) {
			fenced = fenced || rec.Decision == nil && rec.Epoch() > ours.epoch || rec.Seq() > ours.seq && rec.Epoch() == ours.epoch
		}
	})
	return fenced, err
}

// believed reports whether gates believe the epoch of a record of the given time. The epoch of a decision does not raise the epoch that
// gates believe. But it is used where the log has no claim and no heartbeat.
func believed(rec *pb.Record, recordTime int64) bool {
	return schemas.CheckEpoch(rec.Epoch(), recordTime, time.Now().UnixNano()) == nil
}
