package integer

import (
	"math"
	"testing"
)

func TestAddStopsAtTheLargest(t *testing.T) {
	for _, c := range [][3]int64{
		{1, 2, 3}, {-5, 2, -3}, {math.MaxInt64, 0, math.MaxInt64}, {math.MaxInt64, 1, math.MaxInt64},
		{1, math.MaxInt64, math.MaxInt64}, {math.MinInt64, math.MaxInt64, -1},
	} {
		if got := Add(c[0], c[1]); got != c[2] {
			t.Errorf("%d + %d: got %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

func TestFloorDivRoundsDown(t *testing.T) {
	for _, c := range [][3]int64{{7, 2, 3}, {-7, 2, -4}, {-8, 2, -4}, {0, 5, 0}, {math.MinInt64, 1, math.MinInt64}, {-1, math.MaxInt64, -1}} {
		if got := FloorDiv(c[0], c[1]); got != c[2] {
			t.Errorf("%d / %d: got %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

// TestRandomIsSplitMix64 compares with the first numbers of the published generator, from seed 0.
func TestRandomIsSplitMix64(t *testing.T) {
	var r Random
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		if got := r.Next(); got != want {
			t.Errorf("number %d: got %#x, want %#x", i, got, want)
		}
	}
}
