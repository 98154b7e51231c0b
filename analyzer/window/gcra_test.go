package window

import (
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestGCRAStories(t *testing.T) {
	tests := map[string]struct {
		burst, limit int64 // over 10 s
		steps        []step
	}{
		"a full bucket holds the limit": {0, 5, []step{ // T = 2 s
			{at: 0, weight: 1, total: 1, until: open},
			{at: 0, weight: 3, total: 4, until: open},
			{at: 0, weight: 1, total: 5, until: 2 * sec},
			{at: 2*sec - 1, weight: 0, total: 5, until: 2 * sec},
			{at: 2 * sec, weight: 0, total: 4, until: open},
			{at: 2 * sec, weight: 1, total: 5, until: 4 * sec},
		}},
		"a burst of one spaces entries evenly": {1, 5, []step{
			{at: 0, weight: 1, total: 1, until: 2 * sec},
			{at: 2 * sec, weight: 1, total: 1, until: 4 * sec},
		}},
		"debt ends at a burst and a window": {1, 5, []step{
			{at: 0, weight: 1_000_000, total: 6, until: 12 * sec},
		}},
		"an idle bucket does not fill beyond the burst": {2, 5, []step{
			{at: 0, weight: 1, total: 1, until: open},
			{at: 100 * sec, weight: 1, total: 1, until: open},
			{at: 100 * sec, weight: 1, total: 2, until: 102 * sec},
		}},
		"an older entry still counts: never late": {0, 5, []step{
			{at: 100 * sec, weight: 1, total: 1, until: open},
			{at: 99 * sec, weight: 1, total: 2, until: open},
		}},
		"an older entry is not added to a bucket as it was then": {0, 5, []step{
			{at: 100 * sec, weight: 3, total: 3, until: open},
			{at: 90 * sec, weight: 1, total: 4, until: open}, // seen from 90 s the bucket would be full until 100 s
			{at: 90 * sec, weight: 1, total: 5, until: 102 * sec},
		}},
		"an older entry drains nothing": {0, 5, []step{
			{at: 100 * sec, weight: 10, total: 10, until: 112 * sec},
			{at: 70 * sec, weight: 1, total: 10, until: 112 * sec},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { story(t, NewGCRA(10*sec, test.burst), test.limit, test.steps...) })
	}
}

// The formula of the architecture, word for word in unbounded integers, clamped to an int64 only where it is stored.
// Older entries count at the time of the newest one, and the TAT never goes back.
func TestGCRAIsItsFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.Int64Range(1, math.MaxInt64).Draw(t, "length")
		limit := rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Int64Range(1, 1e18)).Draw(t, "limit")
		burst := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, 1e18)).Draw(t, "burst")
		a := gcra{length: length, burst: burst}
		var s State
		var oracle *big.Int
		newest := int64(math.MinInt64)
		for range rapid.IntRange(1, 20).Draw(t, "entries") {
			at := drawTime(t, length)
			weight := drawWeight(t)
			var got Count
			s, got = a.Add(s, limit, at, weight)
			var total, until *big.Int
			seen := max(at, newest)
			if weight > 0 {
				newest = seen
			}
			oracle, total, until = gcraOracle(oracle, length, limit, burst, seen, weight)
			want := Count{Total: total.Int64(), Start: sub(seen, length), Until: until.Int64()}
			if want.Until == seen {
				want.Until = at
			}
			if got != want {
				t.Fatalf("length %d, limit %d, burst %d, weight %d at %d: got %+v, want %+v", length, limit, burst, weight, at, got, want)
			}
		}
	})
}

func gcraOracle(tat *big.Int, length, limit, burst, at, weight int64) (newTAT, total, until *big.Int) {
	n := big.NewInt
	if burst == 0 {
		burst = limit
	}
	interval := n(max(length/limit, 1))
	base := n(at)
	if tat != nil && tat.Cmp(base) > 0 {
		base = tat
	}
	newTAT = tat
	if weight > 0 {
		newTAT = new(big.Int).Add(base, new(big.Int).Mul(n(weight), interval))
		maxTAT := new(big.Int).Add(n(at), new(big.Int).Mul(n(burst), interval))
		maxTAT.Add(maxTAT, n(length))
		newTAT = clamp(smaller(newTAT, maxTAT))
		if tat != nil && newTAT.Cmp(tat) < 0 {
			newTAT = tat
		}
	}
	eval := newTAT
	if eval == nil {
		eval = n(at)
	}
	total = n(0)
	if eval.Cmp(n(at)) > 0 {
		diff := new(big.Int).Sub(eval, n(at))
		diff.Add(diff, new(big.Int).Sub(interval, n(1)))
		total = clamp(diff.Div(diff, interval))
	}
	until = new(big.Int).Sub(eval, new(big.Int).Mul(n(burst-1), interval))
	if until.Cmp(n(at)) < 0 {
		until = n(at)
	}
	return newTAT, total, clamp(until)
}

// TestGCRAClosesNobodyWhoIsBelowTheBurst: in any order, with any delay, a caller whose whole weight is below the burst
// stays open.
func TestGCRAClosesNobodyWhoIsBelowTheBurst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		burst := rapid.Int64Range(2, 50).Draw(t, "burst")
		a := NewGCRA(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Hour}).Draw(t, "length"), burst)
		limit := rapid.Int64Range(1, 1000).Draw(t, "limit")
		var s State
		for left := burst - 1; left > 0; {
			weight := rapid.Int64Range(1, left).Draw(t, "weight")
			at := drawTime(t, int64(time.Second))
			var got Count
			s, got = a.Add(s, limit, at, weight)
			if got.Full(at) {
				t.Fatalf("got %+v at %d with %d of %d", got, at, burst-left, burst)
			}
			left -= weight
		}
	})
}

func smaller(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

func clamp(x *big.Int) *big.Int {
	if x.Cmp(big.NewInt(math.MaxInt64)) > 0 {
		return big.NewInt(math.MaxInt64)
	}
	if x.Cmp(big.NewInt(math.MinInt64)) < 0 {
		return big.NewInt(math.MinInt64)
	}
	return x
}

// drawTime draws times that lie close together on the scale of length, and now and then at the ends of time.
func drawTime(t *rapid.T, length int64) int64 {
	switch rapid.IntRange(0, 19).Draw(t, "kind of time") {
	case 0:
		return rapid.SampledFrom([]int64{math.MinInt64, math.MinInt64 + 1, -1, 0, math.MaxInt64 - 1, math.MaxInt64}).Draw(t, "edge")
	case 1:
		return rapid.Int64().Draw(t, "anywhere")
	default:
		return 1_700_000_000_000_000_000 + rapid.Int64Range(0, min(length, math.MaxInt64/16)*3).Draw(t, "time")
	}
}

func drawWeight(t *rapid.T) int64 {
	return rapid.OneOf(rapid.Just[int64](1), rapid.Int64Range(0, 5), rapid.Int64Range(0, math.MaxInt64)).Draw(t, "weight")
}
