package policy

import (
	"math"
	"math/bits"

	"github.com/509da70d/floodgate/analyzer/integer"
)

// rootOfProduct returns the square root of a·b, about rounded down, for a and b of at least 0.
func rootOfProduct(a, b int64) int64 {
	if hi, lo := bits.Mul64(uint64(a), uint64(b)); hi == 0 && lo <= math.MaxInt64 { // ≥ 0
		return integer.Root(int64(lo))
	}
	return integer.Root(a) * integer.Root(b)
}
