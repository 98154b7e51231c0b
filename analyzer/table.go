package analyzer

import (
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/window"
)

// row is what is kept of one rule and caller: 128 bytes, two lines of cache.
type row struct {
	hash    uint64 // of rule and caller; see rowHash
	id      string
	rule    int32    // index into the fold's rules; -1 while the row is free
	dirty   bool     // changed since it was last handed to a checkpoint
	words   [4]int64 // where most states live
	state   window.State
	closure policy.Closure
	stored  uint64 // store.Sum of the row as last committed; 0 if it never was
}

// set makes the state a copy of s. States of four integers need no memory beside the row.
func (r *row) set(s window.State) { r.state = append(window.State(r.words[:0]), s...) }

// pageRows is how many rows are allocated at a time. Rows never move, so that their indexes stay good.
const pageRows = 1024

// table finds the row of a rule and caller: open addressing with linear probing over the row's hash, and the full id
// compared on a match. The hash is keyed, so that nobody can choose ids that collide. The zero value is empty.
// One goroutine may use a table.
type table struct {
	slots []slot // a power of two of them; at most 3/4 used
	pages [][]row
	free  []uint32 // rows that were removed
	used  int      // rows in use
	next  uint32   // rows ever allocated
}

// slot is one place of the index: part of a hash, and a row's index + 1 (0 is an empty slot).
type slot struct {
	hash uint32
	row  uint32
}

// rowHash mixes the rule into the keyed hash of the caller; one caller has a row for each rule that counts it.
func rowHash(caller uint64, rule int32) uint64 {
	h := (caller ^ uint64(rule)*0x9e3779b97f4a7c15) * 0xd6e8feb86659fd93 // rule ≥ 0
	return h ^ h>>32
}

// row returns the row at index i, which is in use.
func (t *table) row(i uint32) *row { return &t.pages[i/pageRows][i%pageRows] }

// find returns the index of the row of rule and id, or false.
func (t *table) find(hash uint64, rule int32, id string) (uint32, bool) {
	if t.used == 0 {
		return 0, false
	}
	mask := uint32(len(t.slots) - 1) // capped far below 2^32
	tag := uint32(hash >> 32)        // the upper half
	for i := uint32(hash) & mask; t.slots[i].row != 0; i = (i + 1) & mask {
		if t.slots[i].hash != tag {
			continue
		}
		r := t.row(t.slots[i].row - 1)
		if r.hash == hash && r.rule == rule && r.id == id {
			return t.slots[i].row - 1, true
		}
	}
	return 0, false
}

// insert adds a row that find did not find, and returns its index.
func (t *table) insert(hash uint64, rule int32, id string) uint32 {
	if (t.used+1)*4 > len(t.slots)*3 {
		t.grow()
	}
	var i uint32
	if n := len(t.free); n > 0 {
		i, t.free = t.free[n-1], t.free[:n-1]
	} else {
		i = t.next
		t.next++
		if i%pageRows == 0 {
			t.pages = append(t.pages, make([]row, pageRows))
		}
	}
	r := t.row(i)
	*r = row{hash: hash, rule: rule, id: id}
	r.set(nil)
	t.used++
	t.link(hash, i)
	return i
}

func (t *table) link(hash uint64, row uint32) {
	mask := uint32(len(t.slots) - 1) // capped far below 2^32
	i := uint32(hash) & mask         // the lower half
	for t.slots[i].row != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = slot{hash: uint32(hash >> 32), row: row + 1} // the upper half
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]slot, max(64, 2*len(old)))
	for _, s := range old {
		if s.row != 0 {
			t.link(t.row(s.row-1).hash, s.row-1)
		}
	}
}

// remove frees the row at index i. Slots behind it move up, so that no probe ends early (Knuth, vol. 3, 6.4,
// algorithm R).
func (t *table) remove(i uint32) {
	mask := uint32(len(t.slots) - 1) // capped far below 2^32
	at := uint32(t.row(i).hash) & mask
	for t.slots[at].row != i+1 {
		at = (at + 1) & mask
	}
	for j := (at + 1) & mask; t.slots[j].row != 0; j = (j + 1) & mask {
		home := uint32(t.row(t.slots[j].row-1).hash) & mask // the lower half
		if (j-home)&mask >= (j-at)&mask {
			t.slots[at] = t.slots[j]
			at = j
		}
	}
	t.slots[at] = slot{}
	*t.row(i) = row{rule: -1}
	t.free = append(t.free, i)
	t.used--
}

// each calls f with every row in use, in no meaningful order, until it returns false. f may remove the row it is given.
func (t *table) each(f func(i uint32, r *row) bool) {
	for i := range t.next {
		if r := t.row(i); r.rule >= 0 && !f(i, r) {
			return
		}
	}
}
