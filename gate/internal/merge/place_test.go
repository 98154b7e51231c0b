package merge

import (
	"fmt"
	"math"
	"testing"

	"github.com/509da70d/floodgate/schemas"
	"pgregory.net/rapid"
)

// steps returns how many places of the index one finds all entries in, each from its home on.
func steps(tb *Table) (n int) {
	mask := len(tb.index) - 1
	for at, v := range tb.index {
		if v != 0 {
			n += (at-tb.home(int(v)-1))&mask + 1
		}
	}
	return n
}

// TestLargeCountsDoNotPileUp: a client that can choose the count or the cost of its requests sends one that fits no sum of the
// last, again and again. All are kept, and each is found as fast as those of as many callers.
func TestLargeCountsDoNotPileUp(t *testing.T) {
	const n = 4096
	tests := map[string]func(i int, e *schemas.Entry){
		"the largest count": func(_ int, e *schemas.Entry) { e.Count = math.MaxUint32 },
		"the largest cost":  func(_ int, e *schemas.Entry) { e.Cost = math.MaxInt64 },
		"more than half":    func(i int, e *schemas.Entry) { e.Count = math.MaxUint32/2 + 1 + uint32(i%7) },
		"count and cost in turn": func(i int, e *schemas.Entry) {
			if i%2 == 0 {
				e.Count = math.MaxUint32
			} else {
				e.Cost = math.MaxInt64
			}
		},
		"the largest arrival":  func(_ int, e *schemas.Entry) { e.Arrived = math.MaxInt64 },
		"the largest declared": func(_ int, e *schemas.Entry) { e.Declared = math.MaxInt64 },
		"all in turn": func(i int, e *schemas.Entry) {
			e.Arrived, e.Declared = 1, 1
			switch i % 3 {
			case 0:
				e.Cost = math.MaxInt64
			case 1:
				e.Arrived = math.MaxInt64
			default:
				e.Declared = math.MaxInt64
			}
		},
	}
	for name, chosen := range tests {
		t.Run(name, func(t *testing.T) {
			tb, want := NewHolding(n), uint64(0)
			for i := range n {
				e := request("203.0.113.9", 0)
				e.Response = true
				chosen(i, e)
				add(t, tb, e)
				want += uint64(e.Count)
			}
			if tb.Len() < n/2 || tb.Requests() != want {
				t.Fatalf("got %d entries of %d requests, want %d or more of %d", tb.Len(), tb.Requests(), n/2, want)
			}
			if got := steps(tb); got > 4*tb.Len() {
				t.Errorf("got %d steps to %d entries, want at most %d", got, tb.Len(), 4*tb.Len())
			}
			check(t, tb)
			if tb.Reset(); steps(tb) != 0 {
				t.Errorf("got %d steps in an empty table", steps(tb))
			}
		})
	}
}

// Small requests between large ones are merged all the same.
func TestSmallCountsMergeBesideLargeOnes(t *testing.T) {
	tb := New(64)
	for range 20 {
		large, small := request("a", 0), request("a", 0)
		large.Count = math.MaxUint32
		add(t, tb, large)
		add(t, tb, small)
	}
	merged := 0
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

// Nothing is lost and the index stays whole, however large counts, small ones and replacements are mixed.
func TestLargeCountsAgainstASum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tb := NewHolding(16)
		var dropped, given uint64
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			e := schemas.Entry{
				Kind: "ip", ID: rapid.StringMatching(`[ab]`).Draw(t, "id"), Response: true,
				Count: rapid.SampledFrom([]uint32{1, 3, math.MaxUint32 / 2, math.MaxUint32}).Draw(t, "count"),
				Cost:  rapid.SampledFrom([]int64{0, 1, math.MaxInt64}).Draw(t, "cost"),

				Arrived:  rapid.SampledFrom([]int64{1, 2, math.MaxInt64}).Draw(t, "arrived"),
				Declared: rapid.SampledFrom([]int64{1, 2, math.MaxInt64}).Draw(t, "declared"),
			}
			given += uint64(e.Count)
			if hash := hashOf(&e); !tb.Add(hash, &e) {
				dropped += tb.Replace(hash, &e)
			}
			check(t, tb)
		}
		if tb.Requests()+dropped != given {
			t.Fatalf("got %d held and %d dropped, want %d together", tb.Requests(), dropped, given)
		}
		if tb.Reset(); steps(tb) != 0 {
			t.Fatal("a table that was emptied holds something")
		}
	})
}

// BenchmarkChosenInput adds requests of as many callers as there is room for, and of one caller whose counts fit no sum.
func BenchmarkChosenInput(b *testing.B) {
	const n = 4096
	random, chosen := make([]*schemas.Entry, n), make([]*schemas.Entry, n)
	for i := range n {
		random[i], chosen[i] = request(fmt.Sprint("caller ", i), 0), request("caller", 0)
		chosen[i].Count = math.MaxUint32
	}
	for name, entries := range map[string][]*schemas.Entry{"random": random, "chosen counts": chosen} {
		hashes := make([]uint64, n)
		for i, e := range entries {
			hashes[i] = hashOf(e)
		}
		b.Run(name, func(b *testing.B) {
			tb := New(n)
			for i := 0; b.Loop(); i++ {
				if !tb.Add(hashes[i%n], entries[i%n]) {
					tb.Reset()
				}
			}
		})
	}
}
