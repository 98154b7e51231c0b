package fold

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
)

// changesText writes the changes of a fold of one caller, without warnings.
func changesText(f *Fold) string {
	var list []string
	for _, c := range f.TakeChanges() {
		text := map[policy.Transition]string{policy.Closed: "closed", policy.Opened: "opened", policy.Moved: "moved", policy.Same: "warned"}[c.Kind]
		if c.Ended {
			text = fmt.Sprintf("ended %v", time.Duration(c.At))
		}
		if c.GoesOn {
			text += ", goes on"
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

// TestACloseGoesOn: one close goes on until fewer than half of the limit are in flight. Its openings and closings are said to be within it.
func TestACloseGoesOn(t *testing.T) {
	t.Parallel()
	const opens, moves = "opened, goes on", "moved, goes on"
	type step struct {
		at     int64 // seconds
		begins uint32
		ends   uint32
		from   int64 // when those arrived that end
		want   string
	}
	for name, c := range map[string]struct {
		limit int
		steps []step
	}{
		"it opens and closes": {4, []step{
			{1, 3, 0, 0, ""}, {2, 1, 0, 0, "closed"}, {3, 0, 1, 1, opens}, {4, 1, 0, 0, moves}, {5, 0, 1, 1, opens}, {6, 0, 1, 1, ""}, {7, 0, 1, 2, "ended 7s"}, {8, 0, 1, 4, ""},
			{9, 4, 0, 0, "closed"},
		}},
		"many end at once":       {4, []step{{1, 4, 0, 0, "closed"}, {2, 0, 3, 1, opens + "; ended 2s"}, {3, 3, 0, 0, "closed"}}},
		"a limit of one":         {1, []step{{1, 1, 0, 0, "closed"}, {2, 0, 1, 1, opens + "; ended 2s"}, {3, 1, 0, 0, "closed"}}},
		"more than the limit":    {4, []step{{1, 9, 0, 0, "closed"}, {2, 0, 5, 1, ""}, {3, 0, 1, 1, opens}, {4, 0, 2, 1, "ended 4s"}}},
		"all is forgotten":       {4, []step{{1, 4, 0, 0, "closed"}, {2, 0, 1, 1, opens}, {200, 0, 0, 0, "ended 1m12s"}, {201, 4, 0, 0, "closed"}}},
		"closed, and forgotten":  {4, []step{{1, 4, 0, 0, "closed"}, {200, 0, 0, 0, "ended 1m12s"}}},
		"closed again, the same": {4, []step{{1, 4, 0, 0, "closed"}, {2, 0, 1, 1, opens}, {20, 1, 0, 0, moves}, {300, 0, 0, 0, "ended 1m28s"}}},
		"half is forgotten":      {4, []step{{1, 3, 0, 0, ""}, {41, 1, 0, 0, "closed"}, {42, 0, 1, 41, opens}, {75, 4, 0, 0, "ended 1m15s; closed"}}},
		"more come while closed": {4, []step{{1, 4, 0, 0, "closed"}, {20, 4, 0, 0, "moved"}, {21, 0, 4, 1, ""}, {22, 0, 1, 20, opens}}},
		"a late arrival":         {4, []step{{1, 4, 0, 0, "closed"}, {2, 0, 1, 1, opens}, {73, 0, 0, 0, "ended 1m12s"}, {71, 1, 0, 0, moves}, {300, 0, 0, 0, "ended 2m16s"}}},
		"a late response":        {4, []step{{1, 3, 0, 0, ""}, {9, 1, 0, 0, "closed"}, {10, 0, 1, 1, opens}, {8, 0, 2, 1, opens + "; ended 8s"}}},
	} {
		f := New(foldtest.Rules(t, fmt.Sprintf("{name: r, callers: key, limit: %d, measure: in_flight, hold: {longest: 1m}}", c.limit)), Options{Ends: true})
		silent := New(f.Rules(), Options{})
		restored := f
		for i, s := range c.steps {
			e := schemas.Entry{Time: s.at * second, Kind: "key", ID: "x", Count: s.begins, Arrived: int64(s.begins) * schemas.Tick(s.at*second)}
			switch {
			case s.ends > 0:
				e.Count, e.Response, e.Status, e.Arrived = s.ends, true, 200, int64(s.ends)*schemas.Tick(s.from*second)
			case s.begins == 0:
				e.Kind, e.Count = "other", 1
			}
			silent.Entry(&e)
			if restored != f {
				restored.Entry(&e)
			}
			f.Entry(&e)
			got := changesText(f)
			if got != s.want {
				t.Errorf("%s: step %d: got %q, want %q", name, i, got, s.want)
			}
			if again := changesText(restored); restored != f && again != got {
				t.Errorf("%s: step %d: got %q of a fold that was restored, want %q", name, i, again, got)
			}
			if text := changesText(silent); strings.Contains(text, "ended") {
				t.Errorf("%s: step %d: got %q without Options.Ends", name, i, text)
			}
			restored = restoredOf(t, f)
		}
		if f.Digest(0) != silent.Digest(0) {
			t.Errorf("%s: got another digest with ends, want the same", name)
		}
	}
}

// restoredOf returns a fold with the rows of another.
func restoredOf(t *testing.T, f *Fold) *Fold {
	t.Helper()
	again := New(f.Rules(), Options{Ends: true})
	for _, row := range f.View().Draft(key("x")).rows {
		if err := again.Restore(row.Key, row.Value); err != nil {
			t.Fatal(err)
		}
	}
	again.Resume(f.LogTime())
	return again
}
