package replay

import (
	"hash/maphash"
	"math"
	"math/bits"
)

// maxDistinct is how many callers are counted exactly. Beyond it the count is an estimate, off by 0.8 % on average.
const maxDistinct = 1 << 21

// registers is the number of registers of the estimate; its logarithm is registerBits.
const (
	registerBits = 14
	registers    = 1 << registerBits
)

// distinct counts how many different callers it was told of, in bounded memory: exactly up to maxDistinct by a set of
// their 64-bit hashes (two that collide are one; with two million that happens once in ten million runs), beyond by
// HyperLogLog (Flajolet and others, 2007; no small-range correction is needed there). The zero value has seen nobody.
// One goroutine uses a distinct.
type distinct struct {
	seed   maphash.Seed
	slots  []uint64 // open addressing; 0 is empty
	used   int
	hashes []uint8 // registers of the estimate; nil while the count is exact
}

// add tells of a caller, of the kind with that index.
func (d *distinct) add(kind int, id string) {
	if d.slots == nil && d.hashes == nil {
		d.seed, d.slots = maphash.MakeSeed(), make([]uint64, 1024)
	}
	// A finaliser (splitmix64) mixes the kind in, so that one id of two kinds is two callers.
	h := maphash.String(d.seed, id) + uint64(kind)*0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	h = max(1, h^h>>31)
	if d.hashes != nil {
		d.register(h)
		return
	}
	if !insert(d.slots, h) {
		return
	}
	if d.used++; 2*d.used > len(d.slots) {
		d.grow()
	}
}

// insert puts h into slots, and reports whether it was not there.
func insert(slots []uint64, h uint64) bool {
	mask := uint64(len(slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		switch slots[i] {
		case h:
			return false
		case 0:
			slots[i] = h
			return true
		}
	}
}

// grow doubles the set, or at the cap turns it into the estimate.
func (d *distinct) grow() {
	old := d.slots
	if d.used < maxDistinct {
		d.slots = make([]uint64, 2*len(old))
		for _, h := range old {
			if h != 0 {
				insert(d.slots, h)
			}
		}
		return
	}
	d.slots, d.hashes = nil, make([]uint8, registers)
	for _, h := range old {
		if h != 0 {
			d.register(h)
		}
	}
}

// register takes note of h in the register that its highest bits name: of the longest run of zeros in the others.
func (d *distinct) register(h uint64) {
	r := &d.hashes[h>>(64-registerBits)]
	rank := uint8(bits.LeadingZeros64(h<<registerBits|1<<(registerBits-1)) + 1)
	*r = max(*r, rank)
}

// count returns how many callers were told of, and whether that is an estimate.
func (d *distinct) count() (n int64, estimated bool) {
	if d.hashes == nil {
		return int64(d.used), false
	}
	sum := 0.0
	for _, r := range d.hashes {
		sum += math.Ldexp(1, -int(r))
	}
	const alpha = 0.7213 / (1 + 1.079/registers)
	return int64(math.Round(alpha * registers * registers / sum)), true
}
