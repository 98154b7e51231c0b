package policy

import (
	"math"
	"math/bits"
)

// mulDiv returns a·b/c rounded down, or the largest int64, for a and b of at least 0 and c over 0.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b)) // ≥ 0
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}

// root returns the square root of x, rounded down, for x of at least 0.
func root(x int64) int64 {
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

// rootOfProduct returns the square root of a·b, about rounded down, for a and b of at least 0.
func rootOfProduct(a, b int64) int64 {
	if hi, lo := bits.Mul64(uint64(a), uint64(b)); hi == 0 && lo <= math.MaxInt64 { // ≥ 0
		return root(int64(lo))
	}
	return root(a) * root(b)
}
