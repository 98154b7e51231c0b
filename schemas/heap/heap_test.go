package heap

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// item is a value that knows its place.
type item struct{ key, id int }

// TestClipGivesMemoryBack, and keeps what is left.
func TestClipGivesMemoryBack(t *testing.T) {
	h := New(func(a, b *int) bool { return *a < *b }, nil)
	for v := range 1000 {
		h.Add(v)
	}
	if h.Clip(); h.Len() != 1000 {
		t.Fatalf("got %d values, want 1000", h.Len())
	}
	for range 900 {
		h.Remove(0)
	}
	h.Clip()
	if got := cap(h.items); got > 200 {
		t.Errorf("got room for %d values, want 200 at most for 100", got)
	}
	for want := 900; want < 1000; want++ {
		if got := h.Remove(0); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	}
}

// TestTheLeastComesFirst compares a heap with a sorted list, under additions, changes and removals at random places.
func TestTheLeastComesFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places := make(map[int]int)
		h := New(func(a, b *item) bool { return a.key < b.key }, func(v *item, at int) { places[v.id] = at })
		var keys []int
		forget := func(key int) {
			at := slices.Index(keys, key)
			keys = slices.Delete(keys, at, at+1)
		}
		for id := range rapid.IntRange(1, 80).Draw(t, "steps") {
			key := rapid.IntRange(0, 20).Draw(t, "key")
			switch action := rapid.IntRange(0, 3).Draw(t, "action"); {
			case action < 2 || h.Len() == 0:
				h.Add(item{key, id})
				keys = append(keys, key)
			case action == 2:
				at := rapid.IntRange(0, h.Len()-1).Draw(t, "place")
				forget(h.At(at).key)
				h.At(at).key = key
				h.Fix(at)
				keys = append(keys, key)
			default:
				removed := h.Remove(rapid.IntRange(0, h.Len()-1).Draw(t, "place"))
				forget(removed.key)
				delete(places, removed.id)
			}
			if h.Len() != len(keys) || len(places) != len(keys) {
				t.Fatalf("got %d values and %d places, want %d", h.Len(), len(places), len(keys))
			}
			if h.Len() > 0 && h.At(0).key != slices.Min(keys) {
				t.Fatalf("got %d first, want %d", h.At(0).key, slices.Min(keys))
			}
			for at := range h.Len() {
				if places[h.At(at).id] != at {
					t.Fatalf("value %d is said to be at %d, want %d", h.At(at).id, places[h.At(at).id], at)
				}
			}
		}
	})
}

// TestRemovedValuesCanBeCollected: no memory behind the last value refers to one that was removed.
func TestRemovedValuesCanBeCollected(t *testing.T) {
	h := New(func(a, b **item) bool { return (*a).key < (*b).key }, nil)
	for key := range 10 {
		h.Add(&item{key: key})
	}
	for range 10 {
		h.Remove(h.Len() / 2)
	}
	for at, v := range h.items[:cap(h.items)] {
		if v != nil {
			t.Errorf("at %d: got %+v, want nil", at, v)
		}
	}
}
