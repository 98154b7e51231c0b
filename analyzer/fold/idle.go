package fold

import (
	"bytes"
	"cmp"
	"container/heap"
)

// idleHeap is all senders of a dedupe table: a heap (container/heap), the sender that was silent for longest first; of two
// that were silent equally long, the one with the lower key. A sender that is heard of again keeps its place, and finds its new
// place when it comes first. By then log time has moved on by at least a grace period, so a sender moves at most once in a grace
// period, and a client whose senders come and go does not make others cost a pass over the table. The zero value is empty.
type idleHeap struct {
	items []idleSender
	moves uint64 // how often two items changed places, ever; tests count the work by it
}

// idleSender is a sender that was not heard of before last, in Unix nanoseconds.
type idleSender struct {
	last int64
	id   senderID
}

// compare orders senders as their keys in the store.
func (id senderID) compare(other senderID) int {
	if id.source != other.source {
		return cmp.Compare(id.prefix(), other.prefix())
	}
	return bytes.Compare(id.id[:], other.id[:])
}

// first returns the first item, and whether there is one.
func (h *idleHeap) first() (idleSender, bool) {
	if len(h.items) == 0 {
		return idleSender{}, false
	}
	return h.items[0], true
}

func (h *idleHeap) add(s idleSender) {
	h.items = append(h.items, s)
	heap.Fix(h, len(h.items)-1) // heap.Push would allocate
}

// removeFirst removes the first item. There must be one.
func (h *idleHeap) removeFirst() {
	last := len(h.items) - 1
	h.Swap(0, last)
	h.items = h.items[:last]
	if last > 0 {
		heap.Fix(h, 0)
	}
}

// renewFirst says that the first sender was heard of at a later time.
func (h *idleHeap) renewFirst(last int64) {
	h.items[0].last = last
	heap.Fix(h, 0)
}

// Len, Less, Swap, Push and Pop are heap.Interface. Items are never pushed or popped through it.
func (h *idleHeap) Len() int { return len(h.items) }

func (h *idleHeap) Less(i, j int) bool {
	a, b := &h.items[i], &h.items[j]
	return a.last < b.last || a.last == b.last && a.id.compare(b.id) < 0
}

func (h *idleHeap) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.moves++
}

// Push panics.
func (h *idleHeap) Push(any) { panic("BUG: push into the heap of idle senders") }

// Pop panics.
func (h *idleHeap) Pop() any { panic("BUG: pop from the heap of idle senders") }
