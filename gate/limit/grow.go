package limit

import (
	"math/bits"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Ring admits at most a number in any period whatever, not only in those that begin at certain times: among the times of
// all that it ever admitted, no half-open interval as long as the period holds more than the limit. It keeps a time, in 8
// bytes, for each that the limit allows, rounded up to a power of two. NewRing makes one; the zero value is not usable.
// All methods may be called from any goroutine; none takes a lock but SetLimit, which waits only for another SetLimit.
//
// A turn that is cancelled costs a copy of the slots, during which nobody waits either.
//
// The circular buffer of timestamps is folklore. Written with a lock it is exact, and in lock-free versions that publish
// the head before the time, or the time before the head, increments get lost; see ring.go for how they do not here.
type Ring struct {
	limiter
	ring    ring
	table   atomic.Pointer[table]
	mu      sync.Mutex // held by SetLimit and give: there is one change at a time
	largest int        // limit that the ring has had, or 1
}

// table is a ring's state, to be replaced by another.
type table struct {
	words []atomic.Uint64
	next  atomic.Pointer[table] // set before words are frozen

	without int64  // the time of those of the table before that are not taken over
	dropped int64  // how many of that time
	largest uint64 // limit that the ring had before, or 1
}

// NewRing returns a Ring that admits n in any period. It panics if the period is not positive or over two years, or if n
// is negative or more than 33 million. A limit of 0 admits nothing.
func NewRing(n int, per time.Duration) *Ring {
	r, slots := &Ring{ring: ring{window: nanoseconds(per)}, largest: max(n, 1)}, slotsFor(n)
	r.ring.limit.Store(int64(n))
	r.limiter = limiter{clock: newClock(), rule: r}
	r.table.Store(newTable(slots))
	return r
}

// SetLimit changes how many are admitted in any period. It panics as NewRing does. An interval that the change falls into
// holds no more than the limit at the last admission in it. What fits into the slots there are costs one store; more
// slots are made by one goroutine, and moved to by whoever comes by: nobody waits.
func (r *Ring) SetLimit(n int) {
	slots := slotsFor(n)
	r.mu.Lock()
	defer r.mu.Unlock()
	if slots > len(r.table.Load().words)-ringSlots {
		r.replace(newTable(slots))
	}
	r.largest = max(r.largest, n)
	r.ring.limit.Store(int64(n))
}

// pattern gives Keyed the ring without room to grow: states that are many have no pointer to a larger one.
func (r *Ring) pattern() (clock, algorithm) {
	return r.clock, &fixedRing{ring: &r.ring, slots: slotsFor(int(r.ring.limit.Load()))}
}

type fixedRing struct {
	*ring
	slots int
}

func (f *fixedRing) words() int { return ringSlots + f.slots }

func (r *Ring) words() int { return 0 } // the states are the tables

func (r *Ring) take(_ []atomic.Uint64, t, n, most int64) (int64, receipt, bool) {
	for {
		table := r.table.Load()
		wait, paid, ok, frozen := r.ring.try(table.words, t, n, most)
		if !frozen {
			return wait, paid, ok
		}
		r.move(table)
	}
}

// give replaces the table by one in which n of a time are missing.
func (r *Ring) give(_ []atomic.Uint64, paid receipt, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := newTable(len(r.table.Load().words) - ringSlots)
	next.without, next.dropped = int64(paid.place), n
	r.replace(next)
}

// replace makes another table the ring's. The caller holds mu.
func (r *Ring) replace(next *table) {
	old := r.table.Load()
	next.largest = uint64(r.largest)
	old.next.Store(next)
	freeze(old.words)
	r.move(old)
}

func (r *Ring) debt(_ []atomic.Uint64, t int64) int64 { return r.ring.debt(r.table.Load().words, t) }

func newTable(slots int) *table { return &table{words: make([]atomic.Uint64, ringSlots+slots)} }

// slotsFor checks a limit and returns how many slots it needs.
func slotsFor(n int) int {
	if n < 0 || n > maxSlots {
		panic("limit: a ring is for 0 to " + strconv.Itoa(maxSlots) + "; got " + strconv.Itoa(n))
	}
	return 1 << bits.Len(uint(max(n, 1)-1))
}

// freeze ends admissions to a ring: as each needs the slot at the head, marking that one is enough. Then the hint is the
// head.
func freeze(s []atomic.Uint64) {
	for {
		hint, head := end(s)
		next := at(s, head).Load()
		switch {
		case s[ringHint].Load() != hint:
		case next&claimBit != 0:
			settle(s, head, next, 0)
		case written(s, next, head):
		case hint < head:
			s[ringHint].CompareAndSwap(hint, head)
		case at(s, head).CompareAndSwap(next, next|frozenBit):
			return
		}
	}
}

// move replaces a frozen table by its next. Any number of goroutines may do so at once: what they write is a function of
// what is frozen, and written only over zeros, which no slot that is in use goes back to. Where some are dropped, all
// before them move up: the head stays, as its slot's laps are counted from it.
func (r *Ring) move(old *table) {
	from, next := old.words, old.next.Load()
	to := next.words
	head := from[ringHint].Load()
	slots := uint64(len(to) - ringSlots)
	dropped := int64(0)
	source := head // one above it
	for p := head; p > head-min(head, slots); p-- {
		when := int64(0)
		for source > 0 {
			source--
			when = remembered(from, head, next.largest, source, r.ring.window)
			if when != next.without || dropped == next.dropped {
				break
			}
			dropped++
			when = 0
		}
		at(to, p-1).CompareAndSwap(0, slotOf(to, p-1, when))
	}
	to[ringHint].CompareAndSwap(0, head)
	r.table.CompareAndSwap(old, next)
}

// remembered returns the time of a position before the head. Of one that was overwritten it is known that it was a window
// or more before the one that came the limit, or more, after it.
func remembered(from []atomic.Uint64, head, limit, p uint64, window int64) int64 {
	laps, known := uint64(0), uint64(len(from)-ringSlots)
	if p+known < head {
		laps = (head-known-p-1)/limit + 1
	}
	when := timeOf(at(from, p+laps*limit).Load())
	if high, low := bits.Mul64(laps, uint64(window)); high != 0 || low > uint64(when) {
		return 0
	}
	return when - int64(laps)*window
}
