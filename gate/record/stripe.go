package record

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/509da70d/floodgate/gate/internal/merge"
	"github.com/509da70d/floodgate/schemas"
)

// stripe is a share of a Recorder's memory. Whoever sets taken from 0 to 1 may use the rest until it is set back. A
// request never waits for that: it goes on to the next stripe.
type stripe struct {
	taken atomic.Uint32
	full  atomic.Bool // has refused an entry since it was drained; changed by whoever has the stripe

	index    int
	table    *merge.Table
	accepted uint64 // requests, ever
	dropped  uint64 // of these, for want of room
	_        [cacheLine]byte
}

// cacheLine keeps stripes apart: two lines of most processors, because they are fetched in pairs.
const cacheLine = 128

func (s *stripe) try() bool { return s.taken.Load() == 0 && s.taken.CompareAndSwap(0, 1) }

func (s *stripe) release() { s.taken.Store(0) }

// wait takes the stripe for the drainer or Stats. Who has it is a hundred nanoseconds from the end, unless preempted.
func (s *stripe) wait() {
	for !s.try() {
		runtime.Gosched()
	}
}

// attempts is how often begin goes round all stripes before it gives a request up.
const attempts = 4

// begin takes a stripe, preferably the one that this goroutine used last. It returns nil if every stripe is taken, again
// and again: that needs as many goroutines preempted within the same 50 ns of work.
func (r *Recorder) begin() *stripe {
	near := r.near()
	for i := range attempts * len(r.stripes) {
		if s := &r.stripes[(near+i)&(len(r.stripes)-1)]; s.try() {
			return s
		}
	}
	return nil
}

// near returns the index of the stripe that is this goroutine's by the address of its stack: it costs nothing to know,
// those that run at the same time mostly have others, and each keeps its own, whose memory is near as long as it runs on
// the same processor. (A sync.Pool of stripes, one for each processor, was slower by 6 ns alone and by half with two
// processors.)
func (r *Recorder) near() int {
	var here byte
	h := uint64(uintptr(unsafe.Pointer(&here))) >> 11 * odd
	return int(h>>32^h>>48) & (len(r.stripes) - 1) // either alone is uneven for some distances between stacks
}

// end gives the stripe back, and wakes the drainer if it sleeps.
func (r *Recorder) end(s *stripe) {
	if s == nil {
		return
	}
	s.release()
	if r.asleep.Load() {
		r.rouse()
	}
}

// add counts an entry of one request in stripe s, or in another one if s is full. It returns the stripe that is taken
// now. If addr is set the entry's ID is the 16 bytes of an address.
func (r *Recorder) add(s *stripe, hash uint64, e *schemas.Entry, addr bool) *stripe {
	if s == nil {
		r.contended.Add(uint64(e.Count))
		return nil
	}
	for !s.table.AddKey(hash, e, addr) {
		if !s.full.Load() {
			s.full.Store(true)
			r.full.Add(1)
		}
		other := r.roomier(s)
		if other == nil {
			s.dropped += s.table.ReplaceKey(hash, e, addr)
			break
		}
		s.release()
		s = other
	}
	s.accepted += uint64(e.Count)
	return s
}

// roomier takes a stripe that is not full, or returns nil if it finds none.
func (r *Recorder) roomier(s *stripe) *stripe {
	if int(r.full.Load()) >= len(r.stripes) {
		return nil
	}
	for i := 1; i < len(r.stripes); i++ {
		o := &r.stripes[(s.index+i)&(len(r.stripes)-1)]
		if !o.full.Load() && o.try() {
			if !o.full.Load() {
				return o
			}
			o.release()
		}
	}
	return nil
}
