package notify

import (
	"container/list"
	"time"
)

// ledger knows which events of a partition are neither delivered nor dropped yet. The zero value has read nothing.
type ledger struct {
	next int64     // everything before was read; less than 0: nobody knows yet where to begin
	open list.List // of place, in the order of offsets
}

// place is an event that is open.
type place struct {
	offset  int64
	written time.Time // when the event was written to the topic
}

// begin notes an event that was read. Offsets rise.
func (l *ledger) begin(offset int64, written time.Time) *list.Element {
	l.next = offset + 1
	return l.open.PushBack(place{offset, written})
}

// end notes that an event was delivered or dropped.
func (l *ledger) end(e *list.Element) { l.open.Remove(e) }

// passed notes that everything before an offset was read.
func (l *ledger) passed(next int64) { l.next = max(l.next, next) }

// done returns the offset before which every event was delivered or dropped.
func (l *ledger) done() int64 {
	if p, ok := l.oldest(); ok {
		return p.offset
	}
	return l.next
}

// oldest returns the first event that is open, and whether there is one.
func (l *ledger) oldest() (place, bool) {
	front := l.open.Front()
	if front == nil {
		return place{}, false
	}
	p, ok := front.Value.(place)
	return p, ok
}
