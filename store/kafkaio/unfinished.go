package kafkaio

import (
	"slices"
	"sync"
	"time"
)

// Bounds on the batches that are read in pieces.
const (
	maxUnfinished  = 256 << 20        // bytes of all such batches of one Client
	unfinishedIdle = 30 * time.Second // after this time a batch is dropped: its reader has probably ended
)

// unfinished are the batches of which Fetch has returned a piece. Without them, each piece would cost a fetch, and the
// unpacking of all pieces before it. The methods are safe for concurrent use; a batch is used by one goroutine at a time.
type unfinished struct {
	mu      sync.Mutex
	batches []*unfinishedBatch // guarded by mu
}

// unfinishedBatch is a batch, the offset at which its reader continues, and the broker's answer when the batch was fetched.
type unfinishedBatch struct {
	open                *openBatch
	topic               string
	partition           int
	next                int64
	highWater, logStart int64
	busy                bool // a Fetch reads it
	used                time.Time
}

// resume returns the next piece of the batch in which r continues, if that batch is kept.
func (u *unfinished) resume(r FetchRequest, piece int, now time.Time) (Batch, bool) {
	held := u.take(r)
	if held == nil {
		return Batch{}, false
	}
	b := Batch{Next: r.Offset, HighWater: held.highWater, LogStart: held.logStart}
	held.open.fill(&b, piece)
	u.mu.Lock()
	defer u.mu.Unlock()
	held.next, held.used, held.busy = b.Next, now, false
	if held.open.left == 0 {
		u.batches = slices.DeleteFunc(u.batches, func(x *unfinishedBatch) bool { return x == held })
	}
	return b, true
}

// take returns the batch in which r continues, and marks it as busy.
func (u *unfinished) take(r FetchRequest) *unfinishedBatch {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, x := range u.batches {
		if x.partition == r.Partition && x.next == r.Offset && !x.busy && x.topic == r.Topic {
			x.busy = true
			return x
		}
	}
	return nil
}

// keep keeps the batch in the middle of which b ends, if there is room. If there is none, its next piece will be fetched
// and unpacked again: batches that are already kept stay, so that at least these are read quickly.
func (u *unfinished) keep(r FetchRequest, b *Batch, now time.Time) {
	if b.open == nil {
		return
	}
	held := &unfinishedBatch{
		open: b.open, topic: r.Topic, partition: r.Partition, next: b.Next, highWater: b.HighWater, logStart: b.LogStart, used: now,
	}
	b.open = nil
	u.mu.Lock()
	defer u.mu.Unlock()
	bytes := held.open.packed
	u.batches = slices.DeleteFunc(u.batches, func(x *unfinishedBatch) bool {
		expired := !x.busy && now.Sub(x.used) > unfinishedIdle
		if !expired {
			bytes += x.open.packed
		}
		return expired
	})
	if bytes <= maxUnfinished {
		u.batches = append(u.batches, held)
	}
}

func (u *unfinished) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.batches = nil
}
