package merge

import (
	"fmt"
	"hash/maphash"
	"math"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/schemas"
)

const tick = schemas.MergeTick

var seed = maphash.MakeSeed()

// hashOf is equal for equal entries, whatever their counts.
func hashOf(e *schemas.Entry) uint64 {
	return maphash.String(seed, fmt.Sprint(
		e.Kind, "\x00", e.ID, "\x00", e.Resource, e.Status, e.Blocked, e.Early, e.Response, Tick(e.Time),
		ArrivedIn(e.Arrived, e.Count), e.Declared != 0))
}

func request(id string, at int64) *schemas.Entry {
	return &schemas.Entry{Time: at, Kind: "ip", ID: id, Resource: "/a", Count: 1}
}

func add(t *testing.T, tb *Table, e *schemas.Entry) {
	t.Helper()
	if !tb.Add(hashOf(e), e) {
		t.Fatalf("no room for %+v", e)
	}
}

func all(tb *Table) (es []schemas.Entry) {
	tb.Each(func(_ uint64, e *schemas.Entry) {
		c := *e
		c.Kind, c.ID, c.Resource = strings.Clone(e.Kind), strings.Clone(e.ID), strings.Clone(e.Resource)
		es = append(es, c)
	})
	return es
}

// check fails the test if the table is not in order: sums, index and arena.
func check(t interface{ Fatalf(string, ...any) }, tb *Table) {
	var requests uint64
	inUse := 0
	for _, v := range tb.index {
		if v != 0 {
			inUse++
		}
	}
	if inUse != len(tb.entries) {
		t.Fatalf("index holds %d entries, want %d", inUse, len(tb.entries))
	}
	var e schemas.Entry
	for i := range tb.entries {
		tb.Read(i, &e)
		if s := &tb.entries[i]; s.shape&flagAddr != 0 {
			e.ID = string(tb.arena[int(s.off)+s.shape.kind():][:16])
		}
		requests += uint64(e.Count)
		if s := tb.entries[i].shape; s&(flagArrived|flagDeclared) != holdFlags(&e) {
			t.Fatalf("entry %d (%+v) has shape %b", i, e, s)
		}
		if at, found := tb.find(tb.entries[i].hash, tb.entries[i].shape, &e); found && int(tb.index[at]) == i+1 {
			continue
		}
		if e.Count < math.MaxUint32/2 && max(e.Cost, e.Arrived, e.Declared) < math.MaxInt64/2 { // those that are nearly full are not mergeable
			t.Fatalf("entry %d (%+v) is not found by the index", i, e)
		}
	}
	if tb.holds != nil && len(tb.holds) != len(tb.entries) {
		t.Fatalf("got holds of %d entries, want of %d", len(tb.holds), len(tb.entries))
	}
	if requests != tb.Requests() {
		t.Fatalf("got %d requests, want the sum of counts, %d", tb.Requests(), requests)
	}
}

func TestEqualEntriesOfOneTickBecomeOne(t *testing.T) {
	tb := New(16)
	add(t, tb, request("a", 5*tick+3))
	add(t, tb, request("a", 5*tick+9))
	add(t, tb, request("a", 5*tick+1)) // out of order
	got := all(tb)
	if len(got) != 1 || got[0].Count != 3 || got[0].Time != 5*tick+9 {
		t.Errorf("got %+v, want one entry of 3 requests with the time of the last", got)
	}
}

func TestWhatDiffersStaysApart(t *testing.T) {
	base := schemas.Entry{Time: 7 * tick, Kind: "ip", ID: "ab", Resource: "/a", Count: 1}
	differ := map[string]func(e *schemas.Entry){
		"kind":            func(e *schemas.Entry) { e.Kind = "key" },
		"id":              func(e *schemas.Entry) { e.ID = "ac" },
		"resource":        func(e *schemas.Entry) { e.Resource = "/b" },
		"no resource":     func(e *schemas.Entry) { e.Resource = "" },
		"status":          func(e *schemas.Entry) { e.Status = 200 },
		"blocked":         func(e *schemas.Entry) { e.Blocked = true },
		"blocked early":   func(e *schemas.Entry) { e.Blocked, e.Early = true, true },
		"response":        func(e *schemas.Entry) { e.Response = true },
		"tick":            func(e *schemas.Entry) { e.Time += tick },
		"tick before":     func(e *schemas.Entry) { e.Time-- },
		"kind and id cut": func(e *schemas.Entry) { e.Kind, e.ID = "ipa", "b" },
		"id and resource": func(e *schemas.Entry) { e.ID, e.Resource = "ab/", "a" },
	}
	for name, change := range differ {
		t.Run(name, func(t *testing.T) {
			other := base
			change(&other)
			tb := New(16)
			// One hash for both: the comparison must tell them apart, not luck.
			if !tb.Add(1, &base) || !tb.Add(1, &other) || !tb.Add(1, &base) {
				t.Fatal("no room")
			}
			got := all(tb)
			if len(got) != 2 || got[0].Count != 2 || got[1] != other {
				t.Errorf("got %+v, want %+v twice and %+v", got, base, other)
			}
		})
	}
}

func TestAddressesAreKeptAsBytesAndReadAsText(t *testing.T) {
	tb := New(16)
	for _, text := range []string{"203.0.113.9", "2001:db8::1", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"} {
		addr := netip.MustParseAddr(text).As16()
		e := request(string(addr[:]), 0)
		for range 2 {
			if !tb.AddKey(1, e, true) {
				t.Fatal("no room")
			}
		}
		if !tb.Add(1, e) { // no address, though its bytes are the same
			t.Fatal("no room")
		}
		if s := all(tb)[tb.Len()-2]; s.ID != text || s.Count != 2 {
			t.Errorf("got %+v, want %s twice", s, text)
		}
		if s := all(tb)[tb.Len()-1]; s.ID != e.ID || s.Count != 1 {
			t.Errorf("got %+v, want the 16 bytes once", s)
		}
	}
	check(t, tb)
	for tb.Add(2, request(fmt.Sprint("fill ", tb.Len()), 0)) {
	}
	addr := netip.MustParseAddr("192.0.2.7").As16()
	tb.nextVictim = 4 // past those that were counted twice
	tb.ReplaceKey(1, request(string(addr[:]), 0), true)
	if s := all(tb)[5]; s.ID != "192.0.2.7" {
		t.Errorf("got %+v, want the newcomer's address", s)
	}
	check(t, tb)
}

func TestSumsThatDoNotFitMakeAnotherEntry(t *testing.T) {
	for name, e := range map[string]schemas.Entry{
		"count": {Kind: "ip", ID: "a", Count: math.MaxUint32, Response: true},
		"cost":  {Kind: "ip", ID: "a", Count: 1, Cost: math.MaxInt64, Response: true},
	} {
		t.Run(name, func(t *testing.T) {
			tb := New(16)
			add(t, tb, &e)
			add(t, tb, &e)
			if got := all(tb); len(got) != 2 || got[0] != e || got[1] != e {
				t.Errorf("got %+v, want %+v twice", got, e)
			}
		})
	}
}

func TestTicksAreAlignedOnBothSidesOf1970(t *testing.T) {
	for at, want := range map[int64]int64{
		0: 0, 1: 0, tick - 1: 0, tick: 1, -1: -1, -tick: -1, -tick - 1: -2, math.MaxInt64: math.MaxInt64 / tick,
	} {
		if got := Tick(at); got != want {
			t.Errorf("tick of %d: got %d, want %d", at, got, want)
		}
	}
}

func TestAFullTableStillMerges(t *testing.T) {
	tb := New(16)
	for i := range cap(tb.entries) {
		add(t, tb, request(fmt.Sprint(i), 0))
	}
	if e := request("one more", 0); tb.Add(hashOf(e), e) {
		t.Error("a full table took another entry")
	}
	add(t, tb, request("3", 0))
	check(t, tb)
	if tb.Requests() != uint64(cap(tb.entries)+1) {
		t.Errorf("got %d requests, want %d", tb.Requests(), cap(tb.entries)+1)
	}
}

func TestKeysAreBoundedToo(t *testing.T) {
	tb := New(16)
	n := 0
	for ; n < 100; n++ {
		e := request(strings.Repeat("x", 250)+fmt.Sprint(n), 0)
		e.Resource = strings.Repeat("y", schemas.MaxResource)
		if !tb.Add(hashOf(e), e) {
			break
		}
	}
	if n < 4 || n >= cap(tb.entries) {
		t.Errorf("got room for %d entries of the longest keys, want at least 4 and fewer than %d", n, cap(tb.entries))
	}
	check(t, tb)
}

func TestNothingIsAllocatedAfterNew(t *testing.T) {
	tb := New(64)
	es := make([]*schemas.Entry, 100)
	hs := make([]uint64, len(es))
	for i := range es {
		es[i] = request(fmt.Sprint(i), 0)
		hs[i] = hashOf(es[i])
	}
	n := testing.AllocsPerRun(100, func() {
		for i, e := range es {
			if !tb.Add(hs[i], e) {
				tb.Replace(hs[i], e)
			}
		}
		tb.Each(func(uint64, *schemas.Entry) {})
		tb.Reset()
	})
	if n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

// A table against a map, with hashes that collide on purpose.
func TestTableAgainstAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tb := New(16)
		truth := map[schemas.Entry]uint64{}
		var dropped, given uint64
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			if rapid.IntRange(0, 99).Draw(t, "reset") == 0 {
				tb.Reset()
				clear(truth)
				dropped, given = 0, 0
			}
			e := schemas.Entry{
				Kind: "ip", ID: rapid.StringMatching(`[a-f]{1,3}`).Draw(t, "id"),
				Blocked: rapid.Bool().Draw(t, "blocked"), Count: rapid.Uint32Range(1, 3).Draw(t, "count"),
				Time: rapid.Int64Range(0, 2).Draw(t, "tick") * tick,
			}
			key := e
			key.Count = 0
			hash := hashOf(&e) % 40
			given += uint64(e.Count)
			if tb.Add(hash, &e) {
				truth[key] += uint64(e.Count)
			} else {
				dropped += tb.Replace(hash, &e)
			}
			check(t, tb)
		}
		if tb.Requests()+dropped != given {
			t.Fatalf("got %d held and %d dropped, want %d together", tb.Requests(), dropped, given)
		}
		if dropped > 0 {
			return // the map does not know which
		}
		for _, e := range all(tb) {
			key := e
			key.Count = 0
			if truth[key] != uint64(e.Count) {
				t.Fatalf("%v: got %d, want %d", key, e.Count, truth[key])
			}
			delete(truth, key)
		}
		if len(truth) != 0 {
			t.Fatalf("missing: %v", truth)
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	tb := New(4096)
	es := make([]*schemas.Entry, 1024)
	hs := make([]uint64, len(es))
	for i := range es {
		es[i] = request(fmt.Sprintf("203.0.113.%d", i), 0)
		hs[i] = hashOf(es[i])
	}
	for i := 0; b.Loop(); i++ {
		tb.Add(hs[i%1024], es[i%1024])
	}
}

func TestReplaceDropsTheSmallAndKeepsTheFlood(t *testing.T) {
	tb := New(16)
	for i := range cap(tb.entries) {
		add(t, tb, request(fmt.Sprint("once", i), 0))
	}
	put := func(e *schemas.Entry) uint64 {
		if tb.Add(hashOf(e), e) {
			return 0
		}
		return tb.Replace(hashOf(e), e)
	}
	var dropped uint64
	for i := range 1000 {
		dropped += put(request("flood", 0))
		dropped += put(request(fmt.Sprint("also once", i), 0))
	}
	check(t, tb)
	if got, want := tb.Requests()+dropped, uint64(cap(tb.entries)+2000); got != want {
		t.Errorf("got %d requests held and dropped, want %d", got, want)
	}
	for _, e := range all(tb) {
		if e.ID == "flood" {
			if e.Count < 990 {
				t.Errorf("got %d requests of the flood, want nearly 1000", e.Count)
			}
			return
		}
	}
	t.Error("the flood was dropped")
}

func TestReplaceNeverDropsMoreThanItKeeps(t *testing.T) {
	tb := New(16)
	for i := range cap(tb.entries) {
		e := request(fmt.Sprint(i), 0)
		e.Count = 5
		add(t, tb, e)
	}
	e := request("small", 0)
	if got := tb.Replace(hashOf(e), e); got != 1 {
		t.Errorf("got %d dropped, want the newcomer's single request", got)
	}
	e.Count = 6
	if got := tb.Replace(hashOf(e), e); got != 5 {
		t.Errorf("got %d dropped, want the 5 of a smaller entry", got)
	}
	check(t, tb)
}

// Comparing in line must come to what comparing strings does, for all lengths, and wherever the difference is.
func FuzzSame(f *testing.F) {
	f.Add("ip", "203.0.113.9", "/v1/search", 3)
	f.Add("", "", "", 0)
	for n := range 20 {
		f.Add("key"[:n%4], strings.Repeat("i", n), strings.Repeat("r", 3*n), n)
	}
	f.Fuzz(func(t *testing.T, kind, id, resource string, at int) {
		e := schemas.Entry{Kind: kind, ID: id, Resource: resource}
		key := []byte(kind + id + resource + "what follows in the arena")
		if !same(key, &e) {
			t.Fatalf("%+v: got another, want the same", e)
		}
		if n := len(kind) + len(id) + len(resource); n > 0 {
			key[uint(at)%uint(n)] ^= 1 << (uint(at) / 7 % 8)
			if same(key, &e) {
				t.Errorf("%+v: got the same as %q, want another", e, key[:n])
			}
		}
	})
}

func TestShapeHoldsWhatItIsMadeOf(t *testing.T) {
	e := schemas.Entry{
		Kind: strings.Repeat("k", schemas.MaxCallerKind), ID: strings.Repeat("i", schemas.MaxCallerID),
		Resource: strings.Repeat("r", schemas.MaxResource), Status: 65535, Blocked: true, Response: true,
	}
	s := shapeOf(&e, true)
	if s.kind() != len(e.Kind) || s.id() != len(e.ID) || s.resource() != len(e.Resource) || s.status() != e.Status {
		t.Errorf("got %x, want what it was made of", s)
	}
	if all := flagBlocked | flagResponse | flagAddr; s&all != all || shapeOf(&schemas.Entry{Status: 65535}, false)&all != 0 {
		t.Errorf("got flags %x, want all three, and none of an entry without", s&all)
	}
}
