package haproxy

import (
	"strings"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/heap"
)

// entry is a caller in one map: what the map is to have, and what HAProxy has as far as is known.
type entry struct {
	key, id    string // id is "" for a key that only HAProxy knows
	want, have value  // zero: none
	due        int64  // Unix nanoseconds: when to look again although no decision comes
	dueAt      int    // its place in table.dues; -1: none
	prev, next *entry // in its queue
	queued     queue
	writing    bool // it is on its way to HAProxy
	seen       bool // in the comparison that runs
}

// queue is where an entry waits to be written.
type queue uint8

// Queues.
const (
	queueNone   queue = iota
	queueAdd          // the map lacks it
	queueUrgent       // HAProxy refuses a caller that is open, or is about to let one in that is closed
	queueLazy         // all others
	queues
)

// urgentBefore is how long before its end an entry is changed at the latest, if its closure lasts longer.
const urgentBefore = 2 * time.Second

// table is what one map is to have. The Writer's lock protects it. Only the goroutine that writes to HAProxy changes have.
type table struct {
	kind, name string // name is that of the map in HAProxy's configuration
	entries    map[string]*entry
	dues       heap.Heap[*entry]
	waiting    [queues]entry // rings; waiting[q] itself is no entry
	waits      [queues]int
	held       int  // entries that HAProxy has, as far as is known
	others     int  // entries beside these that the last comparison has left in the map
	keep       bool // what only HAProxy knows stays, because the board is not ready
	missing    bool // HAProxy has no such map
	stained    bool // the last comparison found what commands cannot name: an entry twice, or another version
}

func newTable(m Map) *table {
	t := &table{kind: m.Kind, name: m.Name, entries: map[string]*entry{}}
	t.dues = heap.New(func(a, b **entry) bool { return (*a).due < (*b).due }, func(e **entry, at int) { (*e).dueAt = at })
	for q := range t.waiting {
		t.waiting[q].prev, t.waiting[q].next = &t.waiting[q], &t.waiting[q]
	}
	return t
}

// look updates what the map is to have of a caller, by the decisions about it.
func (t *table) look(key, id string, ds []schemas.Decision, now int64) {
	v, due := inForce(ds, now)
	e := t.entries[key]
	switch {
	case e == nil && due == never:
		return
	case e == nil:
		e = t.insert(key)
	}
	if e.id == "" {
		if e.id = e.key; key != id {
			e.id = strings.Clone(id)
		}
	}
	e.want = v
	t.settle(e, due, now)
}

func (t *table) insert(key string) *entry {
	e := &entry{key: strings.Clone(key), due: never, dueAt: -1} // key may be a part of a batch
	t.entries[e.key] = e
	return e
}

// settle puts an entry where it belongs, after want, have or the time has changed. due is when want may change.
func (t *table) settle(e *entry, due, now int64) {
	q := t.queueOf(e, now)
	if q == queueLazy && e.want.until > e.have.until {
		due = min(due, e.have.until*int64(time.Millisecond)-int64(urgentBefore))
	}
	t.wake(e, due)
	t.enqueue(e, q)
	if e.want == (value{}) && e.have == (value{}) && due == never && !e.writing {
		delete(t.entries, e.key)
	}
}

// queueOf returns the queue in which an entry belongs.
func (t *table) queueOf(e *entry, now int64) queue {
	ms := now / int64(time.Millisecond)
	switch {
	case e.writing, e.want == e.have, e.id == "" && t.keep:
		return queueNone
	case e.have == (value{}):
		return queueAdd
	case e.want == (value{}):
		if e.have.until <= ms {
			return queueLazy // it refuses nobody
		}
		return queueUrgent
	case e.want.until < e.have.until, e.want.until > e.have.until && e.have.until-ms <= urgentBefore.Milliseconds():
		return queueUrgent
	}
	return queueLazy
}

// enqueue moves an entry to the end of a queue, unless it is there.
func (t *table) enqueue(e *entry, q queue) {
	if e.queued == q {
		return
	}
	if e.queued != queueNone {
		e.prev.next, e.next.prev = e.next, e.prev
		t.waits[e.queued]--
		e.prev, e.next = nil, nil
	}
	if e.queued = q; q != queueNone {
		last := t.waiting[q].prev
		e.prev, e.next = last, &t.waiting[q]
		last.next, t.waiting[q].prev = e, e
		t.waits[q]++
	}
}

// take takes the entry out of a queue that waits longest, to be written: written follows. It returns nil if none waits.
func (t *table) take(q queue) *entry {
	if t.waits[q] == 0 {
		return nil
	}
	e := t.waiting[q].next
	t.enqueue(e, queueNone)
	e.writing = true
	return e
}

// written notes what HAProxy has of an entry that take has returned, or of one that was read.
func (t *table) written(e *entry, v value, now int64) {
	if e.have != (value{}) {
		t.held--
	}
	if v != (value{}) {
		t.held++
	}
	e.have, e.writing = v, false
	t.settle(e, e.due, now)
}

// wake sets when to look at an entry again.
func (t *table) wake(e *entry, due int64) {
	e.due = due
	switch {
	case e.dueAt < 0 && due != never:
		t.dues.Add(e)
	case e.dueAt >= 0 && due == never:
		t.dues.Remove(e.dueAt)
		e.dueAt = -1
	case e.dueAt >= 0:
		t.dues.Fix(e.dueAt)
	}
}

// firstDue returns the entry to look at first, or nil.
func (t *table) firstDue() *entry {
	if t.dues.Len() == 0 {
		return nil
	}
	return *t.dues.At(0)
}
