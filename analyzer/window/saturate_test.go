package window

import (
	"math"
	"math/big"
	"testing"
)

// TestArithmeticEndsAtTheLastInteger: sums, differences and products are exact, or the nearest int64.
func TestArithmeticEndsAtTheLastInteger(t *testing.T) {
	const half = int64(1) << 32
	numbers := []int64{
		math.MinInt64, math.MinInt64 + 1, math.MinInt64 / 2, -half, -2, -1, 0, 1, 2, half - 1, half, math.MaxInt64 / 2, math.MaxInt64/2 + 1, math.MaxInt64 - 1, math.MaxInt64,
	}
	check := func(what string, got int64, exact *big.Int) {
		t.Helper()
		want := int64(math.MaxInt64)
		if exact.IsInt64() {
			want = exact.Int64()
		} else if exact.Sign() < 0 {
			want = math.MinInt64
		}
		if got != want {
			t.Errorf("%s: got %d, want %d", what, got, want)
		}
	}
	of := big.NewInt
	for _, a := range numbers {
		for _, b := range numbers {
			check("sum", add(a, b), new(big.Int).Add(of(a), of(b)))
			check("difference", sub(a, b), new(big.Int).Sub(of(a), of(b)))
			if b > 0 {
				check("product", mul(a, b), new(big.Int).Mul(of(a), of(b)))
			}
			for _, x := range numbers {
				if x < 0 || b < 0 {
					continue
				}
				product := new(big.Int).Mul(of(x), of(b))
				check("sum with a product", addMul(a, x, b), new(big.Int).Add(of(a), product))
				check("difference with a product", subMul(a, x, b), new(big.Int).Sub(of(a), product))
			}
		}
	}
}
