package bouncer

import (
	"net/netip"
	"slices"
	"unique"

	"github.com/509da70d/floodgate/schemas/heap"
)

// none is no slot.
const none = int32(-1)

const pageSize = 256

// entry is what a view knows of an address. The zero value is a free one.
type entry struct {
	addr          [16]byte // as netip.Addr.As16
	until         int64    // of its closure; of its last closure, if it is open
	firstEnd      int64    // earlier ends of its closures that bouncers may hold: the first, and the last; 0: none
	lastEnd       int64
	nextCheck     int64  // when to look at it again
	firstClosedAt uint64 // number of the change that closed the address first; 0: none since the entry is in the table
	closedAt      uint64 // number of the change that closed it last
	version       uint64 // number of its newest change
	rule          unique.Handle[string]
	newer         int32 // the slot with the next higher version in its list; older is the slot before it
	older         int32
	due           int32 // its index in table.ends
	partition     int32
	closed        bool
	list          int8 // 1 + the index of its list in table.lists; 0: it is in no list
}

// Lists of a table.
const (
	opened = iota // addresses that are open again
	closed
)

// list is entries in the order of their versions.
type list struct{ oldest, newest int32 }

// table holds entries, and finds them by address, in the order of their versions, and by the time to look again. An entry keeps
// its slot until it is removed.
type table struct {
	pages  []*[pageSize]entry
	slots  map[[16]byte]int32
	free   []int32
	ends   heap.Heap[int32] // slots, by again
	lists  [2]list          // opened, closed
	closed int              // how many are closed
}

func newTable() *table {
	t := &table{}
	t.ends = heap.New(func(a, b *int32) bool { return t.at(*a).nextCheck < t.at(*b).nextCheck }, func(slot *int32, at int) { t.at(*slot).due = int32(at) })
	t.clear()
	return t
}

// clear frees all memory.
func (t *table) clear() {
	t.pages, t.free, t.closed = nil, nil, 0
	t.ends.Clear()
	t.slots, t.lists = map[[16]byte]int32{}, [2]list{{none, none}, {none, none}}
}

func (t *table) at(slot int32) *entry { return &t.pages[slot/pageSize][slot%pageSize] }

// end returns how many slots there are, free ones too.
func (t *table) end() int32 { return int32(len(t.pages)) * pageSize }

// find returns the slot of an address, or none.
func (t *table) find(addr netip.Addr) int32 {
	if slot, ok := t.slots[addr.As16()]; ok {
		return slot
	}
	return none
}

// insert adds an address that is not there, as one that is not closed.
func (t *table) insert(addr netip.Addr) int32 {
	if len(t.free) == 0 {
		first := t.end()
		t.pages = append(t.pages, new([pageSize]entry))
		for slot := t.end() - 1; slot >= first; slot-- {
			t.free = append(t.free, slot)
		}
	}
	slot := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	*t.at(slot) = entry{addr: addr.As16(), nextCheck: never, newer: none, older: none}
	t.slots[addr.As16()] = slot
	t.ends.Add(slot)
	return slot
}

// remove frees a slot. When the last one is free, the table gives back its memory.
func (t *table) remove(slot int32) {
	e := t.at(slot)
	t.unlink(slot)
	t.ends.Remove(int(e.due))
	delete(t.slots, e.addr)
	if e.closed {
		t.closed--
	}
	*e = entry{}
	t.free = append(t.free, slot)
	if len(t.slots) == 0 {
		t.clear()
	}
}

// wake sets when to look at an entry again.
func (t *table) wake(slot int32, nextCheck int64) {
	if e := t.at(slot); e.nextCheck != nextCheck {
		e.nextCheck = nextCheck
		t.ends.Fix(int(e.due))
	}
}

// touch gives an entry a version that is higher than all others, and moves it to the end of its list: opened or closed.
func (t *table) touch(slot int32, version uint64) {
	t.unlink(slot)
	e := t.at(slot)
	of := opened
	if e.closed {
		of = closed
	}
	l := &t.lists[of]
	e.list, e.version, e.older = int8(of+1), version, l.newest
	if l.newest != none {
		t.at(l.newest).newer = slot
	} else {
		l.oldest = slot
	}
	l.newest = slot
}

// unlink takes an entry out of its list, if it is in one.
func (t *table) unlink(slot int32) {
	e := t.at(slot)
	if e.list == 0 {
		return
	}
	l := &t.lists[e.list-1]
	if e.older != none {
		t.at(e.older).newer = e.newer
	} else {
		l.oldest = e.newer
	}
	if e.newer != none {
		t.at(e.newer).older = e.older
	} else {
		l.newest = e.older
	}
	e.list, e.newer, e.older = 0, none, none
}

// since appends the slots of a list whose version is behind a number, in their order.
func (t *table) since(of int, version uint64, slots []int32) []int32 {
	from := len(slots)
	for slot := t.lists[of].newest; slot != none && t.at(slot).version > version; slot = t.at(slot).older {
		slots = append(slots, slot)
	}
	slices.Reverse(slots[from:])
	return slots
}

// used reports whether a slot is in use.
func (t *table) used(slot int32) bool {
	due := int(t.at(slot).due)
	return due < t.ends.Len() && *t.ends.At(due) == slot
}

// first returns the slot to look at first, and when.
func (t *table) first() (slot int32, at int64) {
	if t.ends.Len() == 0 {
		return none, never
	}
	slot = *t.ends.At(0)
	return slot, t.at(slot).nextCheck
}

// address returns the address of an entry.
func (e *entry) address() netip.Addr { return netip.AddrFrom16(e.addr).Unmap() }
