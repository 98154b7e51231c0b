package record

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/509da70d/floodgate/gate/internal/merge"
	"github.com/509da70d/floodgate/schemas"
)

// stripe is a share of a Recorder's memory. The goroutine that sets taken from 0 to 1 may use the other fields until it sets
// taken back. A request never waits for a stripe: it tries the next one.
type stripe struct {
	taken atomic.Uint32
	full  atomic.Bool // has refused an entry since it was drained; only the goroutine that has the stripe changes it

	index    int
	table    *merge.Table
	accepted uint64 // requests, ever
	dropped  uint64 // of these, because the stripe was full
	_        [cacheLine]byte
}

// cacheLine is the distance between two stripes: two cache lines of most processors, because they fetch lines in pairs.
const cacheLine = 128

func (s *stripe) tryTake() bool { return s.taken.Load() == 0 && s.taken.CompareAndSwap(0, 1) }

func (s *stripe) release() { s.taken.Store(0) }

// takeWaiting takes the stripe for Drain or Stats. A goroutine that has it releases it within a hundred nanoseconds, unless
// it is preempted.
func (s *stripe) takeWaiting() {
	for !s.tryTake() {
		runtime.Gosched()
	}
}

// attempts is how often begin tries all stripes before it drops a request.
const attempts = 4

// begin takes a stripe, preferably the one that this goroutine used last. It returns nil if every stripe is taken at each
// attempt. For that, as many goroutines as there are stripes must be preempted within the same 50 ns of work.
func (r *Recorder) begin() *stripe {
	home := r.homeStripe()
	for i := range attempts * len(r.stripes) {
		if s := &r.stripes[(home+i)&(len(r.stripes)-1)]; s.tryTake() {
			return s
		}
	}
	return nil
}

// homeStripe returns the index of this goroutine's stripe, which depends on the address of its stack. The address costs
// nothing to find. Goroutines that run at the same time mostly have different stripes. And a goroutine keeps its stripe, so
// that the memory stays in the cache while it runs on the same processor. (A sync.Pool of stripes, one for each processor,
// was slower by 6 ns with one goroutine, and by half with two processors.)
func (r *Recorder) homeStripe() int {
	var here byte
	h := uint64(uintptr(unsafe.Pointer(&here))) >> 11 * odd
	return int(h>>32^h>>48) & (len(r.stripes) - 1) // either shift alone is uneven for some distances between stacks
}

// end releases the stripe, and wakes the goroutine that drains if it sleeps.
func (r *Recorder) end(s *stripe) {
	if s == nil {
		return
	}
	s.release()
	if r.asleep.Load() {
		r.wakeDrainer()
	}
}

// add counts an entry of one request in stripe s, or in another one if s is full. It returns the stripe that the goroutine
// has afterwards. If addr is set, the entry's ID is the 16 bytes of an address.
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
		other := r.takeRoomier(s)
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

// takeRoomier takes a stripe that is not full, or returns nil if it finds none.
func (r *Recorder) takeRoomier(s *stripe) *stripe {
	if int(r.full.Load()) >= len(r.stripes) {
		return nil
	}
	for i := 1; i < len(r.stripes); i++ {
		o := &r.stripes[(s.index+i)&(len(r.stripes)-1)]
		if !o.full.Load() && o.tryTake() {
			if !o.full.Load() {
				return o
			}
			o.release()
		}
	}
	return nil
}
