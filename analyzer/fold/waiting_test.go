package fold

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/window"
)

// check fails unless heap, index and callers of a waiting room agree.
func (w *waiting) check(t foldtest.T) {
	t.Helper()
	if w.heap.Len() != len(w.callers) || len(w.callers) > w.max {
		t.Fatalf("got %d in the heap and %d callers of %d", w.heap.Len(), len(w.callers), w.max)
	}
	for at := range w.heap.Len() {
		if n := w.heap.At(at).number; int(w.callers[n].at) != at {
			t.Fatalf("caller %d: got place %d, want %d", n, w.callers[n].at, at)
		}
	}
	for n := range w.callers {
		c := &w.callers[n]
		if got, ok := w.find(c.hash, int32(c.rule)); !ok || int(got) != n {
			t.Fatalf("caller %d: found %d, %v", n, got, ok)
		}
	}
}

// TestWaitingIsAMap: callers come, send, go and are passed over in any order, and each is found with what it sent since it
// came in. Hashes are few, so that places and tags collide.
func TestWaitingIsAMap(t *testing.T) {
	type key struct {
		hash uint64
		rule int32
	}
	rapid.Check(t, func(t *rapid.T) {
		w := newWaiting(rapid.IntRange(1, 12).Draw(t, "room"))
		sent := make(map[key]int64)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			n := rapid.Uint64Range(0, 20).Draw(t, "caller")
			k := key{n%3<<40 | n%7, int32(n % 2)}
			at, ok := w.find(k.hash, k.rule)
			if _, want := sent[k]; ok != want {
				t.Fatalf("%v: found %v, want %v", k, ok, want)
			}
			switch {
			case ok && rapid.IntRange(0, 4).Draw(t, "goes") == 0:
				w.remove(at)
				delete(sent, k)
			case ok:
				sent[k] += 2
				w.update(at, window.State{int64(k.hash), sent[k]}, 2)
			default:
				before := slices.Clone(w.callers)
				w.add(k.hash, k.rule, window.State{int64(k.hash), 1}, 1)
				for _, c := range before {
					if _, still := w.find(c.hash, int32(c.rule)); !still {
						delete(sent, key{c.hash, int32(c.rule)})
					}
				}
				sent[k] = 1
			}
			w.check(t)
		}
		for k, total := range sent {
			at, ok := w.find(k.hash, k.rule)
			if got := w.callers[at].state(); !ok || !slices.Equal(got, window.State{int64(k.hash), total}) {
				t.Fatalf("%v: got %v, %v, want %d", k, got, ok, total)
			}
		}
	})
}

// TestSpaceSavingKeepsTheHeavy: the sum of all estimates is what was sent, none is below what its caller sent since it came
// in, and every caller that sent more than its part of all is in.
func TestSpaceSavingKeepsTheHeavy(t *testing.T) {
	const room = 256
	for seed := range uint64(4) {
		w := newWaiting(room)
		rng := rand.New(rand.NewPCG(seed, 1))
		exact := make(map[uint64]int64)
		var total int64
		for range 40 * room {
			hash := rng.Uint64N(20 * room)
			if rng.IntN(3) == 0 {
				hash = rng.Uint64N(room / 16)
			}
			units := 1 + rng.Int64N(3)
			exact[hash] += units
			total += units
			if n, ok := w.find(hash, 0); ok {
				w.update(n, nil, units)
			} else {
				w.add(hash, 0, nil, units)
			}
		}
		w.check(t)
		var sum int64
		for _, c := range w.callers {
			estimate := w.heap.At(int(c.at)).weight
			sum += estimate
			if estimate < exact[c.hash] {
				t.Errorf("caller %d: estimated at %d, sent %d", c.hash, estimate, exact[c.hash])
			}
		}
		if sum != total {
			t.Errorf("got estimates of %d, want all %d", sum, total)
		}
		for hash, n := range exact {
			if _, ok := w.find(hash, 0); !ok && n > total/room {
				t.Errorf("caller %d sent %d of %d and is not among the %d", hash, n, total, room)
			}
		}
	}
}

// TestACallerThatSendsMoreThanItsShareStays: one caller a little above 1/max of all that comes is never passed over once it is in,
// however many others come, each once.
func TestACallerThatSendsMoreThanItsShareStays(t *testing.T) {
	const room = 100
	w := newWaiting(room)
	const steady = math.MaxUint64
	w.add(steady, 0, nil, 1)
	for n := range uint64(200 * room) {
		w.add(n, 0, nil, 1)
		if n%(room-10) == 0 {
			at, ok := w.find(steady, 0)
			if !ok {
				t.Fatalf("passed over after %d others", n)
			}
			w.update(at, nil, 1)
		}
	}
}

func TestWaitingSweepsEndedEntries(t *testing.T) {
	w := newWaiting(10)
	for n := range uint64(10) {
		w.add(n, 0, window.State{int64(n)}, 5)
	}
	over := func(c *waiter) bool { return c.words[0]%2 == 1 }
	for range 10 {
		w.sweep(2, over)
		w.check(t)
	}
	if len(w.callers) != 5 {
		t.Errorf("got %d callers, want the five that are not over", len(w.callers))
	}
	w.sweep(5, func(*waiter) bool { return true })
	if len(w.callers) != 0 || w.callers != nil {
		t.Errorf("got %+v, want an empty room without memory", w)
	}
	w.add(1, 0, nil, 1)
	w.check(t)
	none := newWaiting(0)
	none.add(1, 0, nil, 1)
	if _, ok := none.find(1, 0); ok {
		t.Error("a waiting room of no places let somebody in")
	}
}

func TestEstimatesSaturate(t *testing.T) {
	w := newWaiting(1)
	w.add(1, 0, nil, math.MaxInt64-1)
	w.add(2, 0, nil, 5)
	n, _ := w.find(2, 0)
	w.update(n, nil, 5)
	if got := w.heap.At(int(w.callers[n].at)).weight; got != math.MaxInt64 {
		t.Errorf("got %d, want the largest number", got)
	}
}
