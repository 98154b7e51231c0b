package meter

import "time"

// Walker walks over memory, so that this memory displaces other data from the processor's caches.
type Walker struct {
	memory []uint64
	sum    uint64 // so that the walk is not optimized away
}

// NewWalker returns a Walker over the given number of bytes.
func NewWalker(bytes int) *Walker { return &Walker{memory: make([]uint64, bytes/8)} }

// Walk reads and writes one word in each cache line.
func (w *Walker) Walk() {
	for i := 0; i < len(w.memory); i += 8 {
		w.memory[i]++
		w.sum += w.memory[i]
	}
}

// Cold times each of n isolated calls of once, with a walk over other memory before each, and returns the mean of the
// middle half in nanoseconds, the reading of the clock included. before runs after the walk and is not timed: it puts into
// the caches the data that would be there in a real program. Reading the clock is a fence: no call overlaps the code before
// or after it.
//
// This is wall time, because no system measures processor time in nanoseconds. The middle half leaves out interrupted
// calls. Its mean is more precise than the clock, which on some machines ticks in steps of ten nanoseconds.
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
