package replay

import (
	"hash/maphash"

	"github.com/axiomhq/hyperloglog"
	"github.com/kamstrup/intmap"
)

// maxDistinct is how many callers are counted exactly. Above it the count is an estimate, off by 0.8 % on average.
const maxDistinct = 1 << 21

// distinct counts how many different callers there are, in bounded memory. Up to maxDistinct the count is exact, by a set of
// their 64-bit hashes. (Two callers with one hash count as one. Among two million callers that happens once in ten million
// runs.) Above maxDistinct it is an estimate by HyperLogLog. The zero value has counted nothing. One goroutine uses a
// distinct.
type distinct struct {
	seed     maphash.Seed
	exact    *intmap.Set[uint64] // hashes of callers; nil before the first caller, and when there is an estimate
	estimate *hyperloglog.Sketch // nil while the count is exact
}

// add counts a caller: kind is the index of its kind.
func (d *distinct) add(kind int, id string) {
	if d.exact == nil && d.estimate == nil {
		d.seed, d.exact = maphash.MakeSeed(), intmap.NewSet[uint64](1024)
	}
	h := d.hash(kind, id)
	if d.estimate != nil {
		d.estimate.InsertHash(h)
		return
	}
	if d.exact.Add(h) && d.exact.Len() > maxDistinct {
		d.estimate = hyperloglog.NewNoSparse() // of 2^14 registers
		for h := range d.exact.All() {
			d.estimate.InsertHash(h)
		}
		d.exact = nil
	}
}

// hash returns the hash of a caller. It mixes the kind in by the finaliser of splitmix64, so that one id of two kinds is two
// callers.
func (d *distinct) hash(kind int, id string) uint64 {
	h := maphash.String(d.seed, id) + uint64(kind)*0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// count returns how many callers were added, and whether that is an estimate.
func (d *distinct) count() (n int64, estimated bool) {
	switch {
	case d.estimate != nil:
		return int64(d.estimate.Estimate()), true
	case d.exact != nil:
		return int64(d.exact.Len()), false
	}
	return 0, false
}
