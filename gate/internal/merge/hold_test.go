package merge

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/schemas"
)

// response is the end of one request of caller a that arrived at a tick.
func response(arrived, declared int64) *schemas.Entry {
	return &schemas.Entry{
		Time: 900 * tick, Kind: "ip", ID: "a", Resource: "/a", Count: 1, Response: true, Cost: 3, Arrived: arrived, Declared: declared,
	}
}

func TestWhichHoldsMerge(t *testing.T) {
	twice := func(e *schemas.Entry) *schemas.Entry {
		e.Count, e.Arrived, e.Declared, e.Cost = 2*e.Count, 2*e.Arrived, 2*e.Declared, 2*e.Cost
		return e
	}
	for name, test := range map[string]struct {
		a, b  *schemas.Entry
		merge bool
	}{
		"one tick":                                  {response(705, 10), response(705, 10), true},
		"one second":                                {response(700, 10), response(799, 2000), true},
		"the second after":                          {response(799, 10), response(800, 10), false},
		"the second before":                         {response(700, 10), response(699, 10), false},
		"two of one second, one of it":              {twice(response(760, 10)), response(700, 10), true},
		"two of one second, one of the next":        {twice(response(760, 10)), response(800, 10), false},
		"two of one second, one of twice as late":   {twice(response(360, 10)), response(720, 10), false},
		"unknown arrivals":                          {response(0, 10), response(0, 10), true},
		"an unknown arrival and one of second 0":    {response(0, 10), response(3, 10), false},
		"nothing declared":                          {response(700, 0), response(701, 0), true},
		"something declared, and nothing":           {response(700, 1), response(700, 0), false},
		"neither":                                   {response(0, 0), response(0, 0), true},
		"all of it, and nothing":                    {response(700, 1), response(0, 0), false},
		"arrivals that differ in what they declare": {request("a", 0), &schemas.Entry{Kind: "ip", ID: "a", Resource: "/a", Count: 1, Declared: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			tb := NewHolding(16)
			if !tb.Add(1, test.a) || !tb.Add(1, test.b) || !tb.Add(1, test.a) { // one hash: the comparison must tell them apart
				t.Fatal("no room")
			}
			want := []schemas.Entry{*test.a, *test.b}
			add := func(to, e *schemas.Entry) {
				to.Count, to.Cost, to.Arrived, to.Declared = to.Count+e.Count, to.Cost+e.Cost, to.Arrived+e.Arrived, to.Declared+e.Declared
			}
			add(&want[0], test.a)
			if test.merge {
				add(&want[0], test.b)
				want = want[:1]
			}
			if got := all(tb); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// A table without holds merges as it did before there were any.
func TestATableWithoutHoldsKeepsNone(t *testing.T) {
	tb := New(16)
	for _, e := range []*schemas.Entry{response(700, 10), response(900, 0), response(0, 5)} {
		if !tb.Add(1, e) {
			t.Fatal("no room")
		}
	}
	if got := all(tb); len(got) != 1 || got[0].Arrived != 0 || got[0].Declared != 0 || got[0].Count != 3 || got[0].Cost != 9 {
		t.Errorf("got %+v, want one entry of three requests without arrivals and declared costs", got)
	}
}

// Sums are exact or apart: none wraps around, and none is cut.
func TestHoldsThatDoNotFitMakeAnotherEntry(t *testing.T) {
	for name, e := range map[string]*schemas.Entry{
		"arrived": response(math.MaxInt64-50, 1), "declared": response(700, math.MaxInt64-50), "both": response(math.MaxInt64, math.MaxInt64),
	} {
		t.Run(name, func(t *testing.T) {
			tb := NewHolding(16)
			add(t, tb, e)
			add(t, tb, e)
			if got := all(tb); len(got) != 2 || got[0] != *e || got[1] != *e {
				t.Errorf("got %+v, want %+v twice", got, e)
			}
			check(t, tb)
		})
	}
}

// sums are those of entries that may merge.
type sums struct {
	count, cost, arrived, declared int64
}

func (s sums) plus(e *schemas.Entry) sums {
	return sums{s.count + int64(e.Count), s.cost + e.Cost, s.arrived + e.Arrived, s.declared + e.Declared}
}

// class is what entries have in common that may merge.
func class(e *schemas.Entry) string {
	second := int64(-1)
	if e.Arrived != 0 {
		second = e.Arrived / int64(e.Count) / 100
	}
	return fmt.Sprint(e.ID, Tick(e.Time), e.Response, e.Blocked, second, e.Declared != 0)
}

// A holding table against a map, with hashes that collide on purpose. Entries go through a second table, as those of stripes go
// through the queue of a partition.
func TestHoldsAgainstAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, second := NewHolding(16), NewHolding(512)
		want := map[string]sums{}
		passOn := func() {
			first.Each(func(hash uint64, e *schemas.Entry) {
				if !second.Add(hash, e) {
					t.Fatalf("no room for %+v", e)
				}
			})
			first.Reset()
		}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			e := schemas.Entry{
				Kind: "ip", ID: rapid.StringMatching(`[ab]`).Draw(t, "id"), Response: rapid.Bool().Draw(t, "response"), Count: 1,
				Time:     rapid.Int64Range(0, 1).Draw(t, "tick") * tick,
				Declared: rapid.SampledFrom([]int64{0, 0, 1, 1000, 1 << 40}).Draw(t, "declared"),
			}
			if e.Response {
				e.Cost, e.Arrived = rapid.Int64Range(0, 9).Draw(t, "cost"), rapid.Int64Range(0, 350).Draw(t, "arrived")
			} else {
				e.Blocked = rapid.Bool().Draw(t, "blocked")
			}
			want[class(&e)] = want[class(&e)].plus(&e)
			if hash := hashOf(&e) % 20; !first.Add(hash, &e) {
				passOn()
				first.Add(hash, &e)
			}
			check(t, first)
		}
		passOn()
		check(t, second)
		got := map[string]sums{}
		for _, e := range all(second) {
			if _, twice := got[class(&e)]; twice {
				t.Fatalf("%s: got two entries, want one", class(&e))
			}
			got[class(&e)] = sums{}.plus(&e)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestAHoldingTableGrowsReplacesAndAllocatesNothing(t *testing.T) {
	tb := NewHolding(16)
	for i := range 16 {
		e := response(int64(1000*(i+1)), 7)
		add(t, tb, e)
	}
	newcomer := response(99_000, 8)
	if tb.Add(hashOf(newcomer), newcomer) || tb.Replace(hashOf(newcomer), newcomer) != 1 {
		t.Fatal("got room in a full table")
	}
	check(t, tb)
	got := all(tb)
	if got[0] != *newcomer || got[1].Arrived != 2000 {
		t.Errorf("got %+v, want the newcomer in the first place", got[:2])
	}
	if larger := all(tb.Grown(64)); fmt.Sprint(larger) != fmt.Sprint(got) {
		t.Errorf("got %+v in the larger table, want %+v", larger, got)
	}
	hash := hashOf(newcomer)
	if n := testing.AllocsPerRun(100, func() {
		tb.Reset()
		for range 20 {
			tb.Add(hash, newcomer)
		}
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
	if got := all(tb); len(got) != 1 || got[0].Arrived != 20*99_000 || got[0].Declared != 160 {
		t.Errorf("got %+v, want one entry of 20", got)
	}
}

// Small sums between large ones are merged all the same.
func TestSmallHoldsMergeBesideLargeOnes(t *testing.T) {
	tb, merged := NewHolding(64), 0
	for range 20 {
		add(t, tb, response(700, math.MaxInt64))
		add(t, tb, response(700, 1))
	}
	for _, e := range all(tb) {
		if e.Count == 20 {
			merged++
		}
	}
	if tb.Len() != 21 || merged != 1 {
		t.Errorf("got %d entries, want 20 large ones and one of 20 requests: %+v", tb.Len(), all(tb))
	}
	check(t, tb)
}
