package fold

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// earlyWeight is the early weight of a row, by slots of time: the weight of requests that gates blocked early. If early weight and admitted
// weight fill the window together, a synchronous limiter would have closed the caller, and so the caller is closed. Early weight is never
// added to the row's window.
//
// It depends on the row's own entries alone, and not on whether this analyzer predicts. So it is stored with its row, and is part of the
// digest. Weight counts for at most earlySlots slots, and only while its slot lies in the window that counts. So early weight of one window
// never confirms a close in a later window, and when weight is forgotten does not depend on when the first of it came. All of it ends when
// the row closes.
type earlyWeight struct {
	newest  int64             // the number of the newest slot, since 1970-01-01
	weights [earlySlots]int64 // of the newest slot and those before it
}

// Early weight counts for the length of the longest early close, and no longer than a window.
const (
	earlySlots   = 8
	maxEarlySlot = policy.MaxHold / earlySlots

	maxEarlySlotNumber = math.MaxInt64 / 4 // bounds what is read, so that the difference of two numbers does not overflow
)

// earlySlot returns the length of a slot under a rule, in nanoseconds. The windows whose length depends on the time are those of the
// calendar, and all of them are longer than MaxHold.
func earlySlot(r *rules.Rule) int64 {
	return max(1, min(int64(maxEarlySlot), r.Window.Length(0)/earlySlots))
}

// add adds weight to the slot with number n. It returns false, and adds nothing, if the slot is too old.
func (d *earlyWeight) add(n, weight int64) bool {
	if n > d.newest {
		d.shift(n)
	}
	if d.newest-n >= earlySlots {
		return false
	}
	w := &d.weights[d.newest-n]
	*w = integer.Add(*w, weight)
	return true
}

// shift makes n the newest slot.
func (d *earlyWeight) shift(n int64) {
	by := n - d.newest
	for i := earlySlots - 1; i >= 0; i-- {
		if d.weights[i] = 0; int64(i) >= by {
			d.weights[i] = d.weights[int64(i)-by]
		}
	}
	d.newest = n
}

// as returns the early weight that counts at t in a window that begins at start. Slots that are too old, or that begin before start, are 0.
func (d *earlyWeight) as(slot, t, start int64) earlyWeight {
	live := *d
	oldest := max(integer.FloorDiv(t, slot)-earlySlots, integer.FloorDiv(start-1, slot)) + 1
	for i := range live.weights {
		if live.newest-int64(i) < oldest {
			live.weights[i] = 0
		}
	}
	return live
}

// total returns the weight of all slots.
func (d *earlyWeight) total() int64 {
	var sum int64
	for _, w := range d.weights {
		sum = integer.Add(sum, w)
	}
	return sum
}

// appendTo appends how many slots there are up to the oldest one with weight, the number of the newest slot, and their weights.
func (d *earlyWeight) appendTo(dst []byte) []byte {
	n := earlySlots
	for d.weights[n-1] == 0 {
		n--
	}
	dst = binary.AppendVarint(dst, int64(n))
	dst = binary.AppendVarint(dst, d.newest)
	for _, w := range d.weights[:n] {
		dst = binary.AppendVarint(dst, w)
	}
	return dst
}

// readEarly reads what appendTo wrote, and returns the numbers after it.
func readEarly(numbers []int64) (d *earlyWeight, rest []int64, err error) {
	if len(numbers) < 2 || numbers[0] < 1 || numbers[0] > min(earlySlots, int64(len(numbers)-2)) {
		return nil, nil, fmt.Errorf("%w: got %d numbers, want early weight", errRow, len(numbers))
	}
	end := 2 + int(numbers[0])
	d = &earlyWeight{newest: numbers[1]}
	copy(d.weights[:], numbers[2:end])
	if !d.valid() || numbers[end-1] == 0 {
		return nil, nil, fmt.Errorf("%w: got early weight %+v, want none below 0, and some in its first and last slot", errRow, d)
	}
	return d, numbers[end:], nil
}

// valid reports whether add can have made the early weight.
func (d *earlyWeight) valid() bool {
	for _, w := range d.weights {
		if w < 0 {
			return false
		}
	}
	return d.weights[0] > 0 && -maxEarlySlotNumber <= d.newest && d.newest <= maxEarlySlotNumber
}
