package limit

import "sync/atomic"

// A ring's state is a circular buffer of when something was admitted, a power of two of slots, and where to look in it.
//
//	hint    no more than the head, and behind it by no more than there are slots. It only grows
//	latest  no less than the time of any admission of several at once
//	slots   position p is in slot p mod slots: the time, its lap's tag in the lowest bit
//
// The head, how many were admitted and so the position of the next, is nowhere: it is the first position from the hint on
// whose slot is not written, that is, not tagged with the current lap. A few slots are looked at more often than the hint
// is moved, so that most admissions write to one cache line only.
//
// # How one is admitted
//
// A goroutine finds the head, and reads the time of the limit-th newest and the slot at the head. If the time is a window
// ago, it replaces the slot by compare-and-swap: at that moment its admission is decided, recorded and counted, in one. So
// nothing can be lost between counting and recording, whoever stops where.
//
// The time that is written is never before that of the position before, so times never decrease along the ring; and it is
// a window or more after what the slot held, so no slot ever holds the same word twice and the swap has no ABA problem.
// Everything read is known to belong together when the slot at the head was not written after reading it, and the hint is
// still what it was, so that the tags were those of one lap.
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
// Whoever finds a claim completes it: the positions behind the first are filled, the first last; the hint is at the head
// meanwhile, and moved over all of them in the end. The one thing that helpers cannot know is the time, which has no room
// in the claim: they take latest, to which the claimant has raised it before. If several goroutines claim at once with
// different times, that may be a little late, which only keeps the slots longer.
//
// # How a limit grows, and turns are taken back
//
// By a new state. The old one is frozen, which takes no more than a mark in the slot at its head, and what follows from it
// is written to the new one by whoever comes by: see grow.go.
const (
	ringHint = iota
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

// maxLag is how far the hint may be behind the head, but for several at once.
const maxLag = 8

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
		hint, head := end(s)
		free, back := int64(0), uint64(limit-n+1)
		if head >= back {
			free = timeOf(at(s, head-back).Load()) + a.window
		}
		newest := int64(0)
		if head > 0 {
			newest = timeOf(at(s, head-1).Load())
		}
		next := at(s, head).Load()
		if s[ringHint].Load() != hint || written(s, next, head) {
			if next&claimBit != 0 && s[ringHint].Load() == hint {
				settle(s, head, next, 0)
			}
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

// end returns the head as it follows from the hint, for as long as the hint is the same.
func end(s []atomic.Uint64) (hint, head uint64) {
	lag := min(maxLag, uint64(len(s)-ringSlots))
	for {
		hint = s[ringHint].Load()
		for head = hint; head < hint+lag; head++ {
			if v := at(s, head).Load(); v&claimBit != 0 || !written(s, v, head) {
				return hint, head
			}
		}
		s[ringHint].CompareAndSwap(hint, head)
	}
}

// admit writes n positions from the head on, unless another goroutine was first.
func admit(s []atomic.Uint64, head, next uint64, n, when int64) bool {
	if n == 1 {
		return at(s, head).CompareAndSwap(next, slotOf(s, head, when))
	}
	raise(&s[ringLatest], uint64(when))
	claim := claimBit | head<<claimUnits&^(claimBit|frozenBit) | uint64(n)
	if !at(s, head).CompareAndSwap(next, claim) {
		return false
	}
	settle(s, head, claim, when)
	return true
}

// settle replaces a claim by what it stands for. When it returns, the head is behind that. The time is the claim's, if it
// is known.
func settle(s []atomic.Uint64, head, claim uint64, known int64) {
	raise(&s[ringHint], head)
	last := head + claim&(1<<claimUnits-1)
	when := known
	for p := head + 1; p < last; p++ {
		slot := at(s, p)
		v := slot.Load()
		for !written(s, v, p) {
			if p == head+1 && known == 0 {
				when = max(int64(s[ringLatest].Load()), timeOf(at(s, head-1).Load()))
			}
			if s[ringHint].Load() != head {
				return // others have finished
			}
			slot.CompareAndSwap(v, slotOf(s, p, when))
			v = slot.Load()
		}
		when = timeOf(v)
	}
	at(s, head).CompareAndSwap(claim, slotOf(s, head, when))
	s[ringHint].CompareAndSwap(head, last)
}

// give cannot take a time out of a state while others write to it. A Ring of its own can, by replacing the state.
func (a *ring) give([]atomic.Uint64, receipt, int64) {}

// debt is the wait for the next turn, and if there is none, how recently there was one.
func (a *ring) debt(s []atomic.Uint64, t int64) int64 {
	_, head := end(s)
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
