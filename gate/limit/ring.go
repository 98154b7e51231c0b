package limit

import (
	"math/bits"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Ring admits at most a number of events in any period, whenever the period begins: no half-open interval as long as the
// period contains more of the times that were admitted than the limit. It keeps a time of 8 bytes for each event of the
// limit, rounded up to a power of two. NewRing makes one; the zero value is not usable. All methods may be called from any
// goroutine. SetLimit, and Reservation.Cancel for a turn, take a lock, and wait only for each other.
//
// To cancel a turn costs a copy of the slots. Other calls do not wait for it.
//
// The circular buffer of timestamps is folklore. With a lock it is exact. Lock-free versions that publish the head before
// the time, or the time before the head, lose increments. See ringstate.go for how this one avoids that.
type Ring struct {
	limiter
	ring         ring
	table        atomic.Pointer[ringTable]
	mu           sync.Mutex // held by SetLimit and refund: there is one change at a time
	largestLimit int        // the largest limit that the ring has had, at least 1
}

// ringTable is a state of a ring. replace and moveFrom replace it by another one.
type ringTable struct {
	words []atomic.Uint64
	next  atomic.Pointer[ringTable] // set before words are frozen

	withoutTime  int64  // admissions of this time are left out when the table before is copied, …
	dropCount    int64  // … as many of them as this
	largestLimit uint64 // the largest limit that the ring had before, at least 1
}

// NewRing returns a Ring that admits n events in any period. It panics if the period is not positive or over two years, or
// if n is negative or more than 33 million. A limit of 0 admits nothing.
func NewRing(n int, per time.Duration) *Ring {
	r, slots := &Ring{ring: ring{window: nanoseconds(per)}, largestLimit: max(n, 1)}, slotsFor(n)
	r.ring.limit.Store(int64(n))
	r.limiter = limiter{clock: newClock(), algorithm: r}
	r.table.Store(newRingTable(slots))
	return r
}

// SetLimit changes how many events are admitted in any period. It panics as NewRing does. An interval in which the limit
// changes contains no more events than the limit at its last admission. If the ring has enough slots, SetLimit costs one
// store. Otherwise it makes a larger table. Any goroutine that finds the old one frozen helps to copy it, so that no call
// waits for SetLimit.
func (r *Ring) SetLimit(n int) {
	slots := slotsFor(n)
	r.mu.Lock()
	defer r.mu.Unlock()
	if slots > len(r.table.Load().words)-ringSlots {
		r.replace(newRingTable(slots))
	}
	r.largestLimit = max(r.largestLimit, n)
	r.ring.limit.Store(int64(n))
}

// pattern returns for Keyed a ring that cannot grow: the states of a Keyed have no pointer to a larger table.
func (r *Ring) pattern() (clock, algorithm) {
	return r.clock, &fixedRing{ring: &r.ring, slots: slotsFor(int(r.ring.limit.Load()))}
}

type fixedRing struct {
	*ring
	slots int
}

func (f *fixedRing) words() int { return ringSlots + f.slots }

func (r *Ring) words() int { return 0 } // the state is in the table

func (r *Ring) take(_ []atomic.Uint64, t, n, maxWait int64) (int64, receipt, bool) {
	for {
		table := r.table.Load()
		wait, charged, ok, frozen := r.ring.try(table.words, t, n, maxWait)
		if !frozen {
			return wait, charged, ok
		}
		r.moveFrom(table)
	}
}

// refund replaces the table by a copy without n admissions of one time.
func (r *Ring) refund(_ []atomic.Uint64, charged receipt, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := newRingTable(len(r.table.Load().words) - ringSlots)
	next.withoutTime, next.dropCount = int64(charged.place), n
	r.replace(next)
}

// replace makes next the table of the ring. The caller holds mu.
func (r *Ring) replace(next *ringTable) {
	old := r.table.Load()
	next.largestLimit = uint64(r.largestLimit)
	old.next.Store(next)
	freeze(old.words)
	r.moveFrom(old)
}

func (r *Ring) usage(_ []atomic.Uint64, t int64) int64 { return r.ring.usage(r.table.Load().words, t) }

func newRingTable(slots int) *ringTable {
	return &ringTable{words: make([]atomic.Uint64, ringSlots+slots)}
}

// slotsFor returns how many slots a limit needs. It panics if the limit is out of range.
func slotsFor(n int) int {
	if n < 0 || n > maxSlots {
		panic("limit: got a limit of " + strconv.Itoa(n) + " for a ring, want 0 to " + strconv.Itoa(maxSlots))
	}
	return 1 << bits.Len(uint(max(n, 1)-1))
}

// freeze ends admissions to a ring. Each admission needs the slot at the head, so it suffices to mark that slot. After freeze
// the hint is the head.
func freeze(s []atomic.Uint64) {
	for {
		hint, head := findHead(s)
		next := slotAt(s, head).Load()
		switch {
		case s[ringHint].Load() != hint:
		case next&claimBit != 0:
			completeClaim(s, head, next, 0)
		case written(s, next, head):
		case hint < head:
			s[ringHint].CompareAndSwap(hint, head)
		case slotAt(s, head).CompareAndSwap(next, next|frozenBit):
			return
		}
	}
}

// moveFrom replaces a frozen table by its next one. Any number of goroutines may do so at once: they all compute the same
// words from the frozen table, and write them only over zeros, and a slot in use never becomes zero again. Where admissions
// are left out, all earlier ones move up by as many positions. The head stays, because the laps of the slots count from it.
func (r *Ring) moveFrom(old *ringTable) {
	from, next := old.words, old.next.Load()
	to := next.words
	head := from[ringHint].Load()
	slots := uint64(len(to) - ringSlots)
	dropped := int64(0)
	source := head // the position after the one that was read last
	for p := head; p > head-min(head, slots); p-- {
		when := int64(0)
		for source > 0 {
			source--
			when = remembered(from, head, next.largestLimit, source, r.ring.window)
			if when != next.withoutTime || dropped == next.dropCount {
				break
			}
			dropped++
			when = 0
		}
		slotAt(to, p-1).CompareAndSwap(0, slotOf(to, p-1, when))
	}
	to[ringHint].CompareAndSwap(0, head)
	r.table.CompareAndSwap(old, next)
}

// remembered returns the time of a position before the head. If the position was overwritten, it returns the latest time that
// the position can have had: an admission that came at least limit positions later was at least a window later.
func remembered(from []atomic.Uint64, head, limit, p uint64, window int64) int64 {
	laps, known := uint64(0), uint64(len(from)-ringSlots)
	if p+known < head {
		laps = (head-known-p-1)/limit + 1
	}
	when := timeOf(slotAt(from, p+laps*limit).Load())
	if high, low := bits.Mul64(laps, uint64(window)); high != 0 || low > uint64(when) {
		return 0
	}
	return when - int64(laps)*window
}
