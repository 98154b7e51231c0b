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
// The circular buffer of timestamps is folklore. With a lock it is exact. Lock-free versions that publish the head before the time, or
// the time before the head, lose increments. The comment on the state of a ring, below, says how this one avoids that.
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

// The state of a ring is a circular buffer of the times of admissions, with a power of two of slots, and where to look in it.
//
//	hint    at most the head, and at most as many positions before it as there are slots. It only grows
//	latest  at least the time of every admission of several events at once
//	slots   position p is in slot p mod slots: the time, and in the lowest bit the tag of its lap
//
// The head is how many events were admitted, and so the position of the next one. No word holds it: it is the first
// position from the hint on whose slot is not written, that is, not tagged with the current lap. Each call looks at a few
// slots from the hint on, and moves the hint seldom, so that most admissions write to one cache line only.
//
// # How one event is admitted
//
// A goroutine finds the head. It reads the slot at the head, and the time of the admission that is the limit-th newest. If
// that time is a window ago, the goroutine replaces the slot by compare-and-swap. This one step decides, records and counts
// the admission. So nothing can be lost between counting and recording, wherever a goroutine stops.
//
// The time that is written is never before the time at the position before, so times never decrease along the ring. And it
// is a window or more after the time that the slot held, so a slot never holds the same word twice and the swap has no ABA
// problem. The words that were read belong together if the slot at the head was not written after it was read, and if the
// hint has not changed, so that all tags were of one lap.
//
// # Why never more than the limit, whatever the clocks say
//
// Say admission k was given time t[k] and recorded r[k] = max(t[k], r[k-1]). It was admitted because t[k] ≥ r[k-N] + W.
// For any j ≤ k-N: t[j] ≤ r[j] ≤ r[k-N] ≤ t[k] - W. So of any N+1 admissions, the first and the last, by position, are
// W or more apart by the times that were given, and do not fit into [a, a+W).
//
// # How several events are admitted
//
// A claim replaces the slot at the head: it contains the number of positions, and the low bits of the first position to
// make it unique. Any goroutine that finds a claim completes it: it fills the positions after the first one, then the first
// one. Until then the hint stays at the head; at the end it moves past all of them. Helpers do not know the time, for which
// the claim has no room. They use latest, which the goroutine that claims raises to its time first. If several goroutines
// claim at once with different times, latest may be a little too late. That only keeps the slots in use for longer.
//
// # How a limit grows, and how turns are cancelled
//
// Both replace the state. The old state is frozen, by a mark in the slot at its head. Any goroutine that finds the mark computes the new
// state from the old one: see moveFrom.
const (
	ringHint = iota
	ringLatest
	ringSlots
)

// Bits of a slot.
const (
	tagBit     = uint64(1)       // of a time: its lap, modulo 2
	frozenBit  = uint64(1) << 62 // of a time: no goroutine writes to this state any more
	claimBit   = uint64(1) << 63 // the word is a claim, not a time
	claimUnits = 26              // bits for the number of positions; the other bits are of the first position
	maxSlots   = 1 << claimUnits / 2
)

// maxLag is how far the hint may be behind the head. Several events that are admitted at once may make it more.
const maxLag = 8

// ring is the algorithm. If its limit is more than the slots of a state, the number of slots is the limit.
type ring struct {
	window int64
	limit  atomic.Int64
}

func (a *ring) take(s []atomic.Uint64, t, n, maxWait int64) (wait int64, r receipt, ok bool) {
	wait, r, ok, _ = a.try(s, t, n, maxWait)
	return wait, r, ok
}

// try is take for a state that may be frozen. If it is, try decides nothing and returns frozen.
func (a *ring) try(s []atomic.Uint64, t, n, maxWait int64) (wait int64, r receipt, ok, frozen bool) {
	for {
		limit := min(a.limit.Load(), int64(len(s)-ringSlots))
		if n > limit {
			return never, r, false, false
		}
		hint, head := findHead(s)
		free, back := int64(0), uint64(limit-n+1)
		if head >= back {
			free = timeOf(slotAt(s, head-back).Load()) + a.window
		}
		newest := int64(0)
		if head > 0 {
			newest = timeOf(slotAt(s, head-1).Load())
		}
		next := slotAt(s, head).Load()
		if s[ringHint].Load() != hint || written(s, next, head) {
			if next&claimBit != 0 && s[ringHint].Load() == hint {
				completeClaim(s, head, next, 0)
			}
			continue
		}
		if wait = max(0, free-t); wait > maxWait {
			return wait, r, false, false
		}
		if next&frozenBit != 0 {
			return 0, r, false, true
		}
		if when := max(t+wait, newest); admit(s, head, next, n, when) {
			return wait, receipt{place: uint64(when)}, true, false
		}
	}
}

// findHead returns the hint and the head. The head is right for as long as the hint does not change.
func findHead(s []atomic.Uint64) (hint, head uint64) {
	lag := min(maxLag, uint64(len(s)-ringSlots))
	for {
		hint = s[ringHint].Load()
		for head = hint; head < hint+lag; head++ {
			if v := slotAt(s, head).Load(); v&claimBit != 0 || !written(s, v, head) {
				return hint, head
			}
		}
		s[ringHint].CompareAndSwap(hint, head)
	}
}

// admit writes n positions from the head on. It returns false if another goroutine was first.
func admit(s []atomic.Uint64, head, next uint64, n, when int64) bool {
	if n == 1 {
		return slotAt(s, head).CompareAndSwap(next, slotOf(s, head, when))
	}
	raiseTo(&s[ringLatest], uint64(when))
	claim := claimBit | head<<claimUnits&^(claimBit|frozenBit) | uint64(n)
	if !slotAt(s, head).CompareAndSwap(next, claim) {
		return false
	}
	completeClaim(s, head, claim, when)
	return true
}

// completeClaim replaces a claim by the times of its positions. When it returns, the head is past them. known is the time of
// the claim, or 0 for helpers, which do not know it.
func completeClaim(s []atomic.Uint64, head, claim uint64, known int64) {
	raiseTo(&s[ringHint], head)
	last := head + claim&(1<<claimUnits-1)
	when := known
	for p := head + 1; p < last; p++ {
		slot := slotAt(s, p)
		v := slot.Load()
		for !written(s, v, p) {
			if p == head+1 && known == 0 {
				when = max(int64(s[ringLatest].Load()), timeOf(slotAt(s, head-1).Load()))
			}
			if s[ringHint].Load() != head {
				return // other goroutines have completed the claim
			}
			slot.CompareAndSwap(v, slotOf(s, p, when))
			v = slot.Load()
		}
		when = timeOf(v)
	}
	slotAt(s, head).CompareAndSwap(claim, slotOf(s, head, when))
	s[ringHint].CompareAndSwap(head, last)
}

// refund does nothing: a time cannot be removed from a state while other goroutines write to it. Ring.refund can, because
// it replaces the state.
func (a *ring) refund([]atomic.Uint64, receipt, int64) {}

// usage returns 0 if the newest admission is a window ago, and 1 if there were fewer admissions than the limit. Otherwise it returns a
// window plus the time until the next turn, which is negative if the turn is free already; at least 1.
func (a *ring) usage(s []atomic.Uint64, t int64) int64 {
	_, head := findHead(s)
	if head == 0 || timeOf(slotAt(s, head-1).Load())+a.window <= t {
		return 0
	}
	limit := uint64(max(1, min(a.limit.Load(), int64(len(s)-ringSlots))))
	if head < limit {
		return 1
	}
	return max(1, a.window+timeOf(slotAt(s, head-limit).Load())+a.window-t)
}

// slotAt returns the slot of a position.
func slotAt(s []atomic.Uint64, position uint64) *atomic.Uint64 {
	return &s[ringSlots+int(position)&(len(s)-ringSlots-1)]
}

// slotOf returns the word of a slot after an admission at its position.
func slotOf(s []atomic.Uint64, position uint64, when int64) uint64 {
	return uint64(when)<<1 | tagOf(s, position)
}

// tagOf returns the tag of the lap of a position. It is 1 in the first lap, so that the zeros of a new state are of the lap
// before.
func tagOf(s []atomic.Uint64, position uint64) uint64 {
	slots := uint64(len(s) - ringSlots)
	if position&slots == 0 {
		return tagBit
	}
	return 0
}

// written reports whether v, the word of the slot of a position, is of the lap of that position, or is a claim.
func written(s []atomic.Uint64, v, position uint64) bool {
	return v&claimBit != 0 || v&tagBit == tagOf(s, position)
}

func timeOf(v uint64) int64 { return int64(v&^(claimBit|frozenBit)) >> 1 }

// raiseTo raises a word to v, if it is less.
func raiseTo(w *atomic.Uint64, v uint64) {
	for old := w.Load(); old < v && !w.CompareAndSwap(old, v); old = w.Load() {
	}
}
