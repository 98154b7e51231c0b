package fold

import (
	"fmt"
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// tableKey is what a rowIndex finds rows by.
type tableKey struct {
	rule int32
	id   string
}

// tableModel is a rowIndex beside the map that says what it should hold. Hashes are few, so that most rows collide: some in
// the whole hash, some in the part that slots keep, some in their place only.
type tableModel struct {
	table rowIndex
	rows  map[tableKey]uint32
}

func (m *tableModel) hash(k tableKey) uint64 {
	n := uint64(len(k.id)) + uint64(k.rule)
	return n%3<<32 | n%2<<40 | n%7
}

func (m *tableModel) insert(t *rapid.T) {
	k := drawTableKey(t)
	if _, ok := m.rows[k]; ok {
		return
	}
	i := m.table.add(m.hash(k), k.rule, k.id)
	for other, at := range m.rows {
		if at == i {
			t.Fatalf("row %d is %v's, and %v got it too", i, other, k)
		}
	}
	if r := m.table.row(i); r.stored != 0 || r.dirty || len(r.state) != 0 || r.closure.Nth != 0 {
		t.Fatalf("got a used row %+v", r)
	}
	m.table.row(i).state = append(m.table.row(i).state, int64(i))
	m.table.row(i).stored = uint64(i) + 1
	m.table.row(i).closure.Nth = 1
	m.rows[k] = i
}

func (m *tableModel) remove(t *rapid.T) {
	k := drawTableKey(t)
	if i, ok := m.rows[k]; ok {
		m.table.free(i)
		delete(m.rows, k)
	}
}

func (m *tableModel) check(t *rapid.T) {
	if m.table.used != len(m.rows) {
		t.Fatalf("got %d rows in use, want %d", m.table.used, len(m.rows))
	}
	for rule := range int32(3) {
		for n := range 40 {
			k := tableKey{rule, fmt.Sprintf("%0*d", 1+n%5, n)}
			want, held := m.rows[k]
			got, ok := m.table.find(m.hash(k), k.rule, k.id)
			if ok != held || got != want {
				t.Fatalf("%v: got row %d, %v, want %d, %v", k, got, ok, want, held)
			}
		}
	}
	seen := 0
	m.table.each(func(i uint32, r *row) bool {
		seen++
		if m.rows[tableKey{int32(r.rule), r.id}] != i {
			t.Fatalf("each gives row %d of %s, want %d", i, r.id, m.rows[tableKey{int32(r.rule), r.id}])
		}
		return true
	})
	if seen != len(m.rows) {
		t.Fatalf("each gives %d rows, want %d", seen, len(m.rows))
	}
}

func drawTableKey(t *rapid.T) tableKey {
	n := rapid.IntRange(0, 39).Draw(t, "id")
	return tableKey{rapid.Int32Range(0, 2).Draw(t, "rule"), fmt.Sprintf("%0*d", 1+n%5, n)}
}

func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &tableModel{rows: make(map[tableKey]uint32)}
		t.Repeat(map[string]func(*rapid.T){"insert": m.insert, "more": m.insert, "remove": m.remove, "": m.check})
	})
}

// TestTableRemovesAroundItsEnd: a probe that runs over the end of the slots to their beginning finds its row still,
// whichever of the rows before it are removed.
func TestTableRemovesAroundItsEnd(t *testing.T) {
	const rows = 12
	for mask := range 1 << rows {
		var tb rowIndex
		var at [rows]uint32
		for n := range at {
			at[n] = tb.add(61+uint64(n%4), 0, fmt.Sprint(n)) // the last three of 64 slots, and the first
		}
		for n := range at {
			if mask>>n&1 == 1 {
				tb.free(at[n])
			}
		}
		for n := range at {
			_, ok := tb.find(61+uint64(n%4), 0, fmt.Sprint(n))
			if want := mask>>n&1 == 0; ok != want {
				t.Fatalf("removed %012b: got row %d found %v, want %v", mask, n, ok, want)
			}
		}
	}
}

func TestTableGrowsAndUsesRowsAgain(t *testing.T) {
	var tb rowIndex
	const rows = 10 * 1024
	insert := func(from int) {
		for n := range rows {
			id := fmt.Sprint(from + n)
			tb.add(rowHash(uint64(from+n), 0), 0, id)
		}
	}
	insert(0)
	for n := range rows {
		i, ok := tb.find(rowHash(uint64(n), 0), 0, fmt.Sprint(n))
		if !ok {
			t.Fatalf("row %d is gone", n)
		}
		if n%2 == 0 {
			tb.free(i)
		}
	}
	tb.each(func(i uint32, _ *row) bool { tb.free(i); return true })
	if tb.used != 0 {
		t.Fatalf("got %d rows left, want none", tb.used)
	}
	made := tb.Made()
	if insert(rows); tb.Made() != made {
		t.Errorf("got %d rows, want %d as before", tb.Made(), made)
	}
}

// chosenIDs returns so many ids that all begin among the first of 2^18 places under the partition key, as anybody finds
// them who knows the key: a hundredth of a second for each thousand.
func chosenIDs(n int) []string {
	key := schemas.DefaultPartitionKey()
	ids := make([]string, 0, n)
	for i := 0; len(ids) < n; i++ {
		id := fmt.Sprintf("2001:db8::%x:%x", i>>16, i&0xffff)
		if rowHash(key.Hash("ip", id), 0)&(1<<18-1) < 1<<10 {
			ids = append(ids, id)
		}
	}
	return ids
}

func plainIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("2001:db8:1::%x:%x", i>>16, i&0xffff)
	}
	return ids
}

// probes returns how many slots are passed, on average, to find each of n numbers in an index at most 2/3 full.
func probes(n int, home func(uint32) uint32) float64 {
	slots, sum := make([]bool, 1<<bits.Len(uint(n*3/2))), 0
	for i := range n {
		at := int(home(uint32(i))) & (len(slots) - 1)
		for sum++; slots[at]; sum++ {
			at = (at + 1) & (len(slots) - 1)
		}
		slots[at] = true
	}
	return float64(sum) / float64(n)
}

// TestChosenIDsCostNoMoreThanOthers: an attacker that knows the partition key, which is public by default, finds ids of
// one place. In the table, and in the waiting room, they are found as fast as others are.
func TestChosenIDsCostNoMoreThanOthers(t *testing.T) {
	testenv.Long(t)
	const callers = 20_000
	fill := func(ids []string) (rows, waiters float64) {
		f := New(foldtest.Rules(t, "{name: r, callers: ip, limit: 100, window: 1m}"), Options{MaxRows: callers / 2})
		for _, id := range ids {
			f.Entry(&schemas.Entry{Time: frameNow, Kind: "ip", ID: id, Count: 1})
		}
		return probes(f.table.used, f.table.home), probes(len(f.table.waiting.callers), f.table.waiting.home)
	}
	for name, ids := range map[string][]string{"chosen": chosenIDs(callers), "plain": plainIDs(callers)} {
		rows, waiters := fill(ids)
		t.Logf("%s: %.2f probes a row, %.2f a caller that waits", name, rows, waiters)
		if rows > 3 || waiters > 3 {
			t.Errorf("%s ids: got %.1f probes a row and %.1f a waiting caller, want 3 at most", name, rows, waiters)
		}
	}
}

// BenchmarkChosenInput is an entry of a caller that has a row, and of one that waits for one.
func BenchmarkChosenInput(b *testing.B) {
	const callers = 20_000
	for _, c := range []struct {
		name string
		ids  []string
	}{{"random", plainIDs(callers)}, {"chosen", chosenIDs(callers)}} {
		for _, room := range []struct {
			name string
			rows int
		}{{"table", callers}, {"waiting", callers / 4}} {
			b.Run(room.name+"/"+c.name, func(b *testing.B) {
				f := New(foldtest.Rules(b, "{name: r, callers: ip, limit: 1000000, window: 1h}"), Options{MaxRows: room.rows, NoStore: true})
				n := 0
				for b.Loop() {
					f.Entry(&schemas.Entry{Time: frameNow, Kind: "ip", ID: c.ids[n], Count: 1})
					if n++; n == callers {
						n = 0
					}
				}
			})
		}
	}
}

// TestTableSpreadsRules: the hashes that one partition sees share their low bits; their rows must not share slots.
func TestTableSpreadsRules(t *testing.T) {
	const callers, partitions = 4096, 64
	slots := make(map[uint64]int)
	for n := range uint64(callers) {
		for rule := range int32(3) {
			slots[rowHash((n*0x9e3779b97f4a7c15)/partitions*partitions+5, rule)%(4*callers)]++
		}
	}
	for slot, n := range slots {
		if n > 12 {
			t.Errorf("got %d rows at slot %d, want few", n, slot)
		}
	}
}

func TestFindDoesNotAllocate(t *testing.T) {
	var tb rowIndex
	tb.add(7, 1, "a")
	if n := testing.AllocsPerRun(100, func() {
		tb.find(7, 1, "a")
		tb.find(7, 1, "b")
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
