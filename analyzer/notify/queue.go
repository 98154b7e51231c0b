package notify

import (
	"container/list"
	"time"

	"github.com/509da70d/floodgate/analyzer/notify/endpoint"
	"github.com/509da70d/floodgate/schemas/event"
	"github.com/509da70d/floodgate/schemas/heap"
)

// linger is how long an event waits for others, so that a storm shows itself before its first event goes.
const linger = 50 * time.Millisecond

// item is an event that waits for its delivery.
type item struct {
	event     *event.Event
	key       string    // events of one key stay in order: the caller, or the partition of an event without a caller
	arrived   time.Time // in the queue
	written   time.Time // to the topic
	partition int
	place     *list.Element // in the partition's ledger
}

// call is a message with all its attempts. The queue makes it, and has it until done.
type call struct {
	items    []*item
	behind   []*item // later events of its callers
	notice   *endpoint.Notice
	attempts int       // that failed
	due      time.Time // of the next attempt
	number   uint64    // rises from call to call: of calls that are due at one time, the lower number goes first
}

// written returns when the newest event was written to the topic.
func (c *call) written() (newest time.Time) {
	for _, i := range c.items {
		if i.written.After(newest) {
			newest = i.written
		}
	}
	return newest
}

// queue decides which events go next, and together. Time is an argument. Its owner has a lock.
type queue struct {
	digest  endpoint.Digest
	full    int // with this many pending events, a storm no longer waits until Digest.Every is over
	recent  []time.Time
	gather  []*item          // events that wait for others; no call has their callers
	since   time.Time        // when the first of them began to wait
	busy    map[string]*call // by key
	due     heap.Heap[*call] // calls that wait for an attempt
	numbers uint64
	pending int // events in gather and in calls
}

func newQueue(d endpoint.Digest, full int) *queue {
	return &queue{digest: d, full: full, busy: make(map[string]*call), due: heap.New(dueBefore, nil)}
}

// add takes an event that has arrived.
func (q *queue) add(i *item, now time.Time) {
	i.arrived = now
	q.pending++
	if q.digest.Over > 0 {
		if len(q.recent) > q.digest.Over {
			q.recent = q.recent[1:]
		}
		q.recent = append(q.recent, now)
	}
	q.place(i, now)
}

func (q *queue) place(i *item, now time.Time) {
	if c := q.busy[i.key]; c != nil {
		c.behind = append(c.behind, i)
		return
	}
	if len(q.gather) == 0 {
		q.since = now
	}
	q.gather = append(q.gather, i)
}

// storm reports whether more than Digest.Over events have come within Digest.Every.
func (q *queue) storm(now time.Time) bool {
	return q.digest.Over > 0 && len(q.recent) > q.digest.Over && now.Sub(q.recent[0]) < q.digest.Every
}

// flushAt returns when the events that are gathered go.
func (q *queue) flushAt(now time.Time) time.Time {
	first := q.gather[0].arrived
	switch {
	case q.digest.Over == 0:
		return first
	case !q.storm(now):
		return first.Add(linger)
	case q.pending >= q.full:
		return now
	}
	return q.since.Add(q.digest.Every)
}

// next returns a call to send now, which the caller gives back by done or failed. If there is none it returns when there will be one,
// or no time if that depends on other calls.
func (q *queue) next(now time.Time) (c *call, at time.Time) {
	if len(q.gather) > 0 {
		if at = q.flushAt(now); !at.After(now) {
			q.flush(now)
			at = time.Time{}
		}
	}
	if q.due.Len() == 0 {
		return nil, at
	}
	first := *q.due.At(0)
	if !first.due.After(now) {
		return q.due.Remove(0), time.Time{}
	}
	if at.IsZero() || first.due.Before(at) {
		at = first.due
	}
	return nil, at
}

// flush makes calls of the gathered events: one in a storm, else one for each event.
func (q *queue) flush(now time.Time) {
	gathered := q.gather
	q.gather = nil
	if len(gathered) > 1 && q.gathersStorm(gathered, now) {
		q.call(gathered, now)
		return
	}
	for _, i := range gathered {
		if c := q.busy[i.key]; c != nil {
			c.behind = append(c.behind, i)
			continue
		}
		q.call([]*item{i}, now)
	}
}

// gathersStorm reports whether gathered events go together: there is a storm, or there was one while they came.
func (q *queue) gathersStorm(gathered []*item, now time.Time) bool {
	return q.digest.Over > 0 && (q.storm(now) || len(gathered) > q.digest.Over)
}

// call makes a call that is due now.
func (q *queue) call(items []*item, now time.Time) {
	events := make([]*event.Event, len(items))
	c := &call{items: items, due: now, number: q.numbers}
	q.numbers++
	for n, i := range items {
		events[n] = i.event
		q.busy[i.key] = c
	}
	c.notice = endpoint.NewNotice(events...)
	q.due.Add(c)
}

// done takes back a call that was delivered or dropped. The later events of its callers may go now.
func (q *queue) done(c *call, now time.Time) {
	q.pending -= len(c.items)
	for _, i := range c.items {
		delete(q.busy, i.key)
	}
	for _, i := range c.behind {
		q.place(i, now)
	}
}

// failed takes back a call that is to be tried again.
func (q *queue) failed(c *call, due time.Time) {
	c.due = due
	q.due.Add(c)
}

// change makes the queue work by other settings, and all calls that wait due now.
func (q *queue) change(d endpoint.Digest, now time.Time) {
	q.digest, q.recent = d, nil
	waiting := q.due
	q.due.Clear()
	for i := range waiting.Len() {
		c := *waiting.At(i)
		c.due = now
		q.due.Add(c)
	}
}

// dueBefore reports whether a call is due before another one. Of calls that are due at one time, the older is first.
func dueBefore(a, b **call) bool {
	if !(*a).due.Equal((*b).due) {
		return (*a).due.Before((*b).due)
	}
	return (*a).number < (*b).number
}
