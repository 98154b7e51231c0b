package merge

import (
	"math"

	"github.com/509da70d/floodgate/schemas"
)

// hold is what an entry says of the limit that its requests hold while they run: schemas.Entry.Arrived and Declared. Both are sums
// over the entry's requests.
type hold struct{ arrived, declared int64 }

// NewHolding is New for a table that also keeps Arrived and Declared, in 16 more bytes an entry. It merges responses only if their
// requests arrived in the same second, and no entry that has Arrived or Declared with one that has not.
func NewHolding(size int) *Table {
	t := New(size)
	t.holds = make([]hold, 0, cap(t.entries))
	return t
}

// holdFlags returns which sums an entry has, as flags of its shape.
func holdFlags(e *schemas.Entry) (s shape) {
	if e.Arrived != 0 {
		s |= flagArrived
	}
	if e.Declared != 0 {
		s |= flagDeclared
	}
	return s
}

// ticksPerSecond is how many ticks there are in a second.
const ticksPerSecond = 1_000_000_000 / schemas.MergeTick

// ArrivedIn returns the second since 1970 in which count requests arrived whose arrival ticks have this sum. All arrived in the same
// second, so the mean of their ticks lies in it. count is 1 or more.
func ArrivedIn(arrived int64, count uint32) (second int64) {
	return arrived / int64(count) / ticksPerSecond
}

// sameSecond reports whether the requests of e arrived in the same second as those of entry i. Both say when, or neither does.
func (t *Table) sameSecond(i int, e *schemas.Entry) bool {
	return e.Arrived == 0 || ArrivedIn(e.Arrived, e.Count) == ArrivedIn(t.holds[i].arrived, t.entries[i].count)
}

// fits reports whether the sums have room for e.
func (h *hold) fits(e *schemas.Entry) bool {
	return h.arrived <= math.MaxInt64-e.Arrived && h.declared <= math.MaxInt64-e.Declared
}

// hasMoreRoom reports whether h has more room than other in the sum that is too large for both.
func (h *hold) hasMoreRoom(other *hold) bool {
	if h.arrived > math.MaxInt64-other.arrived {
		return h.arrived < other.arrived
	}
	return h.declared < other.declared
}
