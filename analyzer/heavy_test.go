package analyzer

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
)

// What heavy says of a caller is never more than the caller did, and never less by more than the lightest of those held.
func TestHeavyAgainstExactCounts(t *testing.T) {
	for seed := range uint64(4) {
		var h heavy
		exact := make(map[uint64]uint64)
		var total uint64
		rng := rand.New(rand.NewPCG(seed, 1))
		for range 3 * heavySlots {
			hash := rng.Uint64N(2 * heavySlots)
			if rng.IntN(3) == 0 {
				hash = rng.Uint64N(16)
			}
			n := 1 + rng.Uint32N(3)
			exact[hash] += uint64(n)
			total += uint64(n)
			if got := h.add(hash, n, 1); got > exact[hash] || got == 0 {
				t.Fatalf("caller %d: got at least %d, want from 1 to the %d that it made", hash, got, exact[hash])
			}
		}
		if len(h.items) != heavySlots || len(h.at) != heavySlots {
			t.Fatalf("got %d items and %d hashes, want %d", len(h.items), len(h.at), heavySlots)
		}
		var sum uint64
		for i, item := range h.items {
			sum += item.count
			if h.at[item.hash] != uint32(i) || i > 0 && h.items[(i-1)/2].count > item.count {
				t.Fatalf("item %d is out of its place", i)
			}
			if made := exact[item.hash]; item.count < made || item.count-item.error > made {
				t.Fatalf("caller %d: got %d to %d, want the %d that it made between", item.hash, item.count-item.error, item.count, made)
			}
		}
		if sum != total {
			t.Fatalf("got counts that add up to %d, want all %d requests", sum, total)
		}
		for hash, n := range exact {
			if _, held := h.at[hash]; !held && n > h.items[0].count {
				t.Fatalf("caller %d made %d requests and is not held, though the lightest is at %d", hash, n, h.items[0].count)
			}
		}
	}
}

func TestHeavyForgetsWithEachPeriod(t *testing.T) {
	var h heavy
	for i, step := range []struct {
		at   int64
		want uint64
	}{{0, 1}, {1, 2}, {heavyPeriod - 1, 3}, {heavyPeriod, 1}, {heavyPeriod + 1, 2}, {5 * heavyPeriod, 1}, {-1, 2}, {-heavyPeriod, 1}} {
		if step.at == -1 {
			step.at = 5*heavyPeriod + 1
		}
		if got := h.add(7, 1, step.at); got != step.want {
			t.Errorf("step %d: got %d, want %d", i, got, step.want)
		}
	}
}

// flooded is a fold under a flood of callers of whom each comes once, and who may be far more than there is room for.
type flooded struct {
	*Fold

	now    int64
	thrown uint64
	closed map[string]int64
}

func newFlooded(t *testing.T, rows int) *flooded {
	t.Helper()
	return &flooded{
		Fold: NewFold(ruleSet(t, "{name: r, callers: ip, limit: 100, window: 1m}"), FoldOptions{MaxRows: rows, NoStore: true}),
		now:  frameNow, closed: make(map[string]int64),
	}
}

// second folds a second in which so many new callers come, beside those who make the given number of requests.
func (f *flooded) second(throwaways int, others map[string]int) {
	const parts = 100
	for part := range parts {
		f.now += second / parts
		for range throwaways / parts {
			f.thrown++
			f.Entry(&schemas.Entry{Time: f.now, Kind: "ip", ID: "2001:db8::" + strconv.FormatUint(f.thrown>>16, 16) + ":" + strconv.FormatUint(f.thrown&0xffff, 16), Count: 1})
		}
		for id, n := range others {
			for range n*(part+1)/parts - n*part/parts {
				f.Entry(&schemas.Entry{Time: f.now, Kind: "ip", ID: id, Count: 1})
			}
		}
		for _, c := range f.TakeChanges() {
			if c.Kind == policy.Closed && f.closed[c.Caller.ID] == 0 {
				f.closed[c.Caller.ID] = f.now
			}
		}
	}
}

// TestTenMillionCallers: a flood of addresses of which each comes once fills the table. Who came before is counted to the
// unit; an offender who comes amid the flood is closed within two seconds; nobody else is; memory stays where it was.
// FLOODGATE_CALLERS is how many come, in a minute: 10000000 for the full flood.
func TestTenMillionCallers(t *testing.T) {
	callers := 1_000_000
	if text := os.Getenv("FLOODGATE_CALLERS"); text != "" {
		callers = mustAtoi(t, text)
	}
	const rows = 20_000
	f := newFlooded(t, rows)
	f.second(0, map[string]int{"192.0.2.1": 1, "192.0.2.2": 1}) // customers
	perSecond := callers / 60
	for range 20 {
		f.second(perSecond, map[string]int{"192.0.2.1": 1})
	}
	before := heapInUse()
	began := f.now
	for range 40 {
		f.second(perSecond, map[string]int{"192.0.2.1": 1, "203.0.113.66": 120, "198.51.100.7": 1})
	}
	grown := int64(heapInUse()) - int64(before)
	t.Logf("%d callers, %d rows, %d weight not counted, offender closed after %.2f s, heap grew by %d KiB", f.thrown, f.Stats().Rows,
		f.Stats().Uncounted, float64(f.closed["203.0.113.66"]-began)/float64(second), grown>>10)
	if at := f.closed["203.0.113.66"]; at == 0 || at-began > 2*second {
		t.Errorf("the offender: got closed after %d ns, want within 2 s", at-began)
	}
	if len(f.closed) != 1 {
		t.Errorf("got %v closed, want the offender alone", f.closed)
	}
	if got := totals(f.Fold)["r 192.0.2.1"]; got != 61 {
		t.Errorf("a customer from before the flood: got %d, want all 61", got)
	}
	if f.Stats().Rows > rows+rows/8 || grown > 8<<20 {
		t.Errorf("got %d rows and %d bytes more, want no more than there is room for", f.Stats().Rows, grown)
	}
	if st := f.Stats(); st.Requests-st.Uncounted > uint64(st.Rows)+61+40*121 {
		t.Errorf("got %+v: more was counted than came of those who have rows", st)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A cost makes nobody heavy, and a merged entry counts as many requests as it stands for.
func TestWhoIsHeavyGoesByRequests(t *testing.T) {
	f := NewFold(ruleSet(t, "{name: r, callers: key, limit: 1000, window: 1m, measure: cost}"), FoldOptions{MaxRows: 2})
	entry := func(id string, count uint32, cost int64) {
		f.Entry(&schemas.Entry{Time: frameNow, Kind: "key", ID: id, Count: count, Cost: cost, Response: true, Status: 200})
	}
	entry("a", 1, 1)
	entry("b", 1, 1)
	entry("costly", 1, 5000)
	if st := f.Stats(); st.Rows != 2 || st.Uncounted != 5000 {
		t.Errorf("got %d rows and %d uncounted, want 2 and its cost", st.Rows, st.Uncounted)
	}
	entry("merged", heavyCount, 10)
	if got := fmt.Sprint(totals(f)); got != "map[r a:1 r b:1 r merged:10]" {
		t.Errorf("got %v, want the merged one in", got)
	}
	for range 100 {
		entry("more", heavyCount, 1)
	}
	if st := f.Stats(); st.Rows != 3 {
		t.Errorf("got %d rows, want no more than an eighth over the bound", st.Rows)
	}
}
