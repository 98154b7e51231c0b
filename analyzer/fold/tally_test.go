package fold

import (
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
)

// entries folds entries in order.
func (f *Fold) entries(es ...schemas.Entry) {
	for i := range es {
		f.Entry(&es[i])
	}
}

// byRule returns what was done under each rule, without what it could have counted.
func byRule(f *Fold) map[string]RuleStats {
	rules := make(map[string]RuleStats)
	for _, r := range f.Stats().Rules {
		r.Requests, r.Shape, r.Unmatched, r.Sample, r.Counted, r.Blocked = 0, 0, 0, "", 0, 0
		rules[r.Rule] = r
	}
	return rules
}

// TestClosesAreCountedByRuleAndMode: a rule on trial counts what it would have done, apart from one that enforces, and what
// a rule did before its mode changed stays where it was.
func TestClosesAreCountedByRuleAndMode(t *testing.T) {
	const (
		enforced = "{name: a, callers: key, limit: 10, window: 1m, algorithm: fixed, warn: [0.5]}"
		onTrial  = "{name: b, callers: key, limit: 5, window: 1m, algorithm: fixed, mode: shadow, warn: [0.5]}"
	)
	f := New(foldtest.Rules(t, enforced, onTrial), Options{})
	f.entries(at(1, "x", 4), at(2, "x", 1), at(3, "x", 3), at(4, "x", 2), at(5, "y", 5), at(6, "z", 1))
	got := byRule(f)
	want := map[string]RuleStats{
		"a": {Rule: "a", Mode: schemas.ModeEnforce, Enforced: Tally{Closes: 1, Warnings: 2}},
		"b": {Rule: "b", Mode: schemas.ModeShadow, Shadowed: Tally{Closes: 2, Warnings: 2}, WouldBlock: 5},
	}
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("got %+v, want %+v", got[name], want[name])
		}
	}
	f.SetRules(foldtest.Rules(t, enforced, "{name: b, callers: key, limit: 5, window: 1m, algorithm: fixed, warn: [0.5]}"))
	f.entries(at(70, "x", 5))
	if got, want := byRule(f)["b"], (RuleStats{
		Rule: "b", Mode: schemas.ModeEnforce, Shadowed: Tally{Closes: 2, Warnings: 2}, Enforced: Tally{Closes: 1, Warnings: 1}, WouldBlock: 5,
	}); got != want {
		t.Errorf("after the trial: got %+v, want %+v", got, want)
	}
	if s := f.Stats(); s.Closes != 1+2+1 || s.Warnings != 2+2+1+1 {
		t.Errorf("got %d closes and %d warnings, want those of all rules", s.Closes, s.Warnings)
	}
}

// TestARequestCountsOnceUnderRulesThatFollowIt: by its arrival. A cost warns in the window that is counted now.
func TestARequestCountsOnceUnderRulesThatFollowIt(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: tokens, callers: key, limit: 100, window: 1m, algorithm: fixed, measure: cost, charge: arrival, warn: [0.5], hold: {estimate: 1, margin: 0}}",
		"{name: flights, callers: key, limit: 9, measure: in_flight}"), Options{})
	request := func(arrived, ended, cost int64, blocked bool) {
		e := schemas.Entry{Time: arrived * second, Kind: "key", ID: "x", Count: 2, Blocked: blocked}
		if !blocked {
			e.Arrived = 2 * schemas.Tick(e.Time)
		}
		f.Entry(&e)
		e.Time, e.Response, e.Status, e.Cost = ended*second, true, 200, cost
		f.Entry(&e)
	}
	warnings := func() uint64 { return f.Stats().Rules[0].Enforced.Warnings }
	request(61, 70, 40, false)
	request(62, 71, 0, true)
	if n := warnings(); n != 0 {
		t.Errorf("got %d warnings of 40, want none", n)
	}
	request(63, 72, 10, false)
	if n := warnings(); n != 1 {
		t.Errorf("got %d warnings of 50, want one", n)
	}
	f.Entry(&schemas.Entry{Time: 121 * second, Kind: "key", ID: "y", Count: 1})
	request(118, 122, 49, false) // of the window before
	if n := warnings(); n != 1 {
		t.Errorf("got %d warnings when the window is over, want no new one", n)
	}
	for _, r := range f.Stats().Rules {
		if r.Counted != 7 || r.Blocked != 2 {
			t.Errorf("%s: got %d requests, %d of them blocked, want 7 and 2", r.Rule, r.Counted, r.Blocked)
		}
	}
}

// TestOvershootsAreSeenOnceAClosureHasEnded, at their largest: more comes until gates have closed.
func TestOvershootsAreSeenOnceAClosureHasEnded(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: a, callers: key, limit: 10, window: 1m, algorithm: fixed}"), Options{})
	f.entries(at(1, "x", 10), at(2, "x", 2), at(3, "x", 1), at(4, "y", 40), at(5, "z", 9))
	if s := f.Stats().Overs; s.Count != 0 {
		t.Errorf("before the ends: got %+v", s)
	}
	f.entries(at(61, "w", 1))
	if s := f.Stats().Overs; s.Count != 2 || s.Within[0.2] != 0 || s.Within[0.5] != 1 || s.Within[5] != 2 || s.Sum != 0.3+3 {
		t.Errorf("after the ends: got %+v, want 30 %% and 300 %%", s)
	}
	f.entries(at(62, "x", 10))
	f.SetRules(foldtest.Rules(t, "{name: b, callers: key, limit: 10, window: 1m, algorithm: fixed}"))
	if s := f.Stats().Overs; s.Count != 3 || s.Within[0] != 1 {
		t.Errorf("other rules: got %+v, want the open closure seen", s)
	}
}

// TestOvershootsAreOfClosesByCount: a caller that is closed because a person lowers its limit, or holds it to its limit again, did not go
// over a limit that it had. What it sent before is no overshoot, and neither is what a closure has held when its limit changes.
func TestOvershootsAreOfClosesByCount(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: a, callers: key, limit: 100, window: 1m, algorithm: fixed}"), Options{})
	o := &operator{t: t, f: f}
	for _, step := range []string{
		"at 1 lowered 50", "limit lowered a 5 600", "at 2 lowered 1", // closed by hand, so to say
		"at 3 counted 100", "at 3 counted 20", "limit counted a 10 600", "at 4 counted 1", // 20 % over the limit that it had
		"open opened 50 a", "at 5 opened 900", "undo 3", "at 6 opened 1",
	} {
		if err := o.do(step); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.Stats().Closes; got != 3 {
		t.Fatalf("got %d closes, want that of each caller", got)
	}
	f.EndOvershoots()
	if s := f.Stats().Overs; s.Count != 1 || s.Sum != 0.2 {
		t.Errorf("got %+v, want the overshoot of 20 %% alone", s)
	}
}
