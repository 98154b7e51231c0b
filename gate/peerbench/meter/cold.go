package meter

import "time"

// Walker walks over memory, to put it into the processor's caches in the place of what was there.
type Walker struct {
	memory []uint64
	sum    uint64 // so that the walk is not optimized away
}

// NewWalker returns a Walker over so many bytes.
func NewWalker(bytes int) *Walker { return &Walker{memory: make([]uint64, bytes/8)} }

// Walk reads and writes one word in each cache line.
func (w *Walker) Walk() {
	for i := 0; i < len(w.memory); i += 8 {
		w.memory[i]++
		w.sum += w.memory[i]
	}
}

// Cold times each of n isolated calls of once, with a walk over other memory before each, and returns the mean of the
// middle half in nanoseconds, the reading of the clock included. before runs after the walk and is not timed: it puts into the caches
// what would be there. Reading the clock is a fence: no call overlaps what comes before or after it.
//
// This is wall time, because nobody gives processor time by the nanosecond. The middle half leaves out what was
// interrupted; its mean is finer than the clock, which on some machines ticks in steps of ten nanoseconds.
func (w *Walker) Cold(n int, before, once func(i int)) float64 {
	start := time.Now()
	took := make([]float64, n)
	for i := range n {
		w.Walk()
		before(i)
		from := time.Since(start)
		once(i)
		took[i] = float64(time.Since(start) - from)
	}
	return MiddleMean(took)
}
