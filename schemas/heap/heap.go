// Package heap is a binary heap of items of any type: container/heap without an interface to write, and without an allocation
// for each item.
package heap

// Heap keeps Items in the order of a heap, so that the first is at index 0. A heap needs Less. One goroutine may use it.
//
//	h := heap.Heap[int]{Less: func(a, b int) bool { return a < b }}
//	h.Push(3)
//	h.Push(1)
//	first := h.Pop() // 1
//
// Push, Pop, Fix and Remove take O(log n) steps. After a change to an item in place, call Fix before anything else.
type Heap[T any] struct {
	Items []T
	Less  func(a, b T) bool    // whether a comes before b
	Moved func(item T, at int) // nil, or called with each item that has a new index
}

// Push adds an item.
func (h *Heap[T]) Push(item T) {
	at := len(h.Items)
	h.Items = append(h.Items, item)
	h.moved(at)
	h.up(at)
}

// Pop removes the first item. There must be one.
func (h *Heap[T]) Pop() T { return h.Remove(0) }

// Remove removes the item at an index.
func (h *Heap[T]) Remove(at int) T {
	last := len(h.Items) - 1
	item := h.Items[at]
	h.Items[at] = h.Items[last]
	clear(h.Items[last:])
	h.Items = h.Items[:last]
	if at < last {
		h.moved(at)
		h.Fix(at)
	}
	return item
}

// Fix restores the order after the item at an index has changed.
func (h *Heap[T]) Fix(at int) {
	if !h.down(at) {
		h.up(at)
	}
}

// up moves an item to the front until its parent does not come after it.
func (h *Heap[T]) up(at int) {
	for at > 0 {
		parent := (at - 1) / 2
		if !h.Less(h.Items[at], h.Items[parent]) {
			return
		}
		h.swap(at, parent)
		at = parent
	}
}

// down moves an item to the back until none of its children comes before it. It reports whether the item has moved.
func (h *Heap[T]) down(at int) bool {
	from := at
	for {
		child := 2*at + 1
		if child >= len(h.Items) {
			return at > from
		}
		if right := child + 1; right < len(h.Items) && h.Less(h.Items[right], h.Items[child]) {
			child = right
		}
		if !h.Less(h.Items[child], h.Items[at]) {
			return at > from
		}
		h.swap(at, child)
		at = child
	}
}

func (h *Heap[T]) swap(i, j int) {
	h.Items[i], h.Items[j] = h.Items[j], h.Items[i]
	h.moved(i)
	h.moved(j)
}

func (h *Heap[T]) moved(at int) {
	if h.Moved != nil {
		h.Moved(h.Items[at], at)
	}
}
