package kafkalink

import (
	"context"
	"errors"
	"time"

	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// firstLook is how many offsets before the end of the log a follower looks at first. It is some seconds' worth, so that
// one stray record of an owner that was replaced is not all there is to see.
const firstLook = 512

// announcement is a claim or heartbeat in the log.
type announcement struct {
	offset     int64
	epoch, seq uint64
	from       int64 // of a heartbeat
}

// newer reports whether a says more than b: of a higher epoch, or later under the same.
func (a announcement) newer(b announcement) bool {
	return a.epoch > b.epoch || a.epoch == b.epoch && a.offset > b.offset
}

// place is where a follower starts: it reads from read, for the epoch, and applies decisions from apply on. What was in
// the log when it looked ends before end.
type place struct{ read, apply, end int64 }

// find returns where to start. The newest heartbeat, searched from the end of the log and not by anybody's clock, says
// where the last complete cycle of repeats began; the newest announcement before that says whose epoch it was then. If
// that is a higher epoch, the heartbeat was of an owner that had been replaced, and the next older one is looked at.
func (f *follower) find(ctx context.Context) (place, error) {
	start, end, err := f.client.Range(ctx, f.config.Topics.Decisions, f.partition)
	if err != nil {
		return place{}, err
	}
	for epoch := uint64(0); ; {
		beat, found, err := f.lookBack(ctx, start, end, func(r pb.Record) bool {
			return r.Heartbeat != nil && r.Heartbeat.Epoch >= epoch
		})
		if err != nil || !found {
			return place{read: start, apply: start, end: end}, err
		}
		at := place{apply: max(start, min(beat.from, beat.offset)), end: end}
		before, found, err := f.lookBack(ctx, start, at.apply+1, func(r pb.Record) bool { return r.Decision == nil })
		if err != nil {
			return place{}, err
		}
		if at.read = at.apply; found {
			at.read = before.offset
		}
		if before.epoch <= beat.epoch {
			return at, nil
		}
		epoch = before.epoch
	}
}

// lookBack returns the newest announcement in [start, end) that is wanted. It looks at the end first, and then at four
// times as much as before each time, until it finds one.
func (f *follower) lookBack(ctx context.Context, start, end int64, want func(pb.Record) bool) (announcement, bool, error) {
	for look := int64(firstLook); ; look *= 4 {
		from := max(start, end-look)
		best, found, err := f.newest(ctx, from, end, want)
		if err != nil || found || from == start {
			return best, found, err
		}
		end = from
	}
}

// newest returns the newest announcement in [from, end) that is wanted.
func (f *follower) newest(ctx context.Context, from, end int64, want func(pb.Record) bool) (best announcement, found bool, err error) {
	for from < end {
		b, err := f.fetch(ctx, from, 0)
		if err != nil {
			return best, found, err
		}
		for i := range b.Records {
			if b.Records[i].Offset >= end {
				break
			}
			r, err := pb.Decode(b.Records[i].Value)
			if err != nil || !want(r) || !f.mine(&r) {
				continue
			}
			if a := announce(b.Records[i].Offset, &r); !found || a.newer(best) {
				best, found = a, true
			}
		}
		if b.Next <= from {
			return best, found, nil // the log ends earlier than it said
		}
		from = b.Next
	}
	return best, found, nil
}

// announce returns what a claim or heartbeat says.
func announce(offset int64, r *pb.Record) announcement {
	if c := r.Claim; c != nil {
		return announcement{offset: offset, epoch: c.Epoch}
	}
	return announcement{offset: offset, epoch: r.Heartbeat.Epoch, seq: r.Heartbeat.Seq, from: r.Heartbeat.From}
}

// mine reports whether a record is about the follower's partition.
func (f *follower) mine(r *pb.Record) bool {
	switch p := int32(f.partition); {
	case r.Decision != nil:
		return r.Decision.Partition == p
	case r.Claim != nil:
		return r.Claim.Partition == p
	default:
		return r.Heartbeat != nil && r.Heartbeat.Partition == p
	}
}

// corruptTries is how often a damaged place is fetched before it is passed over: bits flip in flight, too.
const corruptTries = 3

// fetch fetches from an offset on. Where the log is damaged it returns nothing, and where to go on.
func (f *follower) fetch(ctx context.Context, offset int64, patience time.Duration) (kafkaio.Batch, error) {
	var wait backoff
	for try := 1; ; try++ {
		b, err := f.client.Fetch(ctx, kafkaio.FetchRequest{
			Topic: f.config.Topics.Decisions, Partition: f.partition, Offset: offset, MaxWait: patience, MinBytes: 1,
		})
		var damage *kafkaio.CorruptError
		if !errors.As(err, &damage) {
			return b, err
		}
		if try == corruptTries {
			f.counts.refuse(refusedCorrupt, 1)
			return kafkaio.Batch{Next: max(damage.To, offset) + 1, HighWater: -1, LogStart: -1}, nil
		}
		if err := wait.pause(ctx); err != nil {
			return kafkaio.Batch{}, err
		}
	}
}
