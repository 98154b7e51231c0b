package limit

import "sync/atomic"

// A ring's state is a counter of what was admitted and a circular buffer of when, a power of two of slots.
//
//	head    how many were admitted: the position of the next. It only grows
//	latest  no less than the time of any admission of several at once
//	slots   position p is in slot p mod slots: the time, its lap's tag in the lowest bit
//
// # How one is admitted
//
// A goroutine reads the head, the time of the limit-th newest, and the slot at the head. If the time is a window ago, it
// replaces the slot by compare-and-swap: at that moment its admission is decided and recorded, in one. Advancing the
// head comes after, and whoever finds the slot at the head written (its tag is the current lap's) does it first. So
// nothing is lost between head and slot, whoever stops where.
//
// The time that is written is never before that of the position before, so times never decrease along the ring; and it is
// a window or more after what the slot held, so no slot ever holds the same word twice and the swap has no ABA problem.
// Everything read is known to belong together when the head is afterwards still what it was.
//
// # Why never more than the limit, whatever the clocks say
//
// Say admission k was given time t[k] and recorded r[k] = max(t[k], r[k-1]). It was admitted because t[k] ≥ r[k-N] + W.
// For any j ≤ k-N: t[j] ≤ r[j] ≤ r[k-N] ≤ t[k] - W. So of any N+1 admissions, the first and the last, by position, are
// W or more apart by the times that were given, and do not fit into [a, a+W).
//
// # How several are admitted
//
// The slot at the head is replaced by a claim: the number of positions, and the low bits of the first to make it unique.
// Whoever finds a claim completes it: the positions behind the first are filled, the first last, then the head moves. The
// one thing that helpers cannot know is the time, which has no room in the claim: they take latest, to which the claimant
// has raised it before. If several goroutines claim at once with different times, that may be a little late, which only
// keeps the slots longer.
//
// # How a limit grows, and turns are taken back
//
// By a new state. The old one is frozen, which takes no more than a mark in the slot at its head, and what follows from it
// is written to the new one by whoever comes by: see grow.go.
const (
	ringHead = iota
	ringLatest
	ringSlots
)

// Bits of a slot.
const (
	tagBit     = uint64(1)       // of a time: its lap, modulo 2
	frozenBit  = uint64(1) << 62 // of a time: nothing is written to this ring any more
	claimBit   = uint64(1) << 63 // not a time but a claim
	claimUnits = 26              // bits for the number of positions; the rest is for which
	maxSlots   = 1 << claimUnits / 2
)

// ring is the algorithm. Its limit may be more than a state has slots; then the slots are the limit.
type ring struct {
	window int64
	limit  atomic.Int64
}

func (a *ring) take(s []atomic.Uint64, t, n, most int64) (wait int64, r receipt, ok bool) {
	wait, r, ok, _ = a.try(s, t, n, most)
	return wait, r, ok
}

// try is take for states that may be frozen: then nothing is decided.
func (a *ring) try(s []atomic.Uint64, t, n, most int64) (wait int64, r receipt, ok, frozen bool) {
	for {
		limit := min(a.limit.Load(), int64(len(s)-ringSlots))
		if n > limit {
			return never, r, false, false
		}
		head := s[ringHead].Load()
		free, back := int64(0), uint64(limit-n+1)
		if head >= back {
			free = timeOf(at(s, head-back).Load()) + a.window
		}
		newest := int64(0)
		if head > 0 {
			newest = timeOf(at(s, head-1).Load())
		}
		next := at(s, head).Load()
		switch {
		case s[ringHead].Load() != head:
			continue
		case written(s, next, head):
			settle(s, head, next, 0)
			continue
		}
		if wait = max(0, free-t); wait > most {
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

// admit writes n positions from the head on, unless another goroutine was first.
func admit(s []atomic.Uint64, head, next uint64, n, when int64) bool {
	if n == 1 {
		if !at(s, head).CompareAndSwap(next, slotOf(s, head, when)) {
			return false
		}
		s[ringHead].CompareAndSwap(head, head+1)
		return true
	}
	raise(&s[ringLatest], uint64(when))
	claim := claimBit | head<<claimUnits&^(claimBit|frozenBit) | uint64(n)
	if !at(s, head).CompareAndSwap(next, claim) {
		return false
	}
	settle(s, head, claim, when)
	return true
}

// settle moves the head over what was found written there. When it returns, the head has moved. The time is the claim's, if
// it is known.
func settle(s []atomic.Uint64, head, found uint64, known int64) {
	if found&claimBit == 0 {
		s[ringHead].CompareAndSwap(head, head+1)
		return
	}
	last := head + found&(1<<claimUnits-1)
	when := known
	for p := head + 1; p < last; p++ {
		slot := at(s, p)
		v := slot.Load()
		for !written(s, v, p) {
			if p == head+1 && known == 0 {
				when = max(int64(s[ringLatest].Load()), timeOf(at(s, head-1).Load()))
			}
			if s[ringHead].Load() != head {
				return // others have finished
			}
			slot.CompareAndSwap(v, slotOf(s, p, when))
			v = slot.Load()
		}
		when = timeOf(v)
	}
	at(s, head).CompareAndSwap(found, slotOf(s, head, when))
	s[ringHead].CompareAndSwap(head, last)
}

// give cannot take a time out of a state while others write to it. A Ring of its own can, by replacing the state.
func (a *ring) give([]atomic.Uint64, receipt, int64) {}

// debt is the wait for the next turn, and if there is none, how recently there was one.
func (a *ring) debt(s []atomic.Uint64, t int64) int64 {
	head := s[ringHead].Load()
	if head == 0 || timeOf(at(s, head-1).Load())+a.window <= t {
		return 0
	}
	limit := uint64(max(1, min(a.limit.Load(), int64(len(s)-ringSlots))))
	if head < limit {
		return 1
	}
	return max(1, a.window+timeOf(at(s, head-limit).Load())+a.window-t)
}

// at returns the slot of a position. Before the first position there is none that matters.
func at(s []atomic.Uint64, position uint64) *atomic.Uint64 {
	return &s[ringSlots+int(position)&(len(s)-ringSlots-1)]
}

// slotOf returns what a slot holds once something was admitted at its position.
func slotOf(s []atomic.Uint64, position uint64, when int64) uint64 {
	return uint64(when)<<1 | tagOf(s, position)
}

// tagOf is 1 in the first lap, so that the zeros of a new state are of the lap before.
func tagOf(s []atomic.Uint64, position uint64) uint64 {
	slots := uint64(len(s) - ringSlots)
	if position&slots == 0 {
		return tagBit
	}
	return 0
}

// written reports whether a slot's word is of its position's lap, or a claim that begins there.
func written(s []atomic.Uint64, v, position uint64) bool {
	return v&claimBit != 0 || v&tagBit == tagOf(s, position)
}

func timeOf(v uint64) int64 { return int64(v&^(claimBit|frozenBit)) >> 1 }

// raise makes a word no less than v.
func raise(w *atomic.Uint64, v uint64) {
	for old := w.Load(); old < v && !w.CompareAndSwap(old, v); old = w.Load() {
	}
}
