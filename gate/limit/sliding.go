package limit

import (
	"math/bits"
	"strconv"
	"sync/atomic"
	"time"
)

// Sliding admits at most a number in any period, like Ring, in a memory that does not grow with the number: it counts in
// slots, and keeps what is counted for up to a slot longer than the period. It admits the limit in any period-and-a-slot,
// never more. NewSliding makes one; the zero value is not usable. All methods may be called from any goroutine, and none
// takes a lock.
//
// The idea is LeapArray's, of Alibaba's Sentinel: a circle of counters, each reused for a later time. See sliding for what
// is different.
type Sliding struct {
	limiter
	sliding sliding
}

// maxParts bounds how many slots a call sums up.
const maxParts = 1000

// NewSliding returns a Sliding that admits n in any period, which it divides into slots: ten is usual. It panics if the
// period is not positive or over two years, if slots are not from 1 to 1000, or if n is negative. More than one in a
// nanosecond is not told apart.
func NewSliding(n int, per time.Duration, slots int) *Sliding {
	period := nanoseconds(per)
	if slots < 1 || slots > maxParts {
		panic("limit: slots are from 1 to " + strconv.Itoa(maxParts) + "; got " + strconv.Itoa(slots))
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

// SetLimit changes how many are admitted in any period; what is counted stays counted. An interval that the change falls
// into holds no more than the limit at the last admission in it. It panics if n is negative.
func (f *Sliding) SetLimit(n int) { f.sliding.limit.Store(atMost(n, f.sliding.width)) }

// sliding is the algorithm. Its state:
//
//	head   number<<shift | count of the newest slot
//	kept   the same of the slots before, slot i in word i mod kept
//
// LeapArray counts in the slot of the time and sums up without regard to others, so that two that count in different
// slots may both find the last place; and it resets a slot, then counts in it. Here everything is admitted by swapping
// the head, where the count of the newest slot is: the slots before it are not written to any more, so if the swap
// succeeds, the sum that was read is still right. When the time has come for a new slot, the head is first copied to its
// place among the kept, by whoever comes by; only a copy of the last head counts, and no head replaces a later one.
//
// A time before the newest slot is counted in the newest, and admitted if it fits with everything from a period before
// its own slot on. So for any interval of a period's length, the last admission in it, in order, found all the others
// within the slots that it summed up: no interval holds more than the limit, by the times that were given.
type sliding struct {
	width, phase int64
	parts        int64 // slots of a period; one more is summed up
	kept         int64 // a power of two, at least parts + 2
	shift        int   // so that counts up to width, and all numbers of slots, fit beside each other
	limit        atomic.Int64
}

func (a *sliding) words() int { return 1 + int(a.kept) }

func (a *sliding) take(s []atomic.Uint64, t, n, most int64) (wait int64, r receipt, ok bool) {
	limit := a.limit.Load()
	if n > limit {
		return never, r, false
	}
	own := (t + a.phase) / a.width
	for {
		head := s[0].Load()
		slot, _ := a.fit(s, head, own, n, limit)
		if wait = 0; slot > own {
			wait = slot*a.width - a.phase - t
		}
		if wait > most {
			if s[0].Load() != head {
				continue
			}
			return wait, r, false
		}
		next := max(head, uint64(slot)<<a.shift) + uint64(n)
		if next>>a.shift > head>>a.shift {
			raise(a.place(s, int64(head>>a.shift)), head)
		}
		if s[0].CompareAndSwap(head, next) {
			return wait, receipt{place: next >> a.shift}, true
		}
	}
}

// give uncounts in the head, or among the kept. Lower counts there are as good as the ones that somebody may have summed
// up before. A head that is just being copied to its place may undo it.
func (a *sliding) give(s []atomic.Uint64, r receipt, n int64) {
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

// fit returns the first slot, from the given one on, in which n more are within the limit, and what else is counted then.
func (a *sliding) fit(s []atomic.Uint64, head uint64, slot, n, limit int64) (first, counted int64) {
	newest := int64(head >> a.shift)
	first = max(slot, newest-a.kept+1+a.parts) // before that, some are forgotten
	for i := first - a.parts; i <= newest; i++ {
		counted += a.count(s, head, i)
	}
	for ; counted+n > limit && first-a.parts <= newest; first++ {
		counted -= a.count(s, head, first-a.parts)
	}
	return first, counted
}

// count returns what is counted in a slot.
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

func (a *sliding) debt(s []atomic.Uint64, t int64) int64 {
	own := (t + a.phase) / a.width
	limit := max(1, a.limit.Load())
	slot, counted := a.fit(s, s[0].Load(), own, 1, limit)
	if slot > own {
		return limit + (slot-own)*a.width
	}
	return counted
}
