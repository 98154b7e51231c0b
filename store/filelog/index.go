package filelog

import (
	"cmp"
	"slices"
)

// indexEvery is how many bytes lie between two entries of an index, at least.
const indexEvery = 32 << 10

// entry says at which byte the batch begins whose first record has an offset.
type entry struct{ offset, at int64 }

// index is where some batches of a segment begin, in order. It may have gaps: an entry is only where a search begins.
type index []entry

// note adds an entry, unless there is one nearby or the segment's start is.
func (x *index) note(e entry) {
	i, _ := slices.BinarySearchFunc(*x, e, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	before := int64(0)
	if i > 0 {
		before = (*x)[i-1].at
	}
	if e.at-before >= indexEvery && (i == len(*x) || (*x)[i].at-e.at >= indexEvery) {
		*x = slices.Insert(*x, i, e)
	}
}

// before returns the last entry at or before an offset, or start.
func (x index) before(offset int64, start entry) entry {
	i, found := slices.BinarySearchFunc(x, offset, func(e entry, o int64) int { return cmp.Compare(e.offset, o) })
	switch {
	case found:
		return x[i]
	case i == 0:
		return start
	}
	return x[i-1]
}
