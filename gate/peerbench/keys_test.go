package main

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

func TestCrowdReturnsTwoDisjointGroups(t *testing.T) {
	for _, p := range []struct{ first, second int }{{few, few}, {1, few}, {5000, 3000}} {
		a, b := crowd(p.first, p.second)
		if len(a) != p.first || len(b) != p.second {
			t.Errorf("got groups of %d and %d, want %d and %d", len(a), len(b), p.first, p.second)
		}
		seen := map[string]bool{}
		for _, id := range slices.Concat(a, b) {
			if len(id) != idBytes || !strings.HasPrefix(id, "caller-") {
				t.Fatalf("got id %q, want %d bytes", id, idBytes)
			}
			if seen[id] {
				t.Fatalf("got %s twice", id)
			}
			seen[id] = true
		}
	}
}

// Two runs must ask the same of the same.
func TestCrowdIsTheSameEachTime(t *testing.T) {
	a, b := crowd(100, 100)
	c, d := crowd(100, 100)
	if !slices.Equal(a, c) || !slices.Equal(b, d) {
		t.Error("got other callers the second time")
	}
	if slices.IsSorted(a) {
		t.Error("got callers in order, want them at random")
	}
}

// address is where a string lies in memory.
func address(s string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(s))) }

func TestIDsLieOneBehindTheOther(t *testing.T) {
	keys := ids([]int{7, 1_000_000, 3})
	if want := []string{"caller-000000000000007", "caller-000000001000000", "caller-000000000000003"}; !slices.Equal(keys, want) {
		t.Errorf("got %q, want %q", keys, want)
	}
	for i := 1; i < len(keys); i++ {
		if address(keys[i]) != address(keys[i-1])+idBytes {
			t.Errorf("id %d does not lie behind the one before it", i)
		}
	}
}

func TestCopiesAreEqualAndElsewhere(t *testing.T) {
	keys := []string{"a", "bcd", "", "ef"}
	got := copies(keys)
	if !slices.Equal(got, keys) {
		t.Fatalf("got %q, want %q", got, keys)
	}
	for i := range keys {
		if keys[i] != "" && address(got[i]) == address(keys[i]) {
			t.Errorf("%q: got the same memory: a map would not have to compare it", keys[i])
		}
	}
	if got := copies(nil); len(got) != 0 {
		t.Errorf("got %q, want nothing", got)
	}
}

func TestShuffledKeepsAllAndTheOriginal(t *testing.T) {
	keys, _ := crowd(few, 1)
	before := slices.Clone(keys)
	got := shuffled(keys)
	if !slices.Equal(keys, before) {
		t.Error("the keys given were changed")
	}
	neighbours := 0
	at := map[string]int{}
	for i, k := range got {
		at[k] = i
	}
	for i := 1; i < len(keys); i++ {
		if at[keys[i]] == at[keys[i-1]]+1 {
			neighbours++
		}
	}
	if neighbours > few/50 {
		t.Errorf("got %d of %d still behind the one before, want next to none", neighbours, few)
	}
	slices.Sort(got)
	slices.Sort(before)
	if !slices.Equal(got, before) {
		t.Error("got other keys than were given")
	}
}

func TestDiceFallTheSameForTheSameSeed(t *testing.T) {
	a, b, c := dice(1), dice(1), dice(2)
	same := true
	for range 10 {
		x := a.Uint64()
		if y := b.Uint64(); x != y {
			t.Fatalf("got %d and %d for the same seed", x, y)
		}
		same = same && x == c.Uint64()
	}
	if same {
		t.Error("got the same numbers for another seed")
	}
}

func TestRepeated(t *testing.T) {
	if got, want := repeated([]string{"a", "b"}, 5), []string{"a", "b", "a", "b", "a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRoundsGiveEachWorkerAllKeys(t *testing.T) {
	for _, n := range []int{1, 10, chunk, 2 * chunk, 4*chunk + 10} {
		keys, _ := crowd(n, 1)
		r := newRounds(keys)
		whole := n / min(n, chunk) * min(n, chunk) // a rest that fills no chunk is left out
		var all sync.WaitGroup
		for w := range maxWorkers {
			all.Go(func() {
				seen := map[string]int{}
				for range 3 * whole / r.step {
					for _, k := range r.next(w) {
						seen[k]++
					}
				}
				if len(seen) != whole {
					t.Errorf("%d keys, worker %d: got %d different, want %d", n, w, len(seen), whole)
				}
				for k, times := range seen {
					if times != 3 {
						t.Errorf("%d keys, worker %d: got %s %d times, want 3", n, w, k, times)
						return
					}
				}
			})
		}
		all.Wait()
	}
}

// Workers that walk side by side would find in the shared cache what the other one just brought there.
func TestRoundsStartWorkersApart(t *testing.T) {
	keys, _ := crowd(10*chunk, 1)
	r := newRounds(keys)
	if a, b := r.next(0)[0], r.next(1)[0]; a != keys[0] || b != keys[5*chunk] {
		t.Errorf("got starts at %s and %s, want %s and %s", a, b, keys[0], keys[5*chunk])
	}
}
