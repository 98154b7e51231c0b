package fold

import (
	"slices"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
)

// TestClosuresAreThoseThatHold: of rules and of people, until they end.
func TestClosuresAreThoseThatHold(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: a, callers: key, limit: 10, window: 1m, algorithm: fixed}", "{name: b, callers: key, limit: 30, window: 1h, algorithm: fixed}"), Options{})
	rowEntry(f, second, "x", 10)
	rowEntry(f, second, "y", 30)
	rowEntry(f, second, "open", 9)
	c := &schemas.Control{ID: controlNumber(1), Author: "ann", Reason: "ticket", Action: schemas.ControlClose, Caller: callerOf("z"), Until: 2 * minute}
	if err := f.Control(c, 1, 1); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		now  int64
		want []string
	}{
		{second, []string{"_control z", "a x", "a y", "b y"}},
		{minute - 1, []string{"_control z", "a x", "a y", "b y"}},
		{minute, []string{"_control z", "b y"}},
		{2*minute - 1, []string{"_control z", "b y"}},
		{2 * minute, []string{"b y"}},
		{hour, nil},
	} {
		var got []string
		for _, c := range f.View().Closures(test.now) {
			got = append(got, c.Rule.Name+" "+c.Caller.ID)
		}
		if slices.Sort(got); !slices.Equal(got, test.want) {
			t.Errorf("at %d s: got %q, want %q", test.now/second, got, test.want)
		}
	}
}
