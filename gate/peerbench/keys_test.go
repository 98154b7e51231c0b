package main

import (
	"slices"
	"strings"
	"sync"
	"testing"
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
