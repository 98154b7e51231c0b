package board

import (
	"math"
	"sort"
)

// closure is what the table needs of a decision in force often. Its body has the rest.
type closure struct {
	until  int64  // when its last part is over; never for a hole
	number uint64 // by the order of arrival. A hole keeps it
	ref    uint32 // of its body
	endsAt uint32 // its index in ends
}

// never is the end of a decision that closes nothing. None is in force.
const never = math.MinInt64

// page holds closures in the order of their numbers, without gaps but with holes, where a closure was removed.
type page struct {
	closures [pageSize]closure
	id       uint32 // its index in table.pages
	used     int    // places, with holes
	held     int    // closures
}

const (
	pageSize = 1020    // with it a page fits into a size in which Go gives memory out, 24 KiB
	pageStep = 1 << 10 // from the slots of one page to those of the next
)

// slot returns the slot of a place.
func (p *page) slot(at int) uint32 { return p.id*pageStep + uint32(at) }

// first returns the number of its first place.
func (p *page) first() uint64 { return p.closures[0].number }

// behind returns the first place whose number is higher than number; used if there is none.
func (p *page) behind(number uint64) int {
	return sort.Search(p.used, func(i int) bool { return p.closures[i].number > number })
}
