package fold

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
)

// endsOf returns the ends among the changes of a fold, in order.
func endsOf(f *Fold) string {
	var list []string
	for _, c := range f.TakeChanges() {
		if c.Ended {
			list = append(list, fmt.Sprintf("%s %s %v", c.Rule.Name, c.Caller.ID, time.Duration(c.At)))
		}
	}
	return strings.Join(list, ", ")
}

// TestClosuresEndByLogTime: a closure ends when any entry moves log time to its end, at the time of its end, and once.
func TestClosuresEndByLogTime(t *testing.T) {
	t.Parallel()
	const second = int64(time.Second)
	type step struct {
		at     int64
		caller string
		count  uint32
		want   string
	}
	for name, steps := range map[string][]step{
		"another caller's entry ends it":       {{1, "x", 10, ""}, {59, "y", 1, ""}, {60, "y", 1, "r x 1m0s"}, {61, "y", 1, ""}},
		"its own entry does":                   {{1, "x", 10, ""}, {60, "x", 1, "r x 1m0s"}},
		"it closes again":                      {{1, "x", 10, ""}, {61, "x", 10, "r x 1m0s"}, {121, "y", 1, "r x 2m0s"}},
		"two end at once":                      {{1, "x", 10, ""}, {2, "y", 10, ""}, {600, "z", 1, "r x 1m0s, r y 1m0s"}},
		"one that is late":                     {{61, "y", 1, ""}, {59, "x", 10, "r x 1m0s"}, {62, "y", 1, ""}},
		"after silence":                        {{1, "x", 10, ""}, {86400, "y", 1, "r x 1m0s"}},
		"an entry of the past ends nothing":    {{1, "x", 10, ""}, {60, "y", 1, "r x 1m0s"}, {59, "y", 1, ""}, {60, "y", 1, ""}},
		"nobody was closed":                    {{1, "x", 9, ""}, {70, "y", 1, ""}},
		"the end moves before it comes":        {{1, "x", 10, ""}, {2, "x", 90, ""}, {60, "y", 1, "r x 1m0s"}},
		"the row expires long after it opened": {{1, "x", 10, ""}, {7200, "y", 1, "r x 1m0s"}, {14400, "y", 1, ""}},
	} {
		f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 10, window: 1m, algorithm: fixed}"), Options{Ends: true})
		silent := New(f.Rules(), Options{})
		for i, s := range steps {
			e := schemas.Entry{Time: s.at * second, Kind: "key", ID: s.caller, Count: s.count}
			f.Entry(&e)
			silent.Entry(&e)
			if got := endsOf(f); got != s.want {
				t.Errorf("%s: step %d: got %q, want %q", name, i, got, s.want)
			}
			if got := endsOf(silent); got != "" {
				t.Errorf("%s: step %d: got %q without Options.Ends, want nothing", name, i, got)
			}
		}
		if f.Digest(0) != silent.Digest(0) {
			t.Errorf("%s: got another digest with ends, want the same", name)
		}
	}
}

// TestEndsAfterAChangeOfRules: a change of rules moves ends. What it opened does not end as well.
func TestEndsAfterAChangeOfRules(t *testing.T) {
	t.Parallel()
	const rule = "{name: r, callers: key, limit: %d, window: 1m, algorithm: fixed, close_for: %s}"
	rules := func(limit int, length string) string { return fmt.Sprintf(rule, limit, length) }
	for name, c := range map[string]struct{ after, want string }{
		"the same":  {rules(10, "2m"), "r x 2m1s"},
		"shorter":   {rules(10, "80s"), "r x 1m21s"},
		"longer":    {rules(10, "3m"), "r x 3m1s"},
		"opened":    {rules(100, "2m"), ""},
		"abandoned": {"{name: other, callers: key, limit: 10, window: 1m}", ""},
	} {
		f := New(foldtest.Rules(t, rules(10, "2m")), Options{Ends: true})
		f.Entry(&schemas.Entry{Time: int64(time.Second), Kind: "key", ID: "x", Count: 10})
		f.SetRules(foldtest.Rules(t, c.after))
		f.Entry(&schemas.Entry{Time: int64(10 * time.Minute), Kind: "key", ID: "y", Count: 1})
		if got := endsOf(f); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestEndsByHand: a closure by hand ends as those of rules do.
func TestEndsByHand(t *testing.T) {
	t.Parallel()
	f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 10, window: 1m, algorithm: fixed}"), Options{Ends: true})
	c := schemas.Control{ID: schemas.ControlID{1}, Action: schemas.ControlClose, Caller: schemas.Caller{Kind: "key", ID: "x"}, Until: int64(time.Hour)}
	if err := f.Control(&c, 0, 0); err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		at   time.Duration
		want string
	}{{59 * time.Minute, ""}, {time.Hour, "_control x 1h0m0s"}, {2 * time.Hour, ""}} {
		f.Entry(&schemas.Entry{Time: int64(s.at), Kind: "key", ID: "y", Count: 1})
		if got := endsOf(f); got != s.want {
			t.Errorf("at %v: got %q, want %q", s.at, got, s.want)
		}
	}
}

// TestAResponseOpens: a caller who closes and opens again and again has a few places, and the close that goes on ends once.
func TestAResponseOpens(t *testing.T) {
	t.Parallel()
	f := New(foldtest.Rules(t, "{name: r, callers: key, measure: in_flight, limit: 2, hold: {longest: 1m}}"), Options{Ends: true})
	at := int64(time.Hour)
	begin := func() { f.Entry(&schemas.Entry{Time: at, Kind: "key", ID: "x", Count: 1, Arrived: schemas.Tick(at)}) }
	finish := func() {
		f.Entry(&schemas.Entry{Time: at, Kind: "key", ID: "x", Count: 1, Response: true, Arrived: schemas.Tick(at)})
	}
	begin()
	for range 1000 {
		begin() // and it is closed
		finish()
	}
	f.Advance(at + int64(10*time.Minute))
	if got, want := endsOf(f), "r x 1h1m12s"; got != want {
		t.Errorf("opened by responses, and one is forgotten: got %q, want %q", got, want)
	}
	at += int64(30 * time.Minute)
	for n := range 1000 {
		begin()
		begin()
		finish()
		finish()
		if got, want := endsOf(f), "r x 1h30m0s"; got != want {
			t.Fatalf("time %d, and nothing is in flight: got %q, want %q", n, got, want)
		}
	}
	if n := f.table.ends.Len(); n > 150 {
		t.Errorf("got %d places of one caller, want no more than 150", n)
	}
	at += int64(30 * time.Minute)
	begin()
	begin()
	f.Advance(at + int64(10*time.Minute))
	if got, want := endsOf(f), "r x 2h1m12s"; got != want {
		t.Errorf("no response: got %q, want %q", got, want)
	}
}

// TestAStoreRemembersEnds: a fold that is restored reports the same ends as one that goes on.
func TestAStoreRemembersEnds(t *testing.T) {
	t.Parallel()
	rules := foldtest.Rules(t, "{name: a, callers: key, limit: 10, window: 1m}", "{name: b, callers: key, limit: 20, window: 10m, algorithm: fixed}",
		"{name: c, callers: key, measure: in_flight, limit: 20, hold: {longest: 5m}}")
	random := rand.New(rand.NewPCG(1, 2))
	whole := New(rules, Options{Ends: true})
	stored := make(map[string]string)
	restored, all := New(rules, Options{Ends: true}), 0
	for i := range 20_000 {
		e := schemas.Entry{Time: int64(i) * int64(200*time.Millisecond), Kind: "key", ID: fmt.Sprint(random.IntN(40)), Count: 1 + uint32(random.IntN(3))}
		e.Arrived = int64(e.Count) * schemas.Tick(e.Time)
		if random.IntN(2) == 0 {
			e.Response = true
			e.Arrived = int64(e.Count) * schemas.Tick(max(0, e.Time-random.Int64N(int64(6*time.Minute))))
		}
		whole.Entry(&e)
		restored.Entry(&e)
		got, want := strings.Split(endsOf(restored), ", "), strings.Split(endsOf(whole), ", ")
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("entry %d: got %q, want %q", i, got, want)
		}
		if want[0] != "" {
			all += len(want)
		}
		if random.IntN(500) > 0 {
			continue
		}
		for _, c := range restored.TakeDirty() {
			if stored[string(c.Key)] = string(c.Value); c.Value == nil {
				delete(stored, string(c.Key))
			}
		}
		again := New(rules, Options{Ends: true})
		for key, value := range stored {
			if err := again.Restore([]byte(key), []byte(value)); err != nil {
				t.Fatal(err)
			}
		}
		again.Resume(restored.LogTime())
		restored = again
	}
	if all < 100 {
		t.Errorf("got %d ends, want many", all)
	}
}

// TestEndsAreBounded: a closure that moves with each entry has one place.
func TestEndsAreBounded(t *testing.T) {
	t.Parallel()
	f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 10, window: 1m, count_blocked: true}"), Options{Ends: true})
	for i := range 100_000 {
		f.Entry(&schemas.Entry{Time: int64(i) * int64(time.Millisecond), Kind: "key", ID: "x", Count: 1})
	}
	moved := slices.ContainsFunc(f.TakeChanges(), func(c Change) bool { return c.Kind == policy.Moved })
	if n := f.table.ends.Len(); n != 1 || !moved {
		t.Errorf("got %d places, want 1 of a closure that moves", n)
	}
}
