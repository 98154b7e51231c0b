package window

import (
	"cmp"
	"math"
	"math/big"
	"slices"
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
		"an older entry drains at its own time": {0, 5, []step{
			{at: 100 * sec, weight: 3, total: 3, until: open},
			{at: 98 * sec, weight: 1, total: 3, until: open},
			{at: 91 * sec, weight: 3, total: 3, until: open}, // until 97 s
			{at: 96 * sec, weight: 1, total: 4, until: open}, // there was a pause of one second until 98 s, and none from there on
		}},
		"an older entry that finds the bucket filled": {0, 5, []step{
			{at: 95 * sec, weight: 4, total: 4, until: open},
			{at: 100 * sec, weight: 1, total: 3, until: open}, // five seconds have drained
			{at: 96 * sec, weight: 2, total: 5, until: 101 * sec},
			{at: 95 * sec, weight: 1, total: 6, until: 103 * sec},
		}},
		"an older entry at the end of a period makes that longer": {0, 5, []step{
			{at: 91 * sec, weight: 1, total: 1, until: open},
			{at: 95 * sec, weight: 1, total: 1, until: open},
			{at: 93 * sec, weight: 1, total: 1, until: open}, // now there was no pause from 91 s to 97 s
			{at: 91 * sec, weight: 2, total: 3, until: open}, // to 101 s
		}},
		"an older entry that fills a pause just to its end": {0, 5, []step{
			{at: 91 * sec, weight: 1, total: 1, until: open},
			{at: 95 * sec, weight: 1, total: 1, until: open},
			{at: 91 * sec, weight: 1, total: 1, until: open},
			{at: 93 * sec, weight: 1, total: 2, until: open},
		}},
		"of a period that ended long ago it remembers nothing": {0, 5, []step{
			{at: 88 * sec, weight: 1, total: 1, until: open},
			{at: 100 * sec, weight: 1, total: 1, until: open},
			{at: 90 * sec, weight: 4, total: 1, until: open, late: true},
			{at: 90*sec + 1, weight: 4, total: 1, until: open},
			{at: 92 * sec, weight: 1, total: 2, until: open}, // the pause until 100 s is a nanosecond too short
		}},
		"an older entry is never late in a period that is not over": {0, 5, []step{
			{at: 80 * sec, weight: 10, total: 10, until: 92 * sec},
			{at: 95 * sec, weight: 1, total: 4, until: open},
			{at: 80 * sec, weight: 1, total: 5, until: 96 * sec},
			{at: 80*sec - 1, weight: 1, total: 5, until: 96 * sec, late: true},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { story(t, NewGCRA(10*sec, test.burst), test.limit, test.steps...) })
	}
}

// Entries in order of time against the formula of the algorithm, word for word in unbounded integers, clamped to an int64 only where it is
// stored. A full bucket and a window drain within 292 years, the longest time that there is.
func TestGCRAIsItsFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.Int64Range(1, math.MaxInt64).Draw(t, "length")
		limit := rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Int64Range(1, 1e18)).Draw(t, "limit")
		burst := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, 1e18)).Draw(t, "burst")
		a := NewGCRA(time.Duration(length), burst)
		times := make([]int64, rapid.IntRange(1, 20).Draw(t, "entries"))
		for i := range times {
			times[i] = drawTime(t, length)
		}
		slices.Sort(times)
		var s State
		var oracle *big.Int
		for _, at := range times {
			weight := drawWeight(t)
			var got Count
			s, got = a.Add(s, limit, at, weight)
			var total, until *big.Int
			oracle, total, until = gcraOracle(oracle, length, limit, burst, at, weight)
			want := Count{Total: total.Int64(), Start: sub(at, length), Until: until.Int64()}
			if got != want {
				t.Fatalf("length %d, limit %d, burst %d, weight %d at %d: got %+v, want %+v", length, limit, burst, weight, at, got, want)
			}
		}
	})
}

// gcraInOrder counts entries in the order of their times, and returns what the bucket amounts to after the last one, and the most that it
// held at any time.
func gcraInOrder(entries []entry, length, limit, burst int64) (last Count, peak int64) {
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	var tat *big.Int
	for _, e := range entries {
		var total, until *big.Int
		tat, total, until = gcraOracle(tat, length, limit, burst, e.at, e.weight)
		last = Count{Total: total.Int64(), Start: e.at - length, Until: until.Int64()}
		peak = max(peak, last.Total)
	}
	return last, peak
}

// drawBucket draws a bucket, and entries in order of time that fill it now and then.
func drawBucket(t *rapid.T) (a Algorithm, length, limit, burst int64, entries []entry) {
	length = rapid.SampledFrom([]int64{100, 1000, int64(sec)}).Draw(t, "length")
	limit = rapid.Int64Range(1, 50).Draw(t, "limit")
	burst = rapid.Int64Range(0, 20).Draw(t, "burst")
	pause := rapid.Int64Range(1, 4*length/limit).Draw(t, "longest pause")
	now := int64(1_700_000_000_000_000_000)
	entries = make([]entry, rapid.IntRange(1, 60).Draw(t, "entries"))
	for i := range entries {
		now += rapid.Int64Range(0, pause).Draw(t, "pause")
		entries[i] = entry{now, rapid.Int64Range(1, 3).Draw(t, "weight")}
	}
	return NewGCRA(time.Duration(length), burst), length, limit, burst, entries
}

// TestABucketRemembersSevenPeriods: of the eighth one, which is the oldest, it knows how long it was, but not when.
func TestABucketRemembersSevenPeriods(t *testing.T) {
	a := NewGCRA(time.Minute, 0) // a unit drains in one second
	var s State
	for n := range int64(maxPeriods) {
		s, _ = a.Add(s, 60, n*5*second, 1)
	}
	want := State{31 * second, 30 * second, second}
	for range maxPeriods - 1 {
		want = append(want, 4*second, second)
	}
	if !slices.Equal(s, want) {
		t.Fatalf("got %v, want %v", s, want)
	}
	s, _ = a.Add(s, 60, 35*second, 1)
	want[0], want[1] = 36*second, 35*second
	want[2*maxPeriods-1], want[2*maxPeriods] = 8*second, 2*second // the entry of 5 s drains from 1 s on
	if !slices.Equal(s, want) {
		t.Fatalf("got %v, want %v", s, want)
	}
	s, _ = a.Add(s, 60, 5*second, 3) // a period of its own, which then moves back to the end of the oldest
	want[2*maxPeriods-1], want[2*maxPeriods] = 5*second, 5*second
	if !slices.Equal(s, want) {
		t.Errorf("got %v, want %v", s, want)
	}
}

// TestGCRADoesNotDependOnTheOrder: where no entry comes after more than five newer ones, and none is older than the bucket's memory, the
// bucket is after each entry what it would be if all that came had come in the order of their times.
func TestGCRADoesNotDependOnTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, length, limit, burst, entries := drawBucket(t)
		const most = maxPeriods - 2
		type delayed struct {
			entry
			newer int // entries that came before it
		}
		left := make([]delayed, len(entries))
		for i, e := range entries {
			left[i].entry = e
		}
		var s State
		var came []entry
		newest := int64(math.MinInt64)
		for len(left) > 0 {
			next := 0
			if left[0].newer < most {
				next = rapid.IntRange(0, min(most, len(left)-1)).Draw(t, "next")
			}
			e := left[next].entry
			for i := range left[:next] {
				left[i].newer++
			}
			left = slices.Delete(left, next, next+1)
			if newest = max(newest, e.at); newest-e.at >= length {
				continue
			}
			came = append(came, e)
			var got Count
			s, got = a.Add(s, limit, e.at, e.weight)
			want, peak := gcraInOrder(came, length, limit, burst)
			if want.Until == newest {
				want.Until = e.at
			}
			if peak >= a.Capacity(limit)+limit {
				return // the bucket cannot hold more than that
			}
			if got != want {
				t.Fatalf("%s, limit %d, burst %d, after %v: got %+v, want %+v", a.Shape(), limit, burst, came, got, want)
			}
		}
	})
}

// TestGCRAClosesNoInnocent: if the bucket is never full in the order of time, then it is never full in any other order, however late an
// entry comes. Nor does it ever hold more than all that came, in the order of time.
func TestGCRAClosesNoInnocent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, length, limit, burst, entries := drawBucket(t)
		_, peak := gcraInOrder(entries, length, limit, burst)
		var s State
		order := rapid.Permutation(entries).Draw(t, "order")
		for i, e := range order {
			var got Count
			s, got = a.Add(s, limit, e.at, e.weight)
			if got.Full(e.at) && peak < a.Capacity(limit) {
				t.Fatalf("%s, limit %d, burst %d: entry %d of %v closed it until %d, and in order of time it was never full", a.Shape(), limit, burst, i, order, got.Until)
			}
			if most, peak := gcraInOrder(order[:i+1], length, limit, burst); peak < a.Capacity(limit)+limit && got.Total > most.Total {
				t.Fatalf("%s, limit %d, burst %d: got %d after entry %d of %v, want at most %d", a.Shape(), limit, burst, got.Total, i, order, most.Total)
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
	full := clamp(new(big.Int).Add(new(big.Int).Mul(n(burst), interval), n(length)))
	base := n(at)
	if tat != nil && tat.Cmp(base) > 0 {
		base = tat
	}
	newTAT = tat
	if weight > 0 {
		newTAT = new(big.Int).Add(base, new(big.Int).Mul(n(weight), interval))
		newTAT = clamp(smaller(newTAT, full.Add(full, n(at))))
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
