package simulate

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestFlightsAgainstEachMoment: the most in flight in each minute, and the time of those within the limit and above it, against a count at
// each tenth of a second.
func TestFlightsAgainstEachMoment(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := lastsOf(t, true, "1s, algorithm: fixed")
		m.rule.Limit = 3
		type flight struct{ at, length int }
		flights := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) flight {
			return flight{rapid.IntRange(0, 1799).Draw(t, "at"), rapid.IntRange(1, 900).Draw(t, "length")}
		}), 1, 12).Draw(rt, "flights")
		flights[0].at = 0
		sortBy(flights, func(f flight) int { return f.at })
		const tenth = int64(100 * ms)
		for _, f := range flights {
			q := Request{At: start + int64(f.at)*tenth, Duration: time.Duration(int64(f.length) * tenth)}
			m.last(m.subject("c"), &q, q.At, true)
		}
		got := measured(m, start+1800*tenth)
		var peaks [3]int
		var over []float64 // of each moment
		busy := 0
		for at := range 1800 {
			n := 0
			for _, f := range flights {
				if f.at <= at && at < f.at+f.length {
					n++
				}
			}
			peaks[at/600], busy = max(peaks[at/600], n), busy+min(n, 3)
			over = append(over, max(0, float64(n-3)/3))
		}
		mean := 0.0
		for _, p := range peaks {
			mean += max(0, float64(p-3)/3) / 3
		}
		want := quantilesOf(over)
		if got.Overshoot.N != 3 || math.Abs(got.Overshoot.Mean-mean) > 1e-9 || math.Abs(got.Used-float64(busy)/3/1800) > 1e-9 ||
			got.InTime.N != 180 || math.Abs(got.InTime.Mean-want.Mean) > 1e-9 || math.Abs(got.InTime.P99-want.P99) > 1e-9 || math.Abs(got.InTime.Max-want.Max) > 1e-9 {
			rt.Fatalf("got %+v, want %v, %+v and %d", got, peaks, want, busy)
		}
	})
}
