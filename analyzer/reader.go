package analyzer

import (
	"context"
	"fmt"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// reader reads an owner's topics from given offsets. Its methods try again for as long as the broker is away.
type reader struct {
	log    Log
	config OwnerConfig
}

// rangeOf returns the offsets that the log holds, however long the broker is away.
func (r reader) rangeOf(ctx context.Context, topic string) (start, end int64, err error) {
	for wait := retryFirst; ; wait = min(2*wait, retryLast) {
		start, end, err = r.log.Range(ctx, topic, r.config.Fold.Partition)
		if err == nil {
			return start, end, nil
		}
		if ctx.Err() != nil {
			return 0, 0, ctx.Err()
		}
		r.config.Logger.Warn("cannot read the log's range", "topic", topic, "error", err)
		sleep(ctx, wait)
	}
}

// tailState is what the end of the decisions log says.
type tailState struct {
	fence schemas.Fence
	beat  schemas.Heartbeat // the newest; the zero value if there is none
	from  int64             // where the last complete cycle of the newest heartbeat began
	next  int64             // the offset behind what was read
}

// tailStep is how far back from the end the newest heartbeat is looked for at first; it grows eightfold.
const tailStep = 256

// tail finds the newest heartbeat, from the end of the decisions log and never by a clock, and the highest epoch of what
// follows it.
func (r reader) tail(ctx context.Context) (tailState, error) {
	start, end, err := r.rangeOf(ctx, r.config.Decisions)
	if err != nil {
		return tailState{}, err
	}
	for back := int64(tailStep); ; back *= 8 {
		from := max(start, end-back)
		at := tailState{from: start}
		beats := 0
		at.next, err = r.scan(ctx, from, end, func(rec pb.Record) {
			switch {
			case rec.Claim != nil:
				at.fence.Claim(rec.Claim.Epoch)
			case rec.Heartbeat != nil && rec.Heartbeat.Epoch >= at.fence.Epoch:
				at.fence.Heartbeat(rec.Heartbeat.Epoch, rec.Heartbeat.Seq)
				at.from = max(start, rec.Heartbeat.From)
				at.beat = *rec.Heartbeat
				beats++
			}
		})
		if err != nil || beats > 0 || from == start {
			return at, err
		}
	}
}

// scan reads decisions[p] from one offset up to another, and returns the offset behind what it read. Records that can't
// be read, or that are about another partition, are passed over.
func (r reader) scan(ctx context.Context, from, to int64, f func(rec pb.Record)) (int64, error) {
	for from < to {
		b, err := r.fetch(ctx, r.config.Decisions, from)
		if err != nil {
			return from, err
		}
		for i := range b.Records {
			if rec, err := pb.Decode(b.Records[i].Value); err == nil && b.Records[i].Offset < to && r.mine(&rec) {
				f(rec)
			}
		}
		from = max(from, b.Next)
	}
	return from, nil
}

// mine reports whether a record is about the owner's partition: gates believe no other.
func (r reader) mine(rec *pb.Record) bool {
	switch p := int32(r.config.Fold.Partition); { // a partition number
	case rec.Decision != nil:
		return rec.Decision.Partition == p
	case rec.Claim != nil:
		return rec.Claim.Partition == p
	default:
		return rec.Heartbeat != nil && rec.Heartbeat.Partition == p
	}
}

// fetch returns what a topic holds from an offset on, however long the broker is away.
func (r reader) fetch(ctx context.Context, topic string, from int64) (kafkaio.Batch, error) {
	for wait := retryFirst; ; wait = min(2*wait, retryLast) {
		b, err := r.log.Fetch(ctx, kafkaio.FetchRequest{
			Topic: topic, Partition: r.config.Fold.Partition, Offset: from,
			MaxWait: fetchWait, MinBytes: fetchMinLen, MaxBytes: fetchBytes,
		})
		switch {
		case err == nil:
			return b, nil
		case ctx.Err() != nil:
			return b, ctx.Err()
		case !kafkaio.Temporary(err):
			return b, fmt.Errorf("read %s: %w", topic, err)
		}
		sleep(ctx, wait)
	}
}
