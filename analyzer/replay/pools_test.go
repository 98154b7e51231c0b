package replay

import (
	"testing"
	"unsafe"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// TestCallersOfAPoolAreApart: what each caller asked for is right, though the id of an entry is borrowed from a line that changes.
func TestCallersOfAPoolAreApart(t *testing.T) {
	set, err := rules.Parse("rules", []byte("version: 1\nrules:\n  - {name: shared, callers: key, capacity: 1000, window: 10s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	x, id := newPooled(set.Rules[0]), []byte("a")
	for range 3 {
		for _, id[0] = range []byte("abc") {
			x.ask(&schemas.Entry{Time: 1, Kind: "key", ID: unsafe.String(&id[0], 1), Count: 1}, false, false)
		}
	}
	for _, id := range []string{"a", "b", "c"} {
		if n := x.asked[id]; len(x.asked) != 3 || n == nil || *n != 3 {
			t.Errorf("got %d callers, and %v of %s, want 3 of each of 3", len(x.asked), n, id)
		}
	}
}
