package outbox

// delayed is a heap of entries by the time at which they are due.
type delayed []*entry

// Len implements heap.Interface.
func (h delayed) Len() int { return len(h) }

// Less implements heap.Interface.
func (h delayed) Less(i, j int) bool {
	return h[i].due < h[j].due || h[i].due == h[j].due && h[i].seq < h[j].seq
}

// Swap implements heap.Interface.
func (h delayed) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *delayed) Push(x any) {
	e := x.(*entry) //nolint:errcheck,forcetypeassert // nothing else is pushed
	e.index = len(*h)
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *delayed) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.index = -1
	return e
}
