package bouncer

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// tableModel is a table by brute force.
type tableModel map[netip.Addr]*modelEntry

type modelEntry struct {
	nextCheck int64
	version   uint64
	closed    bool
}

// TestTableIsItsModel does what views do, at random, and compares everything after each step.
func TestTableIsItsModel(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 7))
		tab, model, version := newTable(), tableModel{}, uint64(0)
		for range 600 {
			addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(random.IntN(40))})
			slot, m := tab.find(addr), model[addr]
			if (slot == none) != (m == nil) {
				t.Fatalf("%v: got slot %d, want that it is there %t", addr, slot, m != nil)
			}
			switch action := random.IntN(10); {
			case m == nil:
				tab.insert(addr)
				model[addr] = &modelEntry{nextCheck: never}
			case action == 0:
				tab.remove(slot)
				delete(model, addr)
			case action < 5:
				m.nextCheck = int64(random.IntN(1000))
				tab.wake(slot, m.nextCheck)
			case action == 5:
				tab.unlink(slot)
				m.version = 0
			default:
				version++
				e := tab.at(slot)
				if closed := random.IntN(2) == 0; closed != e.closed {
					tab.closed += map[bool]int{true: 1, false: -1}[closed]
					e.closed, m.closed = closed, closed
				}
				m.version = version
				tab.touch(slot, version)
			}
			compareTables(t, tab, model, uint64(random.IntN(int(version)+1)))
		}
	}
}

func compareTables(t *testing.T, tab *table, model tableModel, since uint64) {
	t.Helper()
	first := int64(never)
	var want [2][]uint64
	nClosed := 0
	for addr, m := range model {
		first = min(first, m.nextCheck)
		if m.closed {
			nClosed++
		}
		of := opened
		if m.closed {
			of = closed
		}
		if m.version > since {
			want[of] = append(want[of], m.version)
		}
		if e := tab.at(tab.find(addr)); e.address() != addr || e.nextCheck != m.nextCheck || !tab.used(tab.find(addr)) {
			t.Fatalf("%v: got %+v, want %+v", addr, e, m)
		}
	}
	if _, at := tab.first(); at != first || len(tab.slots) != len(model) || tab.closed != nClosed {
		t.Fatalf("got the first at %d, %d entries and %d closed, want %d, %d and %d", at, len(tab.slots), tab.closed, first, len(model), nClosed)
	}
	for of := range want {
		slices.Sort(want[of])
		var got []uint64
		for _, slot := range tab.since(of, since, nil) {
			got = append(got, tab.at(slot).version)
		}
		if !slices.Equal(got, want[of]) {
			t.Fatalf("list %d: got versions %v behind %d, want %v", of, got, since, want[of])
		}
	}
	used := 0
	for slot := range tab.end() {
		if tab.used(slot) {
			used++
		}
	}
	if used != len(model) {
		t.Fatalf("got %d slots in use, want %d", used, len(model))
	}
}

// TestAnEmptyTableHoldsNoMemory: after a storm, a view is as small as before.
func TestAnEmptyTableHoldsNoMemory(t *testing.T) {
	tab := newTable()
	var slots []int32
	for i := range 10 * pageSize {
		slots = append(slots, tab.insert(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})))
	}
	if tab.end() != 10*pageSize {
		t.Errorf("got %d slots, want %d", tab.end(), 10*pageSize)
	}
	for _, slot := range slots {
		tab.remove(slot)
	}
	if tab.end() != 0 || len(tab.free) != 0 {
		t.Errorf("got %d slots and %d free ones, want none", tab.end(), len(tab.free))
	}
}
