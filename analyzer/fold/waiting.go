package fold

import (
	"github.com/509da70d/floodgate/analyzer/index"
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas/heap"
)

// waiting is the waiting room: callers for whom a full table has no row. Each has a coarse count, and an estimate of how much it has sent.
// The room holds a fixed number of callers by the Space-Saving algorithm (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent
// and Top-k Elements in Data Streams, 2005): a newcomer takes the place of the caller with the smallest estimate, and inherits that
// estimate. A newcomer that finds a free place begins at the estimate of the caller that lost its place last (LFU with dynamic aging:
// Arlitt et al., Evaluating Content Management Techniques for Web Proxy Caches, 2000). So a caller that sends more than 1/max of the weight
// of all waiting callers keeps its place, however many others come. The estimate decides only which callers stay. The count of a caller is
// what it surely has sent since it came in.
//
// Which callers stay does not depend on the hash. Nothing here is stored: after a restart the room is empty, and the losses of each rule
// (see loss.go) say what may be missing because of that. newWaiting makes one. One goroutine may use it.
type waiting struct {
	max     int
	index   index.Index
	callers []waiter
	heap    heap.Heap[estimate]
	floor   int64 // the estimate of the caller that lost its place last: newcomers begin there
	next    int   // the caller that sweep looks at next
}

// estimate is about how much a waiting caller has sent, and the caller's number.
type estimate struct {
	weight int64
	number uint32
}

func newWaiting(places int) *waiting {
	w := &waiting{max: places}
	w.heap = heap.New(func(a, b *estimate) bool { return a.weight < b.weight }, func(e *estimate, at int) {
		w.callers[e.number].at = uint32(at) // < max
	})
	return w
}

// waiter is a caller that waits: 48 bytes. Only its hash identifies it. Nobody outside this process can compute the hash, so nobody can
// choose two callers with the same hash.
type waiter struct {
	hash   uint64 // rowHash of rule and caller
	words  [window.MaxCoarse]int64
	at     uint32 // its place in the heap
	rule   int16
	length uint8 // how many of the words belong to the coarse state
}

func (c *waiter) state() window.State { return c.words[:c.length] }

// set makes the caller's state a copy of s, which has at most window.MaxCoarse integers.
func (c *waiter) set(s window.State) { c.length = uint8(copy(c.words[:], s)) }

func (w *waiting) home(n uint32) uint32 { return index.Home(w.callers[n].hash) }

// find returns the number of a waiting caller, or false. The number is valid until the next add or remove.
func (w *waiting) find(hash uint64, rule int32) (uint32, bool) {
	p := w.index.Probe(hash)
	n, ok := p.Next()
	for ; ok; n, ok = p.Next() {
		if w.callers[n].hash == hash && int32(w.callers[n].rule) == rule {
			break
		}
	}
	return n, ok
}

// add adds a caller that find did not find. If no place is free, the caller takes that of the one with the smallest estimate.
func (w *waiting) add(hash uint64, rule int32, s window.State, units int64) {
	if w.max == 0 {
		return
	}
	if len(w.callers) >= w.max {
		smallest := *w.heap.At(0)
		w.floor = smallest.weight
		w.remove(smallest.number)
	}
	n := uint32(len(w.callers))                                          // ≤ max
	w.callers = append(w.callers, waiter{hash: hash, rule: int16(rule)}) // at most rules.MaxRules
	w.callers[n].set(s)
	w.heap.Add(estimate{integer.Add(w.floor, units), n})
	w.index.Add(hash, n, w.home)
}

// update sets the coarse state of a waiting caller, and adds units to its estimate.
func (w *waiting) update(n uint32, s window.State, units int64) {
	c := &w.callers[n]
	c.set(s)
	e := w.heap.At(int(c.at))
	e.weight = integer.Add(e.weight, units)
	w.heap.Fix(int(c.at))
}

// remove removes a caller. The last caller of the list gets its number.
func (w *waiting) remove(n uint32) {
	w.index.Remove(n, w.home)
	w.heap.Remove(int(w.callers[n].at))
	last := uint32(len(w.callers) - 1) // < max
	if n != last {
		w.index.Renumber(last, n, w.home)
		w.callers[n] = w.callers[last]
		w.heap.At(int(w.callers[n].at)).number = n
	}
	w.callers = w.callers[:last]
}

// sweep checks the next n callers in turn, and removes those that have expired.
func (w *waiting) sweep(n int, expired func(c *waiter) bool) {
	for ; n > 0 && len(w.callers) > 0; n-- {
		if w.next >= len(w.callers) {
			w.next = 0
		}
		if expired(&w.callers[w.next]) {
			w.remove(uint32(w.next)) // < max
		} else {
			w.next++
		}
	}
	if len(w.callers) == 0 {
		w.clear()
	}
}

// clear removes all callers and frees their memory.
func (w *waiting) clear() {
	w.heap.Clear()
	w.callers, w.index, w.floor, w.next = nil, index.Index{}, 0, 0
}
