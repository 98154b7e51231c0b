package merge

// place puts entry i into the index at the place that find returned. An equal entry may be there, whose sums have no room
// for entry i. Then the one with more room stays at the place, so that the next request is merged into it, and the other one
// gets another hash and place. Otherwise a caller with large counts would fill one part of the index with equal hashes, and
// each of its requests would step over all of them.
func (t *Table) place(i, at int) {
	if old := int(t.index[at]) - 1; old >= 0 {
		if t.entries[i].hasMoreRoom(&t.entries[old]) {
			t.index[at] = uint32(i + 1)
			i = old
		}
		at = t.rehash(i)
	}
	t.index[at] = uint32(i + 1)
}

// hasMoreRoom reports whether s has more room than other in the sum that is too large for both.
func (s *entry) hasMoreRoom(other *entry) bool {
	if s.count+other.count < s.count { // it wraps around
		return s.count < other.count
	}
	return s.cost < other.cost
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
