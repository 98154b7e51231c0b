// Package heap keeps values in a binary heap, the least of them first. Unlike container/heap it needs no methods of the values, and it
// allocates memory only to grow. It is pure: it does no I/O, and has no clock, no log and no lock.
package heap

import "slices"

// Heap holds values in the order that New was given. One goroutine at a time may use it.
type Heap[T any] struct {
	less  func(a, b *T) bool
	moved func(v *T, at int)
	items []T
}

// New returns an empty heap. less reports whether a comes before b. moved is called with the new place of each value that is added or
// moves; it may be nil.
func New[T any](less func(a, b *T) bool, moved func(v *T, at int)) Heap[T] {
	return Heap[T]{less: less, moved: moved}
}

// Len returns how many values the heap has.
func (h *Heap[T]) Len() int { return len(h.items) }

// At returns the value at a place, from 0 to Len-1. The least value is at place 0. A caller that changes the order calls Fix next.
func (h *Heap[T]) At(at int) *T { return &h.items[at] }

// Grow makes room for n more values, so that to add them allocates nothing.
func (h *Heap[T]) Grow(n int) { h.items = slices.Grow(h.items, n) }

// Add adds a value.
func (h *Heap[T]) Add(v T) {
	h.items = append(h.items, v)
	h.notifyMoved(len(h.items) - 1)
	h.up(len(h.items) - 1)
}

// Fix moves a value that has changed to the place where it belongs.
func (h *Heap[T]) Fix(at int) {
	if !h.down(at) {
		h.up(at)
	}
}

// Remove removes the value at a place, and returns it.
func (h *Heap[T]) Remove(at int) T {
	v, last := h.items[at], len(h.items)-1
	h.items[at] = h.items[last]
	clear(h.items[last:])
	h.items = h.items[:last]
	if at < last {
		h.notifyMoved(at)
		h.Fix(at)
	}
	return v
}

// Clip gives most of the unused memory back, if the heap uses less than a quarter of what it has.
func (h *Heap[T]) Clip() {
	if len(h.items) < cap(h.items)/4 {
		h.items = append(make([]T, 0, 2*len(h.items)), h.items...)
	}
}

// Clear removes all values and frees their memory.
func (h *Heap[T]) Clear() { h.items = nil }

// notifyMoved calls moved for the value at a place, because the value was not there before.
func (h *Heap[T]) notifyMoved(at int) {
	if h.moved != nil {
		h.moved(&h.items[at], at)
	}
}

func (h *Heap[T]) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.notifyMoved(i)
	h.notifyMoved(j)
}

// up moves a value towards the first place.
func (h *Heap[T]) up(at int) {
	for at > 0 {
		parent := (at - 1) / 2
		if !h.less(&h.items[at], &h.items[parent]) {
			return
		}
		h.swap(at, parent)
		at = parent
	}
}

// down moves a value away from the first place, and reports whether it has moved.
func (h *Heap[T]) down(at int) bool {
	begin := at
	for {
		child := 2*at + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.less(&h.items[right], &h.items[child]) {
			child = right
		}
		if !h.less(&h.items[child], &h.items[at]) {
			break
		}
		h.swap(at, child)
		at = child
	}
	return at > begin
}
