package index

import (
	"testing"

	"pgregory.net/rapid"
)

// TestASlabNeverMovesWhatItHolds: numbers are taken and given back in any order. No number is in use twice, values stay where they
// are, and there are no more pages than the most that were in use at once need.
func TestASlabNeverMovesWhatItHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s Slab[int]
		places := make(map[uint32]*int) // of the numbers in use
		most := 0
		for n := range rapid.IntRange(1, 3*pageSize).Draw(t, "steps") {
			if len(places) > 0 && rapid.IntRange(0, 3).Draw(t, "gives") == 0 {
				for i, at := range places { // any
					if *at != int(i) {
						t.Fatalf("step %d: got %d at number %d", n, *at, i)
					}
					delete(places, i)
					s.Give(i)
					break
				}
				continue
			}
			i := s.Take()
			if places[i] != nil {
				t.Fatalf("step %d: number %d is in use already", n, i)
			}
			places[i] = s.At(i)
			*s.At(i) = int(i)
			most = max(most, len(places))
		}
		for i, at := range places {
			if s.At(i) != at || *at != int(i) {
				t.Fatalf("got %d at number %d, or it has moved", *at, i)
			}
		}
		if int(s.made) != most || len(places)+len(s.free) != most || len(s.pages) != (most+pageSize-1)/pageSize {
			t.Errorf("got %d numbers, %d of them free, in %d pages, want %d", s.made, len(s.free), len(s.pages), most)
		}
	})
}
