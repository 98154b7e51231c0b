package decisions

import (
	"context"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Log reads one partition of the decisions topic; a *kafkaio.Cursor is a Log. The Log decides how long its methods wait for
// a broker that is away, and what they do about damage in the log. One goroutine uses it at a time.
type Log interface {
	// Range returns the first offset that the partition holds, and the offset behind its last record.
	Range(ctx context.Context) (start, end int64, err error)
	// MoveTo makes Scan begin at an offset.
	MoveTo(offset int64)
	// Scan reads the records before offset end, which the partition has reached before, and calls f for each batch, in the
	// order of the log. An error of f ends the scan.
	Scan(ctx context.Context, end int64, f func(b *kafkaio.Batch) error) error
}

// Place is where a reader starts. The zero value is the start of a log from offset 0 on, without a heartbeat.
type Place struct {
	Read  int64 // the first offset to read: that of an announcement, from which the reader learns the epoch
	Apply int64 // decisions before this offset are not applied: they are read for their sequence numbers only
	End   int64 // the offset behind the last record when Find looked

	// Beat is the newest heartbeat, which says where to start. If the log holds none, Beat is the zero value, and Read and
	// Apply are the start of the log.
	Beat schemas.Heartbeat
}

// firstLook is how many offsets before the end of the log Find looks at first. Owners write as many in some seconds, so one
// late record of a replaced owner does not fill this stretch.
const firstLook = 512

// announcement is a claim or heartbeat in the log.
type announcement struct {
	offset     int64
	epoch, seq uint64            // seq is 0 in a claim
	beat       schemas.Heartbeat // the zero value in a claim
}

// newer reports whether a comes after b: in a higher epoch, or later in the same. Sequence numbers decide, not offsets,
// because a repeated produce leaves copies, which may come late.
func (a announcement) newer(b announcement) bool {
	return a.epoch > b.epoch || a.epoch == b.epoch && a.seq > b.seq
}

// finder is one call of Find.
type finder struct {
	log       Log
	partition int32
	now       func() time.Time
}

// Find returns where a reader of the partition starts. It searches backwards from the end of the log, by offset and never by
// time. The newest heartbeat says where the last complete cycle of repeats began. Before that place, Find searches for the
// newest announcement of the same epoch or a higher one. If that epoch is higher, the heartbeat is of an owner that had been
// replaced before its cycle began: Find then searches for a heartbeat of the higher epoch. Without one, the reader starts at
// the start of the log.
//
// Errors are those of the log. Find calls now for each record that announces an epoch.
func Find(ctx context.Context, log Log, partition int32, now func() time.Time) (Place, error) {
	f := finder{log: log, partition: partition, now: now}
	start, end, err := log.Range(ctx)
	if err != nil {
		return Place{}, err
	}
	for epoch := uint64(1); ; {
		beat, found, err := f.lookBack(ctx, start, end, func(a announcement) bool { return a.seq > 0 && a.epoch >= epoch })
		if err != nil {
			return Place{}, err
		}
		if !found {
			return Place{Read: start, Apply: start, End: end}, nil
		}
		at := Place{Apply: max(start, min(beat.beat.From, beat.offset)), End: end, Beat: beat.beat}
		before, err := f.before(ctx, start, at.Apply, beat.epoch)
		if err != nil {
			return Place{}, err
		}
		at.Read = before.offset
		if before.epoch <= beat.epoch {
			return at, nil
		}
		epoch = before.epoch
	}
}

// before returns the newest announcement in [start, apply] of the given epoch or a higher one. If there is none, a new owner has
// announced a cycle of the owner before it: before then returns the newest announcement of any epoch. If there is none at all, it
// returns an announcement of epoch 0 at apply.
func (f *finder) before(ctx context.Context, start, apply int64, epoch uint64) (announcement, error) {
	best, found, err := f.lookBack(ctx, start, apply+1, func(a announcement) bool { return a.epoch >= epoch })
	if err == nil && !found {
		best, found, err = f.lookBack(ctx, start, apply+1, func(announcement) bool { return true })
	}
	if !found {
		best = announcement{offset: apply}
	}
	return best, err
}

// lookBack returns the newest announcement in [start, end) that is wanted. It looks at the last stretch first, and then at
// the stretch before it, which is four times as long, until it finds one.
func (f *finder) lookBack(ctx context.Context, start, end int64, want func(announcement) bool) (announcement, bool, error) {
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
func (f *finder) newest(ctx context.Context, from, end int64, want func(announcement) bool) (best announcement, found bool, err error) {
	f.log.MoveTo(from)
	err = f.log.Scan(ctx, end, func(b *kafkaio.Batch) error {
		for i := range b.Records {
			if a, ok := f.announcement(&b.Records[i]); ok && want(a) && (!found || a.newer(best)) {
				best, found = a, true
			}
		}
		return nil
	})
	return best, found, err
}

// announcement returns what a claim or heartbeat announces. ok is false for other records, and for announcements that no
// reader believes.
func (f *finder) announcement(r *kafkaio.Record) (a announcement, ok bool) {
	m, err := pb.Decode(r.Value)
	if err != nil || m.Decision != nil || check(&m, f.partition, r.Time, f.now().UnixNano()) != nil {
		return announcement{}, false
	}
	a = announcement{offset: r.Offset, epoch: m.Epoch(), seq: m.Seq()}
	if m.Heartbeat != nil {
		a.beat = *m.Heartbeat
	}
	return a, a.epoch > 0 && (m.Claim != nil || a.seq > 0)
}
