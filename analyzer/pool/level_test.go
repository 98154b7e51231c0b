package pool

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// tallyOf returns what callers of one partition ask for: those below what is protected are only in the total.
func tallyOf(terms *Terms, callers ...asker) Tally { return tallies(terms, callers, 1)[0] }

// TestLevels: each level is the one that a person finds with pencil and paper.
func TestLevels(t *testing.T) {
	const one, light = Unit, Unit / 10
	for _, test := range []struct {
		name     string
		capacity int64
		protect  int64 // requests
		callers  []asker
		level    int64 // requests; 0 is none
		above    int64
	}{
		{"nobody asks", 1000, 1, nil, 0, 0},
		{"all of the capacity, and no more", 1000, 1, []asker{{400, one}, {600, one}}, 0, 0},
		{"equal callers get equal parts", 1000, 1, slices.Repeat([]asker{{200, one}}, 10), 100, 10},
		{"one heavy caller gets what the others leave", 1000, 1, append(slices.Repeat([]asker{{50, one}}, 10), asker{5000, one}), 500, 1},
		{"the level lies between callers", 800, 1, []asker{{100, one}, {300, one}, {900, one}}, 400, 1},
		{"the level limits two of three", 500, 1, []asker{{100, one}, {300, one}, {900, one}}, 200, 2},
		{"a caller that asks for just the level is not above it", 700, 1, []asker{{100, one}, {300, one}, {900, one}}, 300, 1},
		{"a weight of 4 gets four times as much", 1000, 1, []asker{{2000, 4 * one}, {2000, one}}, 200, 2},
		{"a heavy weight that asks for little is not limited", 1000, 1, []asker{{2000, one}, {300, 4 * one}}, 700, 1},
		{"a caller alone gets the capacity", 1000, 1, []asker{{5000, one}}, 1000, 1},
		{"callers far over the capacity are alike", 1000, 1, []asker{{2000, one}, {70_000, one}, {100, one}}, 450, 2},
		{"a light caller alone gets the capacity, which is a level over it", 1000, 1, []asker{{5000, light}}, 10_000, 1},
		{"a light caller gets what the others leave", 1000, 1, []asker{{5000, light}, {300, one}}, 7000, 1},
		{"callers that are protected use all of it", 1000, 100, append(slices.Repeat([]asker{{80, one}}, 20), asker{500, one}), 100, 1},
		{"a crowd of equals above what is protected", 1000, 100, slices.Repeat([]asker{{110, one}}, 20), 100, 20},
		{"who asks for just what is protected is not limited", 1000, 100, []asker{{100, one}, {3000, one}}, 900, 1},
	} {
		terms := &Terms{Capacity: test.capacity, Protect: test.protect * Unit}
		demand := tallyOf(terms, test.callers...)
		demand.Quarter = 7
		got := new(Level).next(terms, &demand)
		if want := (Level{7, test.level * Unit, demand.Total, test.above}); got != want {
			t.Errorf("%s: got %+v, want %+v", test.name, got, want)
		}
	}
}

func TestALimitIsTheLevelTimesTheWeight(t *testing.T) {
	terms := &Terms{Capacity: 1000, Protect: 20 * Unit}
	for _, test := range []struct{ level, weight, want int64 }{
		{0, Unit, math.MaxInt64},
		{30 * Unit, Unit, 30 * Unit},
		{30 * Unit, 4 * Unit, 120 * Unit},
		{30 * Unit, Unit / 2, 20 * Unit}, // what is protected
		{math.MaxInt64, 1000 * Unit, math.MaxInt64},
	} {
		if got := (&Level{Level: test.level}).Limit(terms, test.weight); got != test.want {
			t.Errorf("level %d, weight %d: got %d, want %d", test.level, test.weight, got, test.want)
		}
	}
}

// TestALevelMoves: it falls at once, rises by 10.7 % a quarter, and ends at the capacity when nobody asks for more.
func TestALevelMoves(t *testing.T) {
	terms := &Terms{Capacity: 1000, Protect: 10 * Unit}
	crowd := func(n int, asked int64) []asker { return slices.Repeat([]asker{{asked, Unit}}, n) }
	var l Level
	for i, step := range []struct {
		quarter int64
		callers []asker
		want    int64
	}{
		{1, crowd(2, 600), 500_000},
		{2, crowd(10, 600), 100_000}, // falls at once
		{3, crowd(2, 600), 110_700},
		{4, crowd(2, 300), 122_544}, // there is room, and it is not forgotten yet
		{6, crowd(2, 300), 150_171}, // two quarters
		{7, crowd(100, 20), 10_000}, // not under what is protected
		{1006, crowd(2, 600), 500_000},
		{2006, crowd(2, 500), 0},
		{2007, crowd(1, 5000), 1_000_000},
		{2008, crowd(2, 600), 500_000},
		{2014, crowd(2, 500), 920_141}, // six quarters
		{2015, crowd(2, 500), 0},       // it would be 1.02 times the capacity
	} {
		demand := tallyOf(terms, step.callers...)
		demand.Quarter = step.quarter
		if l = l.next(terms, &demand); l.Level != step.want || l.Quarter != step.quarter {
			t.Errorf("step %d: got level %d of quarter %d, want %d of %d", i, l.Level, l.Quarter, step.want, step.quarter)
		}
	}
}

// TestALevelEndsAtTheCapacity, and not only above it.
func TestALevelEndsAtTheCapacity(t *testing.T) {
	terms, demand := &Terms{Capacity: 1000, Protect: Unit}, Tally{Quarter: 2, Total: 1000}
	for before, want := range map[int64]int64{903_342: 999_999, 903_343: 0} {
		if got := (&Level{Quarter: 1, Level: before}).next(terms, &demand); got.Level != want {
			t.Errorf("after %d: got level %d, want %d", before, got.Level, want)
		}
	}
}

// TestALevelOverAllNumbersIsALevel: a caller of weight 0.001 alone has a thousand times the capacity.
func TestALevelOverAllNumbersIsALevel(t *testing.T) {
	terms := &Terms{Capacity: 1e13, Protect: Unit}
	demand := tallyOf(terms, asker{2e13, 1})
	if got := new(Level).next(terms, &demand); got.Level != math.MaxInt64 {
		t.Errorf("got %+v, want the largest level", got)
	}
}

// TestALevelRisesByHalfAWindow: from anything to anything, and neither too fast nor never.
func TestALevelRisesByHalfAWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		level := rapid.Int64Range(1, 1<<62).Draw(t, "level")
		quarters := rapid.Int64Range(1, 3).Draw(t, "quarters")
		got := risen(level, quarters)
		if most := float64(level)*math.Pow(1.107, float64(quarters))*(1+1e-12) + float64(quarters); got <= level || float64(got) > most {
			t.Fatalf("%d quarters after %d: got %d, want more, and at most %.0f", quarters, level, got, most)
		}
		if window := float64(risen(level, 4)) / float64(level); level > 1000 && level < 1<<61 && math.Abs(window-1.5) > 0.01 {
			t.Fatalf("a window after %d: got %.3f times as much, want 1.5", level, window)
		}
	})
	for _, quarters := range []int64{math.MinInt64, 0, 1} {
		if got := risen(1000, quarters); got != 1107 {
			t.Errorf("%d quarters after 1000: got %d, want 1107 as after one", quarters, got)
		}
	}
	if got := risen(1, math.MaxInt64); got != math.MaxInt64 {
		t.Errorf("for ever after 1: got %d", got)
	}
}

// hostile is a tally that no owner makes.
func hostile(t *rapid.T) Tally {
	number := rapid.OneOf(rapid.Int64Range(1, 10), rapid.Int64Range(1, math.MaxInt64), rapid.Just[int64](math.MaxInt64))
	d := Tally{Quarter: rapid.Int64().Draw(t, "quarter"), Total: number.Draw(t, "total")}
	for range rapid.IntRange(0, 4).Draw(t, "classes") {
		callers := number.Draw(t, "callers")
		d.add(Class{
			rapid.IntRange(0, maxClass).Draw(t, "class"), callers, rapid.Int64Range(callers, math.MaxInt64).Draw(t, "weight"),
			rapid.Int64Range(callers, math.MaxInt64).Draw(t, "asked"),
		})
	}
	return d
}

// TestHostileTalliesMakeALevelInItsBounds: whatever some partitions say, a level protects what it should, and rises no faster.
func TestHostileTalliesMakeALevelInItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var demand Tally
		for range rapid.IntRange(1, 5).Draw(t, "partitions") {
			d := hostile(t)
			demand.plus(&d)
		}
		capacity := rapid.OneOf(rapid.Int64Range(1, 1e6), rapid.Int64Range(1, 1e18)).Draw(t, "capacity")
		terms := &Terms{Capacity: capacity, Protect: max(1, capacity/1000*Unit/1000)}
		before := Level{Quarter: -1, Level: rapid.Int64Range(0, 1e6).Draw(t, "before")}
		got := before.next(terms, &demand)
		switch {
		case got.Level != 0 && got.Level < terms.Protect:
			t.Fatalf("got level %d, want at least %d", got.Level, terms.Protect)
		case before.Level > 0 && got.Level > max(terms.Protect, risen(before.Level, demand.Quarter+1)):
			t.Fatalf("got level %d after %d", got.Level, before.Level)
		case got.Level == 0 && demand.Total > capacity:
			t.Fatalf("got no level, and %d ask for %d", demand.Total, capacity)
		case got.Asked < 0 || got.Above < 0:
			t.Fatalf("got %+v", got)
		}
	})
}

func BenchmarkLevel(b *testing.B) {
	terms := &Terms{Capacity: 1_000_000, Protect: 1000 * Unit}
	var h Home
	for partition := range 16 {
		t := Tally{Quarter: 1}
		for i := range 40 {
			asked := int64(1100 * math.Pow(2, float64(i)/4))
			t.Add(terms, asked, Unit)
			t.Total += asked
		}
		h.Receive(partition, &t, 1)
	}
	b.ReportAllocs()
	for b.Loop() {
		h.Level = Level{}
		if made, _ := h.Next(terms, 1, 2); !made || h.Level.Level == 0 {
			b.Fatal("got no level")
		}
	}
}
