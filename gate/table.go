package gate

import (
	"math/bits"
	"sync/atomic"
)

// table maps callers to records. One writer changes it in place while any number of readers look callers up; it does
// not grow: the writer builds another one and swaps.
//
// A caller's hash picks a group of eight slots; further groups follow in triangular steps. Each slot has a one-byte
// mark: empty, deleted, or seven bits of the hash, so that one word tells which of eight slots are worth a look (after
// Abseil's Swiss tables). A slot that was in use is reused only by the mark deleted, so that readers under way never
// stop too early; one that finds another caller's record in it compares the ids and goes on.
//
// The writer stores the ref, then the mark, then the filter; readers load them in the opposite order.
type table struct {
	filter []atomic.Uint64 // of live and of deleted callers
	marks  []atomic.Uint64 // 8 slots each
	refs   []atomic.Uint32 // where the slot's record is in the arena
	arena  arena

	// The writer's own.
	live    int // slots in use
	deleted int // callers deleted since the table was made: their filter bits remain
	tombs   int // slots marked deleted
	garbage int // bytes of records replaced or deleted
}

const (
	markEmpty   = 0
	markDeleted = 1
	markLive    = 0x80 // and seven bits of the hash

	groupSlots = 8
	minSlots   = 16
	lows       = 0x0101010101010101
	highs      = 0x8080808080808080

	filterWordSlots = 4 // at 16 bits a slot
)

// newTable returns a table with room for n callers: at most 7/8 of the slots are ever in use.
func newTable(n int) *table {
	slots := minSlots
	for slots/8*7 < n {
		slots *= 2
	}
	return &table{
		filter: make([]atomic.Uint64, slots/filterWordSlots),
		marks:  make([]atomic.Uint64, slots/groupSlots),
		refs:   make([]atomic.Uint32, slots),
	}
}

// full reports whether an insert would leave less than an eighth of the slots empty.
func (t *table) full() bool { return t.live+t.tombs+1 > len(t.refs)/8*7 }

// mayHold reports whether a caller with this hash can be in the table. One load; wrong, with yes, for some 0.5 % of
// callers that are not.
func (t *table) mayHold(hash uint64) bool {
	return t.filter[hash>>32&uint64(len(t.filter)-1)].Load()&filterBits(hash) == filterBits(hash)
}

// filterBits are four of the 64 bits of a filter word.
func filterBits(hash uint64) uint64 {
	return 1<<(hash&63) | 1<<(hash>>6&63) | 1<<(hash>>12&63) | 1<<(hash>>18&63)
}

func mark(hash uint64) uint64 { return hash>>57 | markLive }

// find returns the caller's record, or nil.
func (t *table) find(hash uint64, gate uint8, id string) record {
	_, r := t.slot(hash, gate, id)
	return r
}

// slot returns where the caller's record is and the record, or nil.
func (t *table) slot(hash uint64, gate uint8, id string) (int, record) {
	mask := len(t.marks) - 1
	group := int(hash) & mask //nolint:gosec // masked
	for step := 1; step <= len(t.marks); step++ {
		word := t.marks[group].Load()
		for m := matches(word, mark(hash)); m != 0; m &= m - 1 {
			i := group*groupSlots + bits.TrailingZeros64(m)/8
			if r := record(t.arena.bytes(t.refs[i].Load())); r.is(gate, id) {
				return i, r
			}
		}
		if matches(word, markEmpty) != 0 {
			return 0, nil
		}
		group = (group + step) & mask
	}
	return 0, nil
}

// matches returns the high bit of each byte of word that equals b. Above a byte that does, one that differs by the
// lowest bit may be reported too ("Hacker's Delight", 6-1): a caller that must know looks at the lowest one only, or
// looks closer.
func matches(word, b uint64) uint64 {
	x := word ^ b*lows
	return (x - lows) &^ x & highs
}

// insert adds a caller that the table does not hold. The table must not be full.
func (t *table) insert(hash uint64, ref uint32) {
	mask := len(t.marks) - 1
	group := int(hash) & mask //nolint:gosec // masked
	for step := 1; ; step++ {
		word := t.marks[group].Load()
		m := matches(word, markDeleted)
		if m != 0 {
			t.tombs--
		} else {
			m = matches(word, markEmpty)
		}
		if m != 0 {
			shift := bits.TrailingZeros64(m) &^ 7
			t.refs[group*groupSlots+shift/8].Store(ref)
			t.marks[group].Store(word&^(0xff<<shift) | mark(hash)<<shift)
			break
		}
		group = (group + step) & mask
	}
	f := &t.filter[hash>>32&uint64(len(t.filter)-1)]
	f.Store(f.Load() | filterBits(hash))
	t.live++
}

// remove deletes the caller in slot i.
func (t *table) remove(i int) {
	t.garbage += t.record(i).size()
	shift := i % groupSlots * 8
	w := &t.marks[i/groupSlots]
	w.Store(w.Load()&^(0xff<<shift) | markDeleted<<shift)
	t.live--
	t.deleted++
	t.tombs++
}

// replace gives slot i another record of the same caller.
func (t *table) replace(i int, ref uint32) {
	t.garbage += t.record(i).size()
	t.refs[i].Store(ref)
}

// record returns the record in slot i, which is in use.
func (t *table) record(i int) record { return record(t.arena.bytes(t.refs[i].Load())) }

// used reports whether slot i holds a caller.
func (t *table) used(i int) bool { return t.marks[i/groupSlots].Load()>>(i%groupSlots*8)&markLive != 0 }

// bytes returns the memory of the table.
func (t *table) bytes() int { return len(t.filter)*8 + len(t.marks)*8 + len(t.refs)*4 + t.arena.size() }
