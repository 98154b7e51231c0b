package gate

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// table maps callers to closed callers. One writer changes it in place while any number of readers look callers up. It
// does not grow: the writer builds a larger table and swaps the two.
//
// A caller's hash picks a group of eight slots. A search goes on to the next group for as long as a group has no empty slot.
// Each slot has a one-byte mark: empty, deleted, or seven bits of the hash. So one word tells which of eight slots may hold
// the caller (as in Abseil's Swiss tables). A slot that was in use is never marked empty again: a reader that is searching
// at that moment would stop too early. A reader that finds another caller compares the keys and goes on.
//
// The writer stores the ref, then the mark, then the filter. Readers load them in the opposite order.
type table struct {
	filter []atomic.Uint64 // of live and of deleted callers
	groups []group
	arena  arena

	watchful bool // readers must also check whether decisions are stale

	// Only the writer reads and writes the fields below.
	live    int // slots in use
	deleted int // callers deleted since the table was made: their filter bits remain
	tombs   int // slots marked deleted
	garbage int // bytes of the arena whose callers were replaced or deleted
}

// group is eight slots. Marks and refs lie together because a reader that finds a mark needs the ref next.
type group struct {
	marks atomic.Uint64             // one byte for each slot
	refs  [groupSlots]atomic.Uint32 // where the slot's caller is in the arena
}

const (
	markEmpty   = 0
	markDeleted = 1
	markLive    = 0x80 // and seven bits of the hash

	groupSlots = 8
	groupBytes = 8 + 4*groupSlots
	groupWords = 2 // of the filter, for 16 bits a slot
	lows       = 0x0101010101010101
	highs      = 0x8080808080808080
)

// newTable returns a table with room for n callers: at most 7/8 of the slots are ever in use.
func newTable(n int) *table {
	groups := 2 + n/(groupSlots-1)
	return &table{filter: make([]atomic.Uint64, groups*groupWords), groups: make([]group, groups)}
}

// slots returns how many slots there are.
func (t *table) slots() int { return len(t.groups) * groupSlots }

// full reports whether an insert would leave less than an eighth of the slots empty.
func (t *table) full() bool { return t.live+t.tombs+1 > len(t.groups)*(groupSlots-1) }

// The bits of a hash are used as follows. The high half, scaled to the number of groups, is the first group of a search,
// and its low bits are the mark. The low half, scaled to the number of words, is the word of the filter, and bits of the
// high half are the bits in that word. Scaling by multiplication (Lemire, "Fast random integer generation in an interval",
// 2019) allows tables of any size, so that a table that has grown wastes less.

// mayHold reports whether a caller with this hash can be in the table. It costs one load. For some 0.5 % of the callers
// that are not in the table it returns true.
func (t *table) mayHold(hash uint64) bool {
	want := filterBits(hash)
	return t.filter[hash&math.MaxUint32*uint64(len(t.filter))>>32].Load()&want == want
}

// filterBits are four of the 64 bits of a filter word.
func filterBits(hash uint64) uint64 {
	return 1<<(hash>>58) | 1<<(hash>>52&63) | 1<<(hash>>46&63) | 1<<(hash>>40&63)
}

func (t *table) home(hash uint64) int { return int(hash >> 32 * uint64(len(t.groups)) >> 32) }

func mark(hash uint64) uint64 { return hash>>32&0x7f | markLive }

// find returns the closed caller with this key, or nil.
func (t *table) find(hash uint64, tag uint32, key string) *closedCaller {
	at, head := t.home(hash), tagAndLen(tag, key)
	for range t.groups {
		g := &t.groups[at]
		word := g.marks.Load()
		for m := matches(word, mark(hash)); m != 0; m &= m - 1 {
			if cc := t.callerAt(g, m); cc.belongsTo(head, key) {
				return cc
			}
		}
		if matches(word, markEmpty) != 0 {
			return nil
		}
		if at++; at == len(t.groups) {
			at = 0
		}
	}
	return nil
}

// callerAt returns the closed caller in the first slot of a group among matches.
func (t *table) callerAt(g *group, matches uint64) *closedCaller {
	return t.arena.caller(g.refs[bits.TrailingZeros64(matches)/8%groupSlots].Load())
}

// closedFast reports whether the first slot that has the caller's mark holds the caller, and closes it by the coarse clock.
// That slot nearly always is the caller's. If it returns false, the caller may still be closed: find and judge tell. It
// joins them in one short function for the requests of a flood.
func (t *table) closedFast(s *Set, hash uint64, head uint32, key string) bool {
	g := &t.groups[t.home(hash)]
	m := matches(g.marks.Load(), mark(hash))
	if m == 0 {
		return false
	}
	cc := t.callerAt(g, m)
	return cc.tagAndLen == head && s.inForceFast(cc) && cc.hasKey(key)
}

// slot returns the slot of a caller that the table holds.
func (t *table) slot(hash uint64, cc *closedCaller) int {
	at := t.home(hash)
	for {
		g := &t.groups[at]
		for m := matches(g.marks.Load(), mark(hash)); m != 0; m &= m - 1 {
			i := bits.TrailingZeros64(m) / 8
			if t.arena.caller(g.refs[i].Load()) == cc {
				return at*groupSlots + i
			}
		}
		if at++; at == len(t.groups) {
			at = 0
		}
	}
}

// matches returns the high bit of each byte of word that equals b. The lowest bit that it returns is right. A byte above it
// that differs from b in the lowest bit may be reported too ("Hacker's Delight", 6-1). So use the lowest bit only, or
// compare further.
func matches(word, b uint64) uint64 {
	x := word ^ b*lows
	return (x - lows) &^ x & highs
}

// insert adds a caller that the table does not hold. The table must not be full.
func (t *table) insert(hash uint64, ref uint32) {
	for at := t.home(hash); ; at++ {
		if at == len(t.groups) {
			at = 0
		}
		g := &t.groups[at]
		word := g.marks.Load()
		m := matches(word, markDeleted)
		if m != 0 {
			t.tombs--
		} else {
			m = matches(word, markEmpty)
		}
		if m != 0 {
			shift := bits.TrailingZeros64(m) &^ 7
			g.refs[shift/8].Store(ref)
			g.marks.Store(word&^(0xff<<shift) | mark(hash)<<shift)
			break
		}
	}
	f := &t.filter[hash&math.MaxUint32*uint64(len(t.filter))>>32]
	f.Store(f.Load() | filterBits(hash))
	t.live++
}

// remove deletes the caller in slot i.
func (t *table) remove(i int) {
	t.garbage += t.caller(i).size()
	shift := i % groupSlots * 8
	w := &t.groups[i/groupSlots].marks
	w.Store(w.Load()&^(0xff<<shift) | markDeleted<<shift)
	t.live--
	t.deleted++
	t.tombs++
}

// replace gives slot i another ref for the same caller.
func (t *table) replace(i int, ref uint32) {
	t.garbage += t.caller(i).size()
	t.groups[i/groupSlots].refs[i%groupSlots].Store(ref)
}

// caller returns the closed caller in slot i, which is in use.
func (t *table) caller(i int) *closedCaller {
	return t.arena.caller(t.groups[i/groupSlots].refs[i%groupSlots].Load())
}

// used reports whether slot i holds a caller.
func (t *table) used(i int) bool { return t.mark(i)&markLive != 0 }

func (t *table) mark(i int) uint64 {
	return t.groups[i/groupSlots].marks.Load() >> (i % groupSlots * 8) & 0xff
}

// bytes returns the memory of the table.
func (t *table) bytes() int { return len(t.filter)*8 + len(t.groups)*groupBytes + t.arena.size() }
