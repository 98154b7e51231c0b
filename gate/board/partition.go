package board

import (
	"context"
	"maps"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
)

// partition is what is known of one partition of decisions.
type partition struct {
	heartbeat schemas.Heartbeat // the newest one of the highest epoch; of epoch 0 if there was none
	heard     time.Time         // when it was received
	loaded    bool              // all that the partition held at the start has been applied
	missing   int               // complete cycles of repeats to wait for, until all dropped decisions have come again
}

// cyclesToMend is how many cycles of repeats must complete after a drop. The first of them may have begun before the drop; the second
// began after it.
const cyclesToMend = 2

// drop counts a decision that found no room.
func (b *Board) drop(partition int32) {
	b.counts.dropped++
	b.parts[partition].missing = cyclesToMend
}

// Resize sets how many partitions there are. All are loading then: their decisions are read from the start. Partitions
// that remain keep their heartbeats, and what is in force stays.
func (b *Board) Resize(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	parts := make([]partition, max(0, n))
	copy(parts, b.parts)
	for i := range parts {
		parts[i].loaded = false
	}
	if b.parts = parts; b.loaded > 0 {
		b.changed++ // this number is no change: subscribers with a lower one get Lost
		b.floor = b.changed
	}
	b.loaded = 0
	b.notify(&b.wake)
}

// Loaded says that everything that a partition held at the start was applied.
func (b *Board) Loaded(partition int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if partition < 0 || partition >= len(b.parts) || b.parts[partition].loaded {
		return
	}
	b.parts[partition].loaded = true
	b.loaded++
	b.notify(&b.wake)
}

// Beat stores a heartbeat that was received at the time now, by the clock of this process. It is ignored unless it is
// newer than the newest one: of a higher epoch, or of the same one with a higher sequence number.
func (b *Board) Beat(h *schemas.Heartbeat, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.Partition < 0 || int(h.Partition) >= len(b.parts) {
		b.counts.foreign++
		return
	}
	p := &b.parts[h.Partition]
	old := p.heartbeat
	if h.Epoch < old.Epoch || h.Epoch == old.Epoch && h.Seq <= old.Seq {
		b.counts.outdated++
		return
	}
	if p.missing > 0 && (h.Epoch != old.Epoch || h.From != old.From) {
		p.missing--
	}
	p.heartbeat, p.heard = *h, now
	b.notify(&b.beats)
}

// Partitions returns how many partitions there are; 0 until Kafka was reached once.
func (b *Board) Partitions() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.parts)
}

// Heartbeat returns the newest heartbeat of the highest epoch of a partition, and whether there is one.
func (b *Board) Heartbeat(partition int) (schemas.Heartbeat, bool) {
	p := b.partition(partition)
	return p.heartbeat, p.heartbeat.Epoch > 0
}

// partition returns a partition; one that does not exist is a zero one.
func (b *Board) partition(i int) partition {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if i < 0 || i >= len(b.parts) {
		return partition{}
	}
	return b.parts[i]
}

// Freshness returns how current a partition's decisions are at now. It judges as a gate does: by the time at which the newest heartbeat
// was received, and gate.DefaultStaleAfter.
func (b *Board) Freshness(partition int, now time.Time) gate.Freshness {
	return b.partition(partition).freshness(now)
}

func (p partition) freshness(now time.Time) gate.Freshness {
	switch {
	case p.heartbeat.Epoch == 0:
		return gate.Cold
	case now.Sub(p.heard) >= gate.DefaultStaleAfter:
		return gate.Stale
	}
	return gate.Fresh
}

// Owner is what a Board knows of the owner of a partition.
type Owner struct {
	Freshness gate.Freshness
	Heartbeat schemas.Heartbeat // the newest one of the highest epoch; zero if there was none
	Age       time.Duration     // since it was received; 0 if there was none
}

// Owners returns what is known of the owners of all partitions at now.
func (b *Board) Owners(now time.Time) []Owner {
	b.mu.RLock()
	defer b.mu.RUnlock()
	list := make([]Owner, len(b.parts))
	for i, p := range b.parts {
		list[i] = Owner{Freshness: p.freshness(now), Heartbeat: p.heartbeat}
		if p.heartbeat.Epoch > 0 {
			list[i].Age = max(0, now.Sub(p.heard))
		}
	}
	return list
}

// AwaitHeartbeat waits until the newest heartbeat of a partition is as wanted, and returns it. The error is that of ctx. wanted
// is called in this goroutine.
func (b *Board) AwaitHeartbeat(ctx context.Context, partition int, wanted func(*schemas.Heartbeat) bool) (schemas.Heartbeat, error) {
	for {
		b.mu.RLock()
		beats := b.beats
		b.mu.RUnlock()
		if h, ok := b.Heartbeat(partition); ok && wanted(&h) {
			return h, nil
		}
		select {
		case <-beats:
		case <-ctx.Done():
			return schemas.Heartbeat{}, ctx.Err()
		}
	}
}

// Ready reports whether everything that the topic held at the start was applied. Before that, callers may be missing.
func (b *Board) Ready() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.ready()
}

func (b *Board) ready() bool { return len(b.parts) > 0 && b.loaded == len(b.parts) }

// AwaitReady waits until the board is ready. The error is that of ctx.
func (b *Board) AwaitReady(ctx context.Context) error {
	for {
		b.mu.RLock()
		ready, wake := b.ready(), b.wake
		b.mu.RUnlock()
		if ready {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Status is a snapshot of a Board.
type Status struct {
	Ready      bool
	Partitions int
	Loading    []int // partitions that are not yet read up to the end that they had at the start
	Incomplete []int // partitions of which decisions in force may be missing, because the board was full
	Closures   int   // in force
	Max        int   // Options.MaxClosures
	Callers    int   // with a closure in force

	Changes     uint64            // since New
	Dropped     uint64            // decisions that found no room
	Outdated    uint64            // decisions and heartbeats that were older than what is held
	Foreign     uint64            // decisions and heartbeats of partitions that do not exist
	Refused     map[string]uint64 // records that do not count, by decisions.Reason or kafkaio.SkipReason
	Restarts    uint64            // how often a reader lost its place
	Subscribers int
	Lost        uint64 // how often a subscriber lost changes
}

// Status returns a snapshot.
func (b *Board) Status() Status {
	b.mu.RLock()
	defer b.mu.RUnlock()
	s := Status{
		Ready: b.ready(), Partitions: len(b.parts), Closures: b.table.len(), Max: b.options.MaxClosures, Callers: b.table.callers,
		Changes: b.changed - b.options.FirstChange, Dropped: b.counts.dropped, Outdated: b.counts.outdated, Foreign: b.counts.foreign,
		Refused: maps.Clone(b.counts.refused), Restarts: b.counts.restarts, Subscribers: b.counts.subscribers, Lost: b.lost.Load(),
	}
	for i := range b.parts {
		if !b.parts[i].loaded {
			s.Loading = append(s.Loading, i)
		}
		if b.parts[i].missing > 0 {
			s.Incomplete = append(s.Incomplete, i)
		}
	}
	return s
}
