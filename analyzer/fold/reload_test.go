package fold

import (
	"fmt"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
)

// reloadStory is a story: entries, then other rules, then what that does to whom, then entries and what they do.
type reloadStory struct {
	rules  []string
	log    []schemas.Entry
	then   []string
	does   []string // rule, caller, what and until when, in seconds of the story
	after  []schemas.Entry
	does2  []string
	totals map[string]int64 // in the end
}

func at(seconds int64, id string, count uint32) schemas.Entry {
	return schemas.Entry{Time: seconds * second, Kind: "key", ID: id, Count: count}
}

func describe(changes []Change) []string {
	describe := []string{}
	for _, c := range changes {
		if c.Kind != policy.Same {
			describe = append(describe, fmt.Sprintf("%s %s %s %v", c.Rule.Name, c.Caller.ID, c.Kind, time.Duration(c.Closure.Until)))
		}
	}
	return describe
}

func TestReloads(t *testing.T) {
	const a = "{name: a, callers: key, limit: 10, window: 1m, algorithm: fixed}"
	tests := map[string]reloadStory{
		"nothing changed": {
			rules: []string{a}, log: []schemas.Entry{at(1, "x", 9), at(2, "y", 10)}, then: []string{a},
			after: []schemas.Entry{at(3, "x", 1)}, does2: []string{"a x closed 1m0s"},
			totals: map[string]int64{"a x": 10, "a y": 10},
		},
		"a lower limit closes at once, and later by its own count": {
			rules: []string{a}, log: []schemas.Entry{at(1, "x", 9), at(2, "y", 4), at(2, "z", 20)},
			then:  []string{"{name: a, callers: key, limit: 5, window: 1m, algorithm: fixed}"},
			does:  []string{"a x closed 1m0s"},
			after: []schemas.Entry{at(3, "y", 1)}, does2: []string{"a y closed 1m0s"},
			totals: map[string]int64{"a x": 9, "a y": 5, "a z": 20},
		},
		"a higher limit opens at once whom it allows": {
			rules: []string{a}, log: []schemas.Entry{at(1, "x", 10), at(2, "y", 30)},
			then:  []string{"{name: a, callers: key, limit: 20, window: 1m, algorithm: fixed}"},
			does:  []string{"a x opened 2s"},
			after: []schemas.Entry{at(3, "x", 9), at(4, "x", 1)}, does2: []string{"a x closed 1m0s"},
			totals: map[string]int64{"a x": 20, "a y": 30},
		},
		"another window starts anew, and opens what was closed": {
			rules: []string{a}, log: []schemas.Entry{at(1, "x", 10), at(2, "y", 9)},
			then:  []string{"{name: a, callers: key, limit: 10, window: 2m, algorithm: fixed}"},
			does:  []string{"a x opened 2s"},
			after: []schemas.Entry{at(3, "x", 9), at(4, "y", 9)}, totals: map[string]int64{"a x": 9, "a y": 9},
		},
		"another algorithm": {
			rules: []string{a}, log: []schemas.Entry{at(1, "x", 10)},
			then: []string{"{name: a, callers: key, limit: 10, window: 1m}"}, does: []string{"a x opened 1s"}, totals: map[string]int64{},
		},
		"another match counts something else": {
			rules: []string{a}, log: []schemas.Entry{at(1, "x", 10)},
			then: []string{"{name: a, callers: key, limit: 10, window: 1m, algorithm: fixed, match: {resource: /x}}"},
			does: []string{"a x opened 1s"}, totals: map[string]int64{},
		},
		"a rule that is removed opens": {
			rules: []string{a, "{name: b, callers: key, limit: 3, window: 1m, algorithm: fixed}"},
			log:   []schemas.Entry{at(1, "x", 10)}, then: []string{"{name: b, callers: key, limit: 3, window: 1m, algorithm: fixed}"},
			does: []string{"a x opened 1s"}, totals: map[string]int64{"b x": 10},
		},
		"rules in another order, and one before them": {
			rules: []string{a, "{name: b, callers: key, limit: 30, window: 1m, algorithm: fixed}"},
			log:   []schemas.Entry{at(1, "x", 9)},
			then: []string{"{name: new, callers: key, limit: 2, window: 1m, algorithm: fixed}",
				"{name: b, callers: key, limit: 30, window: 1m, algorithm: fixed}", a},
			after: []schemas.Entry{at(2, "x", 1)}, does2: []string{"a x closed 1m0s"},
			totals: map[string]int64{"a x": 10, "b x": 10, "new x": 1},
		},
		"a rule by another name is another rule": {
			rules: []string{a}, log: []schemas.Entry{at(1, "x", 10)},
			then:   []string{"{name: renamed, callers: key, limit: 10, window: 1m, algorithm: fixed}"},
			does:   []string{"a x opened 1s"},
			totals: map[string]int64{},
		},
		"a pattern that leaves a caller out opens": {
			rules: []string{a}, log: []schemas.Entry{at(1, "free-1", 10), at(1, "paid-1", 10)},
			then: []string{"{name: a, callers: 'key:free-*', limit: 10, window: 1m, algorithm: fixed}"},
			does: []string{"a paid-1 opened 1s"}, totals: map[string]int64{"a free-1": 10},
		},
		"shadow and back: gates must learn the mode": {
			rules: []string{a}, log: []schemas.Entry{at(1, "x", 10), at(1, "y", 9)},
			then: []string{"{name: a, callers: key, limit: 10, window: 1m, algorithm: fixed, mode: shadow}"},
			does: []string{"a x moved 1m0s"}, totals: map[string]int64{"a x": 10, "a y": 9},
		},
		"an allow list opens, and counts go on": {
			rules: []string{a}, log: []schemas.Entry{at(1, "x", 10)},
			then:  []string{"{name: a, callers: key, limit: 10, window: 1m, algorithm: fixed, overrides: {x: unlimited}}"},
			does:  []string{"a x opened 1s"},
			after: []schemas.Entry{at(2, "x", 100)}, totals: map[string]int64{"a x": 110},
		},
		"an allow list that is taken back closes": {
			rules: []string{"{name: a, callers: key, limit: 10, window: 1m, algorithm: fixed, overrides: {x: unlimited, y: unlimited}}"},
			log:   []schemas.Entry{at(1, "x", 100), at(1, "y", 9)}, then: []string{a},
			does: []string{"a x closed 1m0s"}, totals: map[string]int64{"a x": 100, "a y": 9},
		},
		"an allow list for a bucket that is taken back closes nobody for nothing": {
			rules: []string{"{name: a, callers: key, limit: 10, window: 1m, algorithm: gcra, overrides: {x: unlimited, y: unlimited}}"},
			log:   []schemas.Entry{at(1, "x", 3), at(1, "y", 50)},
			then:  []string{"{name: a, callers: key, limit: 10, window: 1m, algorithm: gcra}"},
			does:  []string{"a y closed 1m7s"}, totals: map[string]int64{"a x": 3, "a y": 20},
		},
		"a longer close_for holds those who are closed": {
			rules: []string{a}, log: []schemas.Entry{at(1, "x", 10)},
			then: []string{"{name: a, callers: key, limit: 10, window: 1m, algorithm: fixed, close_for: 5m}"},
			does: []string{"a x moved 5m1s"}, totals: map[string]int64{"a x": 10},
		},
		"close_for outlasts its window, over a reload too": {
			rules:  []string{"{name: a, callers: key, limit: 10, window: 10s, algorithm: fixed, close_for: 5m}"},
			log:    []schemas.Entry{at(1, "x", 10), at(100, "y", 1)},
			then:   []string{"{name: a, callers: key, limit: 9, window: 10s, algorithm: fixed, close_for: 5m}"},
			totals: map[string]int64{"a x": 0, "a y": 1},
		},
		"and opens under a limit over its peak": {
			rules: []string{"{name: a, callers: key, limit: 10, window: 10s, algorithm: fixed, close_for: 5m}"},
			log:   []schemas.Entry{at(1, "x", 10), at(100, "y", 1)},
			then:  []string{"{name: a, callers: key, limit: 11, window: 10s, algorithm: fixed, close_for: 5m}"},
			does:  []string{"a x opened 1m40s"}, totals: map[string]int64{"a x": 0, "a y": 1},
		},
	}
	for name, story := range tests {
		t.Run(name, func(t *testing.T) {
			f := New(foldtest.Rules(t, story.rules...), Options{})
			var kept fakeStore
			for _, e := range story.log {
				f.Entry(&e)
			}
			f.TakeChanges()
			kept.commit(t, f)
			f.SetRules(foldtest.Rules(t, story.then...))
			kept.commit(t, f)
			tell(t, "the reload", f, story.does)
			for _, e := range story.after {
				f.Entry(&e)
			}
			kept.commit(t, f)
			tell(t, "then", f, story.does2)
			if got := totals(f); fmt.Sprint(got) != fmt.Sprint(story.totals) {
				t.Errorf("got totals %v, want %v", got, story.totals)
			}
			f.SetRules(f.Rules())
			tell(t, "the same rules again", f, nil)
		})
	}
}

func tell(t *testing.T, what string, f *Fold, want []string) {
	t.Helper()
	if got := describe(f.TakeChanges()); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}
