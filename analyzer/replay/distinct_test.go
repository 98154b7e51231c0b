package replay

import (
	"math"
	"strconv"
	"testing"
)

func TestDistinctCountsExactly(t *testing.T) {
	var d distinct
	if n, estimated := d.count(); n != 0 || estimated {
		t.Errorf("got %d of nobody", n)
	}
	for range 2 {
		for i := range 50_000 {
			d.add(i%2, strconv.Itoa(i/2)) // each id of two kinds
		}
	}
	if n, estimated := d.count(); n != 50_000 || estimated {
		t.Errorf("got %d, estimated %v", n, estimated)
	}
}

func TestDistinctEstimatesBeyondTheCap(t *testing.T) {
	var d distinct
	added := 0
	for _, n := range []int{maxDistinct, maxDistinct + 1, 3_000_000} {
		for ; added < n; added++ {
			d.add(0, strconv.Itoa(added))
		}
		got, estimated := d.count()
		if off := math.Abs(float64(got)/float64(n) - 1); off > 0.04 || estimated != (n > maxDistinct) || !estimated && off != 0 {
			t.Errorf("of %d: got %d, estimated %v", n, got, estimated)
		}
	}
	if d.exact != nil {
		t.Error("keeps the set beside the estimate")
	}
}
