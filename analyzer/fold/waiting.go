package fold

import (
	"container/heap"
	"math"

	"github.com/509da70d/floodgate/analyzer/window"
)

// waiting is the waiting room: callers for whom a full table has no row, each with a coarse count and an estimate of how
// much it has sent. It holds a fixed number of them by the Space-Saving algorithm (Metwally, Agrawal, El Abbadi:
// Efficient Computation of Frequent and Top-k Elements in Data Streams, 2005): a newcomer takes the place of the caller
// with the smallest estimate, and inherits that estimate. A newcomer that finds a free place begins at the estimate of the
// caller that lost its place last (LFU with dynamic aging: Arlitt et al., Evaluating Content Management Techniques for Web
// Proxy Caches, 2000). So a caller that sends faster than 1/max of all that wait stays once it is in, however many others
// come. The estimate decides only which callers stay. What is counted of a caller is what it surely sent since it came in.
//
// Which callers stay does not depend on the hash, and nothing here is stored: a restart empties the room, and the losses of
// each rule (see loss.go) say what may be missing because of that. The zero value has no room. One goroutine may use it.
type waiting struct {
	max     int
	index   index
	callers []waiter
	heap    []uint32 // numbers of callers: a heap, the smallest estimate first
	floor   int64    // the estimate of the caller that lost its place last: newcomers begin there
	next    int      // the caller that sweep looks at next
}

// waiter is a caller that waits, in 56 bytes. It is known by the hash alone. Nobody outside this process can compute the hash,
// so nobody can choose two callers of one hash.
type waiter struct {
	hash     uint64 // rowHash of rule and caller
	estimate int64
	words    [window.MaxCoarse]int64
	at       uint32 // its place in the heap
	rule     int16
	length   uint8 // how many of the words the coarse state has
}

func (c *waiter) state() window.State { return c.words[:c.length] }

// set makes the caller's state a copy of s, which has at most window.MaxCoarse integers.
func (c *waiter) set(s window.State) { c.length = uint8(copy(c.words[:], s)) }

func (w *waiting) home(n uint32) uint32 { return uint32(w.callers[n].hash) } // the lower half

// find returns the number of a caller that waits. It is good until the next add or remove.
func (w *waiting) find(hash uint64, rule int32) (uint32, bool) {
	if w.index.used == 0 {
		return 0, false
	}
	slots, mask := w.index.slots, w.index.mask()
	tag := uint32(hash >> 32) // the upper half
	for at := uint32(hash) & mask; slots[at].number != 0; at = (at + 1) & mask {
		n := slots[at].number - 1
		if slots[at].tag == tag && w.callers[n].hash == hash && int32(w.callers[n].rule) == rule {
			return n, true
		}
	}
	return 0, false
}

// add lets a caller in that find did not find, in the place of the one with the smallest estimate if there is no other.
func (w *waiting) add(hash uint64, rule int32, s window.State, units int64) {
	if w.max == 0 {
		return
	}
	if len(w.callers) >= w.max {
		smallest := w.heap[0]
		w.floor = w.callers[smallest].estimate
		w.remove(smallest)
	}
	n := uint32(len(w.callers)) // ≤ max
	w.callers = append(w.callers, waiter{
		hash: hash, rule: int16(rule), estimate: saturatingAdd(w.floor, units), at: n, // at most rules.MaxRules
	})
	w.callers[n].set(s)
	w.heap = append(w.heap, n)
	heap.Fix(w, int(n))
	w.index.add(hash, n, w.home)
}

// update sets what a waiting caller has sent.
func (w *waiting) update(n uint32, s window.State, units int64) {
	c := &w.callers[n]
	c.set(s)
	c.estimate = saturatingAdd(c.estimate, units)
	heap.Fix(w, int(c.at))
}

// remove removes a caller. The last one takes its number.
func (w *waiting) remove(n uint32) {
	w.index.remove(n, w.home)
	last := len(w.heap) - 1
	at := int(w.callers[n].at)
	w.Swap(at, last)
	w.heap = w.heap[:last]
	if at < last {
		heap.Fix(w, at)
	}
	moved := uint32(last) // < max
	if n != moved {
		w.index.renumber(moved, n, w.home)
		w.callers[n] = w.callers[moved]
		w.heap[w.callers[n].at] = n
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
		*w = waiting{max: w.max} // this frees its memory
	}
}

// Len, Less, Swap, Push and Pop are heap.Interface; callers are never pushed or popped.
func (w *waiting) Len() int { return len(w.heap) }

func (w *waiting) Less(i, j int) bool {
	return w.callers[w.heap[i]].estimate < w.callers[w.heap[j]].estimate
}

func (w *waiting) Swap(i, j int) {
	w.heap[i], w.heap[j] = w.heap[j], w.heap[i]
	w.callers[w.heap[i]].at, w.callers[w.heap[j]].at = uint32(i), uint32(j) // < max
}

// Push panics.
func (w *waiting) Push(any) { panic("BUG: push into the waiting room") }

// Pop panics.
func (w *waiting) Pop() any { panic("BUG: pop from the waiting room") }

// saturatingAdd adds b ≥ 0 to a and stops at the largest number.
func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
