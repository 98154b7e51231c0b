package merge

import "math"

// place puts entry i into the index at the place that find returned. An equal entry may be there, whose sums have no room
// for entry i. Then the one with more room stays at the place, so that the next request is merged into it, and the other one
// gets another hash and place. Otherwise a caller with large counts would fill one part of the index with equal hashes, and
// each of its requests would step over all of them.
func (t *Table) place(i, at int) {
	if old := int(t.index[at]) - 1; old >= 0 {
		if t.hasMoreRoom(i, old) {
			t.index[at] = uint32(i + 1)
			i = old
		}
		at = t.rehash(i)
	}
	t.index[at] = uint32(i + 1)
}

// hasMoreRoom reports whether entry i has more room than another one in the sum that is too large for both.
func (t *Table) hasMoreRoom(i, other int) bool {
	s, o := &t.entries[i], &t.entries[other]
	switch {
	case s.count+o.count < s.count: // it wraps around
		return s.count < o.count
	case t.holds == nil || s.cost > math.MaxInt64-o.cost:
		return s.cost < o.cost
	}
	return t.holds[i].hasMoreRoom(&t.holds[other])
}

// rehash gives entry i another hash, which is as hard to guess as the one before, and returns an empty place for it.
func (t *Table) rehash(i int) (at int) {
	s := &t.entries[i]
	s.hash += uint64(i+1) * odd
	s.hash = (s.hash ^ s.hash>>32) * odd
	s.hash ^= s.hash >> 29
	mask := len(t.index) - 1
	for at = t.home(i); t.index[at] != 0; at = (at + 1) & mask {
	}
	return at
}

// odd is 2^64 divided by the golden ratio.
const odd = 0x9e3779b97f4a7c15
