package gate

import (
	"sync/atomic"
	"time"
)

// maxShares is how many callers can have shares at the same time, counted once for each rule that gives them one.
const maxShares = 16_384

// cell is what a gate counts for one caller that has a share of one rule: the permits that are spent in this period, and the
// caller's demand by sub-period. Readers change it by atomic operations. It outlives tables and the shares of one caller that
// follow on each other, so that a renewed share finds the demand of the time before it.
//
// Demand is what the recorder records for the caller: its admitted requests, and those that its own gate refused.
type cell struct {
	spent   atomic.Uint64             // low half: permits spent; high half: in which period, by periodTag
	demand  [subPeriods]atomic.Uint64 // low half: requests; high half: in which sub-period, by its number
	length  atomic.Int64              // of a sub-period, in nanoseconds
	inverse atomic.Uint64             // of length
	since   atomic.Int64              // Unix nanoseconds: demand is measured from here on
	_       [4]uint64
}

const (
	subPeriods     = 8                                // how many a cell remembers
	measuredIn     = 4                                // sub-periods of the time in which a share's demand is measured
	subPeriodTicks = int64(10 * time.Millisecond)     // a sub-period is a whole number of these
	maxStepBack    = int64(time.Second / periodTicks) // a clock that steps back by more begins a period anew
	periodTicks    = time.Millisecond
)

// subPeriod returns the length of the sub-periods by which demand is measured that a share says in so many nanoseconds.
func subPeriod(measured int64) int64 {
	const unit = measuredIn * subPeriodTicks
	return (1 + (measured-1)/unit) * subPeriodTicks
}

// reset makes the cell begin at the time now, with sub-periods of a length. While it runs, a reader may count a request too
// many or too few.
func (c *cell) reset(length, now int64) {
	c.length.Store(length)
	c.inverse.Store(inverse(length))
	c.since.Store(now)
	for i := range c.demand {
		c.demand[i].Store(0)
	}
}

// count adds one request to the demand.
func (c *cell) count(now int64) {
	number := quotient(now, c.length.Load(), c.inverse.Load())
	w := &c.demand[number%subPeriods]
	for {
		old := w.Load()
		if old>>32 == number&(1<<32-1) {
			w.Add(1)
			return
		}
		if w.CompareAndSwap(old, number<<32|1) {
			return
		}
	}
}

// measured returns the demand in [from, until) by whole sub-periods, and whether the cell has all of it.
func (c *cell) measured(from, until, now int64) (demand int64, ok bool) {
	length := c.length.Load()
	first, end := (from+length-1)/length, until/length
	if from < c.since.Load() || first <= now/length-subPeriods || end > now/length {
		return 0, false
	}
	for number := first; number < end; number++ {
		if w := c.demand[number%subPeriods].Load(); w>>32 == uint64(number)&(1<<32-1) {
			demand += int64(w & (1<<32 - 1))
		}
	}
	return demand, true
}

// periodTag names the period that begins at a time.
func periodTag(start int64) uint32 { return uint32(start / int64(periodTicks)) }

// spend takes one of the permits of a period, and reports whether there was one. A goroutine may come late, when others are in
// the next period already: it takes one of that period's, so that no period is begun twice. length is that of a period, in
// nanoseconds.
func (c *cell) spend(tag uint32, length int64, permits uint32) bool {
	for {
		old := c.spent.Load()
		period, spent := uint32(old>>32), uint32(old)
		if period != tag {
			if ahead := period - tag; old != 0 && int64(ahead) <= max(maxStepBack, length/int64(periodTicks)) {
				tag = period
			} else {
				spent = 0
			}
		}
		if spent >= permits {
			return false
		}
		if c.spent.CompareAndSwap(old, uint64(tag)<<32|uint64(spent+1)) {
			return true
		}
	}
}

// giveBack returns a permit that spend took, if its period, or the one after it, is still the newest.
func (c *cell) giveBack() {
	for {
		old := c.spent.Load()
		if uint32(old) == 0 || c.spent.CompareAndSwap(old, old-1) {
			return
		}
	}
}

// cells are the cells of a Set. A reader may hold a table that points to a cell which is free by now, for as long as one
// request takes. So a cell is given to another caller only when it has been free for reuseAfter.
type cells struct {
	chunks [maxShares / cellsPerChunk]atomic.Pointer[[cellsPerChunk]cell]

	// Only the writer reads and writes the fields below.
	made  uint32     // cells that were ever in use
	freed []freeCell // the oldest first
}

type freeCell struct {
	index uint32
	since int64 // Unix nanoseconds
}

const (
	cellsPerChunk = 256
	reuseAfter    = int64(10 * time.Second)
)

// at returns a cell that was allocated.
func (cs *cells) at(index uint32) *cell {
	return &cs.chunks[index/cellsPerChunk%(maxShares/cellsPerChunk)].Load()[index%cellsPerChunk]
}

// alloc returns a cell that begins at the time now, and whether there is one.
func (cs *cells) alloc(length, now int64) (index uint32, ok bool) {
	switch {
	case len(cs.freed) > 0 && (now-cs.freed[0].since >= reuseAfter || now < cs.freed[0].since):
		index = cs.freed[0].index
		cs.freed = cs.freed[1:]
	case cs.made < maxShares:
		index = cs.made
		if index%cellsPerChunk == 0 {
			cs.chunks[index/cellsPerChunk].Store(new([cellsPerChunk]cell))
		}
		cs.made++
	default:
		return 0, false
	}
	c := cs.at(index)
	c.spent.Store(0)
	c.reset(length, now)
	return index, true
}

func (cs *cells) free(index uint32, now int64) {
	cs.freed = append(cs.freed, freeCell{index: index, since: now})
}

// inUse returns how many cells have a caller.
func (cs *cells) inUse() int { return int(cs.made) - len(cs.freed) }

// bytes returns the memory of the cells.
func (cs *cells) bytes() int {
	return (int(cs.made) + cellsPerChunk - 1) / cellsPerChunk * cellsPerChunk * cellSize
}

const cellSize = 128
