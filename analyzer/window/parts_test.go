package window

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Parts are what Total is made of, now and at each later time: a part is gone from when it says on, and not before.
func partsAddUpToTheTotal(t *rapid.T, kinds []Kind) {
	a, limit := drawAlgorithm(t, kinds), drawLimit(t)
	var s State
	newest := int64(math.MinInt64)
	for _, e := range drawEntries(t, a) {
		s, _ = a.Add(s, limit, e.at, e.weight)
		newest = max(newest, e.at)
	}
	at := drawTime(t, a.Length(1_700_000_000_000_000_000))
	before := slices.Clone(s)
	parts, more := a.Parts(s, limit, at, math.MaxInt)
	c := a.View(s, limit, at)
	if !slices.Equal(s, before) || more != 0 {
		t.Fatalf("%s: state %v became %v, and %d parts were left out", a.Shape(), before, s, more)
	}
	if got := weightAfter(parts, math.MinInt64); got != c.Total {
		t.Fatalf("%s: state %v at %d: got parts %v of %d, want %d", a.Shape(), s, at, parts, got, c.Total)
	}
	for i, p := range parts {
		if p.Weight <= 0 || p.From > p.To || i > 0 && (parts[i-1].From >= p.From || parts[i-1].Leaves > p.Leaves) {
			t.Fatalf("%s: got %v, want parts with weight, oldest first", a.Shape(), parts)
		}
	}
	if c.Place != Newest || a.Traits().Endless || at < newest {
		return
	}
	for _, p := range parts {
		for _, later := range []int64{p.Leaves - 1, p.Leaves} {
			if got, want := weightAfter(parts, later), a.View(s, limit, later).Total; later >= at && later < math.MaxInt64 && got != want {
				t.Fatalf("%s: state %v: at %d the parts %v amount to %d, want %d", a.Shape(), s, later, parts, got, want)
			}
		}
	}
}

// weightAfter returns the weight of the parts that are still there at t.
func weightAfter(parts []Part, t int64) (sum int64) {
	for _, p := range parts {
		if p.Leaves > t || t == math.MinInt64 {
			sum = add(sum, p.Weight)
		}
	}
	return sum
}

// A log of a million entries is not copied whole: the newest are shown, and it is said how many are not.
func partsAreBounded(t *rapid.T, kinds []Kind) {
	a, limit := drawAlgorithm(t, kinds), drawLimit(t)
	var s State
	for _, e := range drawEntries(t, a) {
		s, _ = a.Add(s, limit, e.at, e.weight)
	}
	at, most := drawTime(t, a.Length(1_700_000_000_000_000_000)), rapid.IntRange(0, 5).Draw(t, "most")
	all, _ := a.Parts(s, limit, at, math.MaxInt)
	got, more := a.Parts(s, limit, at, most)
	left := max(0, len(all)-most)
	if more != left || !slices.Equal(got, all[left:]) {
		t.Fatalf("%s: got %v and %d more, want the newest %d of %v", a.Shape(), got, more, most, all)
	}
}

func TestPartsOfEachAlgorithm(t *testing.T) {
	const s, minute = int64(time.Second), int64(time.Minute)
	loc := time.UTC
	for _, c := range []struct {
		name    string
		a       Algorithm
		limit   int64
		entries []entry
		at      int64
		want    []Part
	}{
		{"nothing came", NewFixed(time.Minute), 5, nil, 7 * s, nil},
		{"nothing came to a calendar", NewCalendar(Day, loc, 1), 5, nil, 7 * s, nil},
		{"nothing came to a sliding window", NewSliding(time.Minute, 6), 5, nil, 7 * s, nil},
		{"nothing came to a log", NewLog(time.Minute), 5, nil, 7 * s, nil},
		{"nothing came to a bucket", NewGCRA(time.Minute, 0), 5, nil, 7 * s, nil},
		{"nothing came to a pool", NewPool(time.Minute), 5, nil, 7 * s, nil},
		{"a fixed window is one part", NewFixed(time.Minute), 5, []entry{{1 * s, 2}, {59 * s, 1}}, 59 * s, []Part{{0, minute, minute, 3}}},
		{"the window before is over", NewFixed(time.Minute), 5, []entry{{1 * s, 2}}, 61 * s, nil},
		{"the window before, seen from its own time", NewFixed(time.Minute), 5, []entry{{59 * s, 2}, {60 * s, 1}}, 59 * s, []Part{{0, minute, minute, 2}}},
		{
			"a day is one part", NewCalendar(Day, loc, 1), 5, []entry{{1 * s, 2}}, 2 * s,
			[]Part{{0, 24 * 60 * minute, 24 * 60 * minute, 2}},
		},
		{
			"slots, without those that are empty", NewSliding(time.Minute, 6), 5, []entry{{5 * s, 1}, {31 * s, 2}, {32 * s, 1}}, 40 * s,
			[]Part{{0, 10 * s, 70 * s, 1}, {30 * s, 40 * s, 100 * s, 3}},
		},
		{"a slot that has left", NewSliding(time.Minute, 6), 5, []entry{{5 * s, 1}, {31 * s, 2}}, 70 * s, []Part{{30 * s, 40 * s, 100 * s, 2}}},
		{"a slot that is about to leave", NewSliding(time.Minute, 6), 5, []entry{{5 * s, 1}}, 70*s - 1, []Part{{0, 10 * s, 70 * s, 1}}},
		{"all slots have left", NewSliding(time.Minute, 6), 5, []entry{{5 * s, 1}}, 1000 * s, nil},
		{
			"entries of a log", NewLog(time.Minute), 5, []entry{{1 * s, 1}, {2 * s, 1}, {2 * s, 1}}, 3 * s,
			[]Part{{1 * s, 1*s + 1, 61 * s, 1}, {2 * s, 2*s + 1, 62 * s, 2}},
		},
		{"a bucket: 12 s a unit, and 5 s have drained", NewGCRA(time.Minute, 0), 5, []entry{{0, 2}}, 5 * s, []Part{{0, 5*s + 1, 24 * s, 2}}},
		{
			"quarters of a pool", NewPool(time.Minute), 5, []entry{{5 * s, 1}, {31 * s, 2}, {32 * s, 1}}, 40 * s,
			[]Part{{0, 15 * s, 60 * s, 1}, {30 * s, 45 * s, 90 * s, 3}},
		},
		{"a quarter that has left", NewPool(time.Minute), 5, []entry{{5 * s, 1}, {31 * s, 2}}, 60 * s, []Part{{30 * s, 45 * s, 90 * s, 2}}},
		{"a bucket that has drained", NewGCRA(time.Minute, 0), 5, []entry{{0, 2}}, 24 * s, nil},
	} {
		var state State
		for _, e := range c.entries {
			state, _ = c.a.Add(state, c.limit, e.at, e.weight)
		}
		if got, more := c.a.Parts(state, c.limit, c.at, 100); !slices.Equal(got, c.want) || more != 0 {
			t.Errorf("%s: got %v and %d more, want %v", c.name, got, more, c.want)
		}
	}
}
