package board

import (
	"cmp"
	"slices"
	"unique"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/heap"
)

// table holds closures, and finds them by caller, by the order of their arrival, and by their ends. A closure stays in its slot
// until it is removed, or the table is rebuilt.
type table struct {
	pages   []*[pageSize]closure
	free    int32 // the first slot of the free list
	callers map[caller]int32
	order   []place          // by number
	holes   int              // places in order whose closure was removed
	ends    heap.Heap[int32] // slots, by until
	arrived uint64           // the number of the newest closure
}

const pageSize = 256

// place is where the closure of a number is.
type place struct {
	number uint64
	slot   int32
}

func newTable(arrived uint64) *table {
	t := &table{free: noSlot, callers: map[caller]int32{}, arrived: arrived}
	t.ends = heap.New(t.endsBefore, func(slot *int32, at int) { t.at(*slot).endsAt = int32(at) }) // MaxClosures is below
	return t
}

// endsBefore reports whether the closure in slot a ends before that in slot b. Of equal ends, the one that arrived first comes first.
func (t *table) endsBefore(a, b *int32) bool {
	x, y := t.at(*a), t.at(*b)
	return cmp.Or(cmp.Compare(x.until(), y.until()), cmp.Compare(x.number, y.number)) < 0
}

func (t *table) at(slot int32) *closure { return &t.pages[slot/pageSize][slot%pageSize] }

// len returns how many closures there are.
func (t *table) len() int { return t.ends.Len() }

// find returns the slot of a closure, or noSlot.
func (t *table) find(of caller, rule unique.Handle[string]) int32 {
	for slot := t.first(of); slot != noSlot; slot = t.at(slot).sibling {
		if t.at(slot).rule == rule {
			return slot
		}
	}
	return noSlot
}

// first returns the slot of the first closure of a caller; the others are its siblings.
func (t *table) first(of caller) int32 {
	if slot, ok := t.callers[of]; ok {
		return slot
	}
	return noSlot
}

// insert adds a closure that is not there.
func (t *table) insert(of caller, rule unique.Handle[string], d *schemas.Decision) {
	t.arrived++
	sibling := t.first(of)
	if sibling == noSlot {
		of = of.own()
	} else {
		of = t.at(sibling).caller
	}
	slot := t.alloc()
	c := t.at(slot)
	*c = closure{caller: of, rule: rule, number: t.arrived, sibling: sibling}
	c.set(d)
	t.callers[of] = slot
	t.order = append(t.order, place{t.arrived, slot})
	t.ends.Add(slot)
}

// alloc returns a free slot.
func (t *table) alloc() int32 {
	if t.free == noSlot {
		first := int32(len(t.pages)) * pageSize // MaxClosures is below
		t.pages = append(t.pages, new([pageSize]closure))
		for slot := first + pageSize - 1; slot >= first; slot-- {
			t.at(slot).sibling = t.free
			t.free = slot
		}
	}
	slot := t.free
	t.free = t.at(slot).sibling
	return slot
}

// update makes a closure hold another decision.
func (t *table) update(slot int32, d *schemas.Decision) {
	c := t.at(slot)
	c.set(d)
	t.ends.Fix(int(c.endsAt))
}

// remove removes a closure.
func (t *table) remove(slot int32) {
	c := t.at(slot)
	t.unlink(slot)
	t.ends.Remove(int(c.endsAt))
	if i, found := t.search(c.number); found {
		t.order[i].slot = noSlot
		t.holes++
	}
	*c = closure{sibling: t.free}
	t.free = slot
	if t.holes > 1024+len(t.order)/2 {
		t.order = slices.DeleteFunc(t.order, func(p place) bool { return p.slot == noSlot })
		t.holes = 0
	}
	if len(t.pages) > 16 && t.len() < len(t.pages)*pageSize/4 {
		t.rebuild()
	}
}

// unlink takes a closure from the list of its caller.
func (t *table) unlink(slot int32) {
	c := t.at(slot)
	first := t.first(c.caller)
	switch {
	case first != slot:
		for t.at(first).sibling != slot {
			first = t.at(first).sibling
		}
		t.at(first).sibling = c.sibling
	case c.sibling != noSlot:
		t.callers[c.caller] = c.sibling
	default:
		delete(t.callers, c.caller)
	}
}

// rebuild moves all closures to new pages and maps. This frees the memory that was needed when there were many more closures.
func (t *table) rebuild() {
	old := *t
	t.pages, t.free, t.callers, t.order, t.holes = nil, noSlot, map[caller]int32{}, nil, 0
	t.ends.Clear()
	for _, p := range old.order {
		if p.slot == noSlot {
			continue
		}
		slot := t.alloc()
		c := t.at(slot)
		*c = *old.at(p.slot)
		c.sibling = t.first(c.caller)
		t.callers[c.caller] = slot
		t.order = append(t.order, place{c.number, slot})
		t.ends.Add(slot)
	}
}

// search returns the index of a number in order, or where it would be.
func (t *table) search(number uint64) (int, bool) {
	return slices.BinarySearchFunc(t.order, number, func(p place, n uint64) int { return cmp.Compare(p.number, n) })
}

// visitFrom calls each for the closures whose numbers are higher than number, in the order of their numbers. It stops when each returns
// false, or when it has looked at the given number of places. It returns the number to continue from, and whether there may be more.
func (t *table) visitFrom(number uint64, maxVisits int, each func(*closure) bool) (last uint64, more bool) {
	i, found := t.search(number)
	if found {
		i++
	}
	for ; i < len(t.order); i++ {
		if maxVisits--; maxVisits < 0 {
			return number, true
		}
		number = t.order[i].number
		if slot := t.order[i].slot; slot != noSlot && !each(t.at(slot)) {
			return number, true
		}
	}
	return number, false
}

// firstEnd returns the slot of the closure that ends first, and whether there is one.
func (t *table) firstEnd() (int32, bool) {
	if t.len() == 0 {
		return noSlot, false
	}
	return *t.ends.At(0), true
}
