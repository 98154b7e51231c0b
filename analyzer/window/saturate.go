package window

import (
	"math"
	"math/bits"
	"time"
)

// add returns a + b, or the nearest int64.
func add(a, b int64) int64 {
	sum := a + b
	if (sum > a) == (b > 0) {
		return sum
	}
	if b > 0 {
		return math.MaxInt64
	}
	return math.MinInt64
}

// sub returns a − b, or the nearest int64.
func sub(a, b int64) int64 {
	diff := a - b
	if (diff < a) == (b > 0) {
		return diff
	}
	if b > 0 {
		return math.MinInt64
	}
	return math.MaxInt64
}

// addMul returns a + x·y for x and y of at least 0, or the nearest int64. The sum is exact: it saturates once, at the
// end.
func addMul(a, x, y int64) int64 {
	hi, lo := bits.Mul64(uint64(x), uint64(y))
	lo, carry := bits.Add64(lo, uint64(a), 0)
	hi += carry + uint64(a>>63) // sign-extended a
	return saturate(hi, lo)
}

// subMul returns a − x·y for x and y of at least 0, or the nearest int64.
func subMul(a, x, y int64) int64 {
	hi, lo := bits.Mul64(uint64(x), uint64(y))
	lo, borrow := bits.Sub64(uint64(a), lo, 0)
	hi = uint64(a>>63) - hi - borrow
	return saturate(hi, lo)
}

// mul returns k·step for a step over 0, or the nearest int64.
func mul(k, step int64) int64 {
	if k < 0 {
		if k == math.MinInt64 {
			return k
		}
		return subMul(0, -k, step)
	}
	return addMul(0, k, step)
}

// saturate returns the 128-bit two's complement number hi:lo, or the nearest int64.
func saturate(hi, lo uint64) int64 {
	if int64(hi) == int64(lo)>>63 {
		return int64(lo)
	}
	if int64(hi) < 0 {
		return math.MinInt64
	}
	return math.MaxInt64
}

// since returns newer − older, which is ≥ 0 and may exceed an int64.
func since(newer, older int64) uint64 { return uint64(newer) - uint64(older) }

// nanoseconds returns length, which must be positive.
func nanoseconds(length time.Duration) int64 {
	if length <= 0 {
		panic("BUG: window of length " + length.String())
	}
	return int64(length)
}
