package eventlog

import (
	"cmp"
	"slices"
	"sync"

	"github.com/509da70d/floodgate/schemas/event"
	"github.com/509da70d/floodgate/store/rows"
)

// Bounds of a Queue. An event takes about 400 bytes.
const (
	MaxPending      = 16 << 10
	maxPendingBytes = 8 << 20
)

// Queue holds the events of one partition that the topic has not acknowledged, in the order of the log. Make one with NewQueue. The owner's
// goroutine adds events and commits them. Another one, the writer's, takes and acknowledges them.
type Queue struct {
	mu       sync.Mutex // protects all below
	items    []item     // the oldest first
	bytes    int        // of items, an estimate
	sent     uint64     // the number of the newest item that the writer has taken
	acked    uint64     // the number of the newest item that is acknowledged
	next     uint64     // number of the next item: 1 or more
	reached  int64      // all records before this offset were folded, and their events added
	begin    int64      // events before this offset are in the topic: Add ignores them
	warned   map[warning]struct{}
	complete completeMarker
	removed  []rows.Change // rows to delete from the store
	stats    Stats
	wake     chan struct{}
}

// item is one event that is not acknowledged.
type item struct {
	number      uint64
	event       event.Event
	firstOffset int64  // the offset of the event; the first one of a gap
	bytes       int    // an estimate
	stored      uint64 // rows.Sum of its row in the store; 0 if it has none
	dirty       bool   // the store does not hold the event in its present form
}

// Stats is what a Queue has seen since it was made.
type Stats struct {
	Pending int                   // events that are not acknowledged
	Gaps    uint64                // gap events
	Lost    uint64                // events that did not fit, so that a gap stands for them
	Written map[event.Type]uint64 // events that were acknowledged, by type; copies count again
}

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	q := &Queue{stats: Stats{Written: make(map[event.Type]uint64)}, wake: make(chan struct{}, 1)}
	q.Reset()
	return q
}

// Reset empties the queue, as if nothing had been restored. Its Stats stay.
func (q *Queue) Reset() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items, q.bytes, q.removed, q.complete, q.warned = nil, 0, nil, completeMarker{}, make(map[warning]struct{})
	q.sent, q.acked, q.next, q.reached, q.begin = 0, 0, 1, 0, 0
}

// Begin makes the queue accept events from an offset on. Events before it are in the topic: the queue drops those that a store still had.
func (q *Queue) Begin(from int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.begin, q.reached = from, max(q.reached, from)
	slices.SortFunc(q.items, func(a, b item) int { return cmp.Compare(a.number, b.number) })
	for len(q.items) > 0 && q.items[0].event.Offset < from {
		q.drop()
	}
	q.nudge()
}

// Add adds an event that has an id. It ignores an event of an offset before Begin, which is in the topic already. Events that do not fit
// become a gap. Add never waits.
func (q *Queue) Add(e *event.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.Offset < q.begin || e.Type == event.Warned && q.repeats(e) {
		return
	}
	if n := sizeOf(e); len(q.items) < MaxPending && q.bytes+n <= maxPendingBytes {
		q.push(*e, e.Offset, n)
		return
	}
	q.stats.Lost++
	if last := len(q.items) - 1; last >= 0 && q.items[last].event.Type == event.Gap && q.items[last].number > q.sent {
		gap := &q.items[last]
		g := &gap.event
		*g = describeGap(g.Partition, g.From, max(g.To, e.Offset+1), g.Lost+1, e.Time.UnixNano())
		gap.dirty = true
		return
	}
	q.gap(describeGap(e.Partition, e.Offset, e.Offset+1, 1, e.Time.UnixNano()))
}

// AddGap adds a gap: events of the offsets from from until to, exclusive, may be missing from the topic.
func (q *Queue) AddGap(partition int, from, to, now int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gap(describeGap(partition, from, to, 0, now))
}

func (q *Queue) gap(e event.Event) {
	q.stats.Gaps++
	q.push(e, e.From, sizeOf(&e))
}

// push appends an item; mu is held.
func (q *Queue) push(e event.Event, firstOffset int64, size int) {
	q.items = append(q.items, item{number: q.next, event: e, firstOffset: firstOffset, bytes: size, dirty: true})
	q.next++
	q.bytes += size
	q.nudge()
}

// drop removes the oldest item; mu is held.
func (q *Queue) drop() {
	first := &q.items[0]
	if first.stored != 0 {
		q.removed = append(q.removed, rows.Change{Key: keyOf(first.number), Old: first.stored})
	}
	q.bytes -= first.bytes
	q.acked = max(q.acked, first.number)
	*first = item{}
	if q.items = q.items[1:]; len(q.items) == 0 {
		q.items = nil
	}
}

// Reach notes that all records before an offset were folded, and their events added.
func (q *Queue) Reach(next int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reached = max(q.reached, next)
}

// Mark returns the offset before which all events are in the topic.
func (q *Queue) Mark() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	mark := q.reached
	for i := range q.items {
		if mark = min(mark, q.items[i].firstOffset); q.items[i].event.Type != event.Gap {
			break // later items are not older
		}
	}
	return mark
}

// Newest returns the number of the newest item; 0 if there was none.
func (q *Queue) Newest() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.next - 1
}

// Acked reports whether all events up to a number are acknowledged.
func (q *Queue) Acked(number uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.acked >= number || len(q.items) == 0 || q.items[0].number > number
}

// nudge wakes the writer; mu is held.
func (q *Queue) nudge() {
	select {
	case q.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// Wake returns a channel that receives when there may be something to take.
func (q *Queue) Wake() <-chan struct{} { return q.wake }

// Batch returns copies of the oldest events, at most so many, for the writer. last is the number of the last of them, for Ack.
func (q *Queue) Batch(limit int) (list []event.Event, last uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.items {
		it := &q.items[i]
		if len(list) == limit {
			break
		}
		list, last = append(list, it.identified()), it.number
	}
	q.sent = max(q.sent, last)
	return list, last
}

// identified returns the event with its id. A gap gets its id here, because it may have grown until now.
func (it *item) identified() event.Event {
	if it.event.ID == "" {
		it.event.Identify()
	}
	return it.event
}

// Ack notes that all events up to a number are in the topic.
func (q *Queue) Ack(last uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) > 0 && q.items[0].number <= last {
		q.stats.Written[q.items[0].event.Type]++
		q.drop()
	}
}

// Empty reports whether nothing is pending.
func (q *Queue) Empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) == 0
}

// Stats returns a copy. Any goroutine may call it.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.Pending, s.Written = len(q.items), make(map[event.Type]uint64, len(q.stats.Written))
	for _, of := range event.Types() {
		s.Written[of] = q.stats.Written[of]
	}
	return s
}

// sizeOf returns about how many bytes an event takes, in memory and as JSON.
func sizeOf(e *event.Event) int {
	return 400 + 2*(len(e.Caller.ID)+len(e.Caller.IDBase64)) + len(e.Author) + len(e.Reason)
}

// warning is what equal warnings have in common: their id.
type warning string

// maxWarned is how many warnings are remembered.
const maxWarned = 4096

// repeats reports whether an equal warning is remembered, and remembers this one; mu is held.
func (q *Queue) repeats(e *event.Event) bool {
	key := warning(e.ID)
	if _, is := q.warned[key]; is {
		return true
	}
	if len(q.warned) >= maxWarned {
		clear(q.warned)
	}
	q.warned[key] = struct{}{}
	return false
}
