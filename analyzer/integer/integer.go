// Package integer is arithmetic of int64 that several packages need. It is pure: it does no I/O, and has no clock, no log and no lock.
package integer

import (
	"math"
	"math/bits"
)

// Add returns a + b for b of at least 0, or the largest int64.
func Add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// FloorDiv returns the largest k with k·step ≤ t, for a step over 0.
func FloorDiv(t, step int64) int64 {
	k := t / step
	if t%step < 0 {
		k--
	}
	return k
}

// MulDiv returns a·b/c rounded down, or the largest int64, for a and b of at least 0 and c over 0.
func MulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b)) // ≥ 0
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}

// Root returns the square root of x, rounded down, for x of at least 0.
func Root(x int64) int64 {
	if x <= 0 {
		return 0
	}
	r := int64(1) << ((bits.Len64(uint64(x)) + 1) / 2) // above the root
	for {
		next := (r + x/r) / 2
		if next >= r {
			return r
		}
		r = next
	}
}

// Random draws numbers that are a function of its first value: SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
// Generators, 2014). One goroutine may use it.
type Random uint64

// Next returns the next number.
func (r *Random) Next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
