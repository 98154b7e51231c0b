package window

import (
	"math"
	"strconv"
	"time"

	"github.com/509da70d/floodgate/analyzer/integer"
)

// MaxSlots bounds the sub-windows of a sliding window, and so the memory for a caller: (MaxSlots+2) × 8 bytes.
const MaxSlots = 1000

const nameSliding = "sliding"

// NewSliding returns a window that moves in slots of length/slots, rounded up. It counts slots+1 of them, so that no
// interval of the given length ever holds more than the limit; it may close early by at most one slot's worth. An entry
// is late if its slot is more than slots older than the newest one. Times are compared as slots, so that no entry counts in a slot
// that is not kept. It panics if length is not positive or slots is not 1 to MaxSlots.
func NewSliding(length time.Duration, slots int) Algorithm {
	if slots < 1 || slots > MaxSlots {
		panic("BUG: sliding window of " + strconv.Itoa(slots) + " slots")
	}
	n := int64(slots)
	slot := nanoseconds(length) / n
	if slot*n < int64(length) {
		slot++
	}
	return sliding{length: int64(length), slot: slot, slots: n}
}

// sliding keeps {index of the newest slot, its weight, the weight of the slot before it, …}, cut behind the oldest slot
// that holds anything. The age of a slot is how many slots it is older than the newest.
type sliding struct{ length, slot, slots int64 }

func (w sliding) Add(s State, limit, t, weight int64) (State, Count) {
	if weight <= 0 {
		return s, w.View(s, limit, t)
	}
	s, place := w.put(s, t, weight)
	return s, w.count(s, 0, limit, t, place)
}

// put adds weight to the slot of a time.
func (w sliding) put(s State, t, weight int64) (State, Place) {
	index := integer.FloorDiv(t, w.slot)
	switch {
	case len(s) == 0:
		return append(s, index, weight), Newest
	case index > s[0]:
		return w.advance(s, index, weight), Newest
	}
	age := since(s[0], index)
	if age > uint64(w.slots) {
		return s, Late
	}
	s = s.grow(int(age) + 2)
	s[age+1] = add(s[age+1], weight)
	return s, Newest
}

// advance makes the slot at index the newest, with weight in it.
func (w sliding) advance(s State, index, weight int64) State {
	steps := since(index, s[0])
	if steps > uint64(w.slots) {
		return append(s[:0], index, weight)
	}
	d := int(steps)
	s = s[:min(len(s), int(w.slots)+2-d)] // the others are too old now
	for len(s) > 1 && s[len(s)-1] == 0 {
		s = s[:len(s)-1]
	}
	kept := len(s)
	s = s.grow(kept + d)
	copy(s[1+d:], s[1:kept])
	clear(s[1 : 1+d])
	s[0], s[1] = index, weight
	return s
}

// grow returns s with at least n integers, the new ones 0.
func (s State) grow(n int) State {
	for len(s) < n {
		s = append(s, 0)
	}
	return s
}

func (w sliding) View(s State, limit, t int64) Count {
	index := integer.FloorDiv(t, w.slot)
	if len(s) == 0 {
		return w.count(State{index}, 0, limit, t, Newest)
	}
	if index > s[0] {
		return w.count(s, since(index, s[0]), limit, t, Newest)
	}
	if since(s[0], index) > uint64(w.slots) {
		return w.count(s, 0, limit, t, Late)
	}
	return w.count(s, 0, limit, t, Newest)
}

// count sums the slots as of steps after the newest one, beginning with the newest. If the sum reaches the limit at some slot, the
// window reopens when that slot leaves it.
func (w sliding) count(s State, steps uint64, limit, t int64, place Place) Count {
	limit = max(limit, 1)
	newest := int64(uint64(s[0]) + steps)
	c := Count{Start: mul(sub(newest, w.slots), w.slot), Until: t, Place: place}
	if steps > uint64(w.slots) {
		return c
	}
	kept := s[1:min(len(s), int(w.slots-int64(steps))+2)]
	full := -1
	for age, weight := range kept {
		if c.Total = add(c.Total, max(weight, 0)); full < 0 && c.Total >= limit {
			full = age
		}
	}
	if full >= 0 {
		c.Until = mul(add(s[0], w.slots-int64(full)+1), w.slot)
	}
	return c
}

func (w sliding) Expiry(s State) int64 {
	if len(s) == 0 {
		return math.MinInt64
	}
	return mul(add(s[0], w.slots+1), w.slot)
}

func (w sliding) Length(int64) int64 { return w.length }

func (w sliding) Valid(s State) bool {
	if len(s) == 0 {
		return true
	}
	if len(s) == 1 || int64(len(s)) > w.slots+2 || s[1] == 0 || s[len(s)-1] == 0 {
		return false
	}
	for _, weight := range s[1:] {
		if weight < 0 {
			return false
		}
	}
	return true
}

func (w sliding) Shape() string {
	return nameSliding + "/" + strconv.FormatInt(w.length, 10) + "/" + strconv.FormatInt(w.slots, 10)
}

func (sliding) Capacity(limit int64) int64 { return max(limit, 1) }

func (w sliding) Traits() Traits { return Traits{Slot: w.slot} }

// Forgets returns when the slot of the lost entry has left the window: the sums are the same then. A window that is still full is full
// without that entry.
func (w sliding) Forgets(_ State, _, lost int64) int64 {
	return mul(add(integer.FloorDiv(lost, w.slot), w.slots+1), w.slot)
}

func (w sliding) Coarse() Coarse { return slots{halves{w, w.length}, w} }

// slots is the Coarse of a sliding window.
type slots struct {
	halves
	of sliding
}

// Coarsen keeps the newest slots that hold half of the weight, at the time of the oldest of them. Older slots would make that
// time older, and all of the weight would leave earlier.
func (c slots) Coarsen(s State, t int64) State {
	total := c.of.View(s, 1, t).Total
	if total == 0 {
		return nil
	}
	var kept int64
	for age, weight := range s[1:] {
		if kept = add(kept, weight); kept >= total-kept {
			return State{mul(sub(s[0], int64(age)), c.of.slot), kept}
		}
	}
	return nil
}
