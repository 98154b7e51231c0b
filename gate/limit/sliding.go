package limit

import (
	"math/bits"
	"strconv"
	"sync/atomic"
	"time"
)

// Sliding admits at most a number of events in any period, as Ring does. Its memory does not grow with that number: it
// counts events in slots of time. An event counts for the period and up to one slot longer, so that Sliding never admits
// more than the limit in a period, but may admit less. NewSliding makes one; the zero value is not usable. All methods may
// be called from any goroutine, and none takes a lock.
//
// The idea comes from LeapArray in Alibaba's Sentinel: a circle of counters, each used again for a later time. The comment
// on sliding says what is different here.
type Sliding struct {
	limiter
	sliding sliding
}

// maxParts is how many slots a period may have; a call sums them up.
const maxParts = 1000

// NewSliding returns a Sliding that admits n events in any period. It divides the period into slots; ten are usual. It
// panics if the period is not positive or over two years, if slots is not from 1 to 1000, or if n is negative. A limit above
// one event in a nanosecond counts as one in a nanosecond.
func NewSliding(n int, per time.Duration, slots int) *Sliding {
	period := nanoseconds(per)
	if slots < 1 || slots > maxParts {
		panic("limit: got " + strconv.Itoa(slots) + " slots, want 1 to " + strconv.Itoa(maxParts))
	}
	c := newClock()
	width := (period + int64(slots) - 1) / int64(slots)
	f := &Sliding{sliding: sliding{
		width: width, phase: c.phase(width), parts: int64(slots), shift: bits.Len64(uint64(width)),
		kept: 1 << bits.Len64(uint64(slots)+1),
	}}
	f.SetLimit(n)
	f.limiter = newLimiter(c, &f.sliding)
	return f
}

// SetLimit changes how many events are admitted in any period; events that are counted stay counted. An interval in which
// the limit changes contains no more events than the limit at its last admission. It panics if n is negative.
func (f *Sliding) SetLimit(n int) { f.sliding.limit.Store(checkLimit(n, f.sliding.width)) }

// sliding is the algorithm. Its state:
//
//	head   number<<shift | count of the newest slot
//	kept   the same of the slots before, slot i in word i mod kept
//
// LeapArray counts an event in the slot of its time, and sums up the slots while others count: two goroutines that count in
// different slots may both find room for the last event. And it resets a slot in one step and counts in it in another.
// Here every admission swaps the head, which contains the count of the newest slot. The slots before it are no longer
// written to. So if the swap succeeds, the sum that was read is still right. Before a new slot begins, a goroutine that
// needs it copies the head to its place among the kept slots. Only a copy of the last head counts, and a head never
// replaces a later one.
//
// An event with a time before the newest slot is counted in the newest slot. It is admitted if it fits with all events from
// one period before its own slot on. So take any interval as long as a period: the last admission in it, in order, found
// all the others within the slots that it summed up. So no interval contains more events than the limit, by the times that
// were given.
type sliding struct {
	width, phase int64
	parts        int64 // slots of a period; a call sums up one more
	kept         int64 // a power of two, at least parts + 2
	shift        int   // bits of a count: counts up to width and the numbers of all slots fit into one word
	limit        atomic.Int64
}

func (a *sliding) words() int { return 1 + int(a.kept) }

func (a *sliding) take(s []atomic.Uint64, t, n, maxWait int64) (wait int64, r receipt, ok bool) {
	limit := a.limit.Load()
	if n > limit {
		return never, r, false
	}
	own := (t + a.phase) / a.width
	for {
		head := s[0].Load()
		slot, _ := a.firstFit(s, head, own, n, limit)
		if wait = 0; slot > own {
			wait = slot*a.width - a.phase - t
		}
		if wait > maxWait {
			if s[0].Load() != head {
				continue
			}
			return wait, r, false
		}
		next := max(head, uint64(slot)<<a.shift) + uint64(n)
		if next>>a.shift > head>>a.shift {
			raiseTo(a.place(s, int64(head>>a.shift)), head)
		}
		if s[0].CompareAndSwap(head, next) {
			return wait, receipt{place: next >> a.shift}, true
		}
	}
}

// refund reduces a count in the head or among the kept slots. A goroutine that has summed up the higher count refuses too
// much, never too little. A head that is being copied to its place at the same time may undo the refund.
func (a *sliding) refund(s []atomic.Uint64, r receipt, n int64) {
	for {
		word := &s[0]
		w := word.Load()
		if w>>a.shift > r.place {
			word = a.place(s, int64(r.place))
			w = word.Load()
		}
		if w>>a.shift != r.place || word.CompareAndSwap(w, w-uint64(n)) {
			return
		}
	}
}

// firstFit returns the first slot, from the given one on, in which n more events are within the limit, and how many others
// are counted then.
func (a *sliding) firstFit(s []atomic.Uint64, head uint64, slot, n, limit int64) (first, counted int64) {
	newest := int64(head >> a.shift)
	first = max(slot, newest-a.kept+1+a.parts) // for an earlier slot, some of the slots to be summed up are overwritten
	for i := first - a.parts; i <= newest; i++ {
		counted += a.count(s, head, i)
	}
	for ; counted+n > limit && first-a.parts <= newest; first++ {
		counted -= a.count(s, head, first-a.parts)
	}
	return first, counted
}

// count returns how many events are counted in a slot.
func (a *sliding) count(s []atomic.Uint64, head uint64, slot int64) int64 {
	w := head
	if slot != int64(head>>a.shift) {
		w = a.place(s, slot).Load()
	}
	if int64(w>>a.shift) != slot {
		return 0
	}
	return int64(w & (1<<a.shift - 1))
}

func (a *sliding) place(s []atomic.Uint64, slot int64) *atomic.Uint64 { return &s[1+slot&(a.kept-1)] }

func (a *sliding) usage(s []atomic.Uint64, t int64) int64 {
	own := (t + a.phase) / a.width
	limit := max(1, a.limit.Load())
	slot, counted := a.firstFit(s, s[0].Load(), own, 1, limit)
	if slot > own {
		return limit + (slot-own)*a.width
	}
	return counted
}
