package fold

import (
	"fmt"
	"slices"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// closedOf returns the callers that the fold has closed since it was last asked.
func closedOf(f *Fold) []string {
	var ids []string
	for _, c := range f.TakeChanges() {
		if c.Kind == policy.Closed {
			ids = append(ids, c.Caller.ID)
		}
	}
	return ids
}

// rowOf returns the row of a caller of kind key, or nil.
func rowOf(f *Fold, rule int32, id string) *row {
	i, ok := f.table.find(rowHash(f.table.ids.hash(id), rule), rule, id)
	if !ok {
		return nil
	}
	return f.table.row(i)
}

// TestEachRuleHasItsPart: a flood under one rule fills the table; the first callers of another rule have rows at once, with
// exact counts, until that rule has its part; and the flood is counted as uncounted under its own rule alone.
func TestEachRuleHasItsPart(t *testing.T) {
	const rows = 400
	set := foldtest.Rules(t, "{name: ips, callers: ip, limit: 50, window: 1h}", "{name: keys, callers: key, limit: 50, window: 1h}")
	f := New(set, Options{MaxRows: rows})
	for n := range 10 * rows {
		f.Entry(&schemas.Entry{Time: frameNow, Kind: "ip", ID: fmt.Sprint("198.51.100.", n), Count: 1})
	}
	if s := f.Stats(); s.Rows != rows || s.Rules[0].Uncounted != 9*rows || s.Rules[1].Uncounted != 0 {
		t.Fatalf("got %d rows, and uncounted %+v", s.Rows, s.Rules)
	}
	for n := range rows {
		rowEntry(f, frameNow+1, fmt.Sprint("k", n), 2)
	}
	if got := f.table.losses.byRule[1].rows; got != rows/4 {
		t.Errorf("got %d rows of the second rule, want its part of %d", got, rows/4)
	}
	for n := range rows / 4 {
		if r := rowOf(f, 1, fmt.Sprint("k", n)); r == nil || r.since != never {
			t.Fatalf("caller %d: got row %+v, want an exact one", n, r)
		}
	}
	if s := f.Stats(); s.Displaced != rows/4 || s.Rules[0].Uncounted != 9*rows+rows/4 {
		t.Errorf("got %d displaced and %+v, want the rows that made room, with their weight", s.Displaced, s.Rules)
	}
	if s := f.Stats(); s.Rules[1].Uncounted != 2*(rows-rows/4) {
		t.Errorf("got %+v, want what came beyond the part uncounted", s.Rules[1])
	}
}

// TestWhichRowMakesRoom: of the rows that stand in the way of a caller that is to be closed, the one that matters least goes.
func TestWhichRowMakesRoom(t *testing.T) {
	tests := map[string]struct {
		rules []string
		fill  func(f *Fold)
		stays []string // of kind key, under the first rule
		goes  string
	}{
		"an expired one first": {[]string{"{name: r, callers: key, limit: 10, window: 1m, algorithm: fixed}"}, func(f *Fold) {
			rowEntry(f, frameNow-2*minute, "expired", 9)
			rowEntry(f, frameNow, "far", 1)
			rowEntry(f, frameNow, "near", 9)
		}, []string{"far", "near"}, "expired"},
		"the one further from its limit": {[]string{"{name: r, callers: key, limit: 10, window: 1m, overrides: {big: 1000}}"}, func(f *Fold) {
			rowEntry(f, frameNow, "big", 20)
			rowEntry(f, frameNow, "far", 3)
			rowEntry(f, frameNow, "near", 9)
		}, []string{"far", "near"}, "big"},
		"an open one before one that remembers": {
			[]string{"{name: r, callers: key, limit: 10, window: 1s, algorithm: fixed, close_for: 1s, escalate: {factor: 2, max: 1h, forget: 1h}}"}, func(f *Fold) {
				rowEntry(f, frameNow-2*second, "remembers", 10)
				rowEntry(f, frameNow, "near", 9)
				rowEntry(f, frameNow, "nearer", 9)
			}, []string{"remembers"}, "near"},
		"an open one before a closed one": {[]string{"{name: r, callers: key, limit: 10, window: 1m}"}, func(f *Fold) {
			rowEntry(f, frameNow, "closed", 10)
			rowEntry(f, frameNow, "also closed", 11)
			rowEntry(f, frameNow, "near", 9)
		}, []string{"closed", "also closed"}, "near"},
		"of closed ones the first to open": {[]string{"{name: r, callers: key, limit: 10, window: 1m, slots: 60}"}, func(f *Fold) {
			rowEntry(f, frameNow-30*second, "opens first", 10)
			rowEntry(f, frameNow, "closed", 10)
			rowEntry(f, frameNow, "also closed", 10)
		}, []string{"closed", "also closed"}, "opens first"},
		"a short window before a quota": {[]string{
			"{name: q, callers: key, limit: 10, window: month, match: {resource: /q}}", "{name: r, callers: key, limit: 10, window: 1m, match: {resource: /r}}",
		}, func(f *Fold) {
			entry := func(id, resource string) {
				f.Entry(&schemas.Entry{Time: frameNow, Kind: "key", ID: id, Resource: resource, Count: 2})
			}
			entry("quota", "/q")
			entry("minute", "/r")
			entry("also quota", "/q")
		}, []string{"quota", "also quota"}, "minute"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := New(foldtest.Rules(t, test.rules...), Options{MaxRows: 3})
			test.fill(f)
			f.TakeChanges()
			f.table.next = 0
			i, ok := f.table.victim(displaceable{newcomer: 0, anyOpen: true, closed: true})
			if !ok || f.table.row(i).id != test.goes && test.goes != "near" {
				t.Fatalf("got row %+v, %v, want %s", f.table.row(i), ok, test.goes)
			}
			for _, id := range test.stays {
				if f.table.row(i).id == id {
					t.Errorf("got %s, want it to stay", id)
				}
			}
		})
	}
}

// TestAnOpenCallerDisplacesNoClosedOne, and one that is to be closed does where there is no other.
func TestAnOpenCallerDisplacesNoClosedOne(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 10, window: 1m}"), Options{MaxRows: 2})
	rowEntry(f, frameNow, "a", 10)
	rowEntry(f, frameNow+second, "b", 10)
	closedOf(f)
	for n := range 9 {
		rowEntry(f, frameNow+2*second+int64(n), "c", 1)
		if got := closedOf(f); len(got) > 0 || rowOf(f, 0, "c") != nil {
			t.Fatalf("request %d: got %v closed, and a row", n+1, got)
		}
	}
	rowEntry(f, frameNow+3*second, "c", 1)
	if got := fmt.Sprint(closedOf(f)); got != "[c]" {
		t.Errorf("got %v closed, want c at its limit", got)
	}
	if r := rowOf(f, 0, "c"); r == nil || r.since == never || r.closure.Peak != 10 {
		t.Errorf("got row %+v, want one with a mark and all ten requests", r)
	}
	if rowOf(f, 0, "a") != nil || rowOf(f, 0, "b") == nil {
		t.Error("want a displaced, which opens first, and b still there")
	}
}

// TestADisplacedCallerComesBackWithALowerCount: never with more than it had, and marked.
func TestADisplacedCallerComesBackWithALowerCount(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 100, window: 1m, slots: 6}"), Options{MaxRows: 8})
	for n := range int64(5) {
		rowEntry(f, frameNow+n*10*second, "victim", 4)
	}
	i, _ := f.table.find(rowHash(f.table.ids.hash("victim"), 0), 0, "victim")
	f.table.displace(i)
	if s := f.Stats(); s.Displaced != 1 || s.Waiting != 1 || s.Rules[0].Uncounted != 20 {
		t.Fatalf("got %+v", s)
	}
	rowEntry(f, frameNow+45*second, "victim", 1)
	r := rowOf(f, 0, "victim")
	if r == nil || r.since == never {
		t.Fatalf("got %+v, want a marked row", r)
	}
	if got := totals(f)["r victim"]; got != 13 {
		t.Errorf("got %d, want the newest half of 20, whole slots, and 1", got)
	}
	if s := f.Stats(); s.Waiting != 0 || s.Rules[0].Recovered != 12 || s.UncountedWeight() != 8 {
		t.Errorf("got %+v, want 12 recovered and 8 not", s)
	}
	rowEntry(f, frameNow+3*minute, "victim", 1)
	if r.since != never {
		t.Error("a window later the row is still marked")
	}
}

// TestSmallLimitsCostNoSearchEach: with a limit of two each newcomer is half way. A flood of them looks for victims from
// time to time only.
func TestSmallLimitsCostNoSearchEach(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 2, window: 1h}"), Options{MaxRows: 1000})
	for n := range 1000 {
		rowEntry(f, frameNow, fmt.Sprint("first", n), 1)
	}
	before := f.table.random
	for n := range 16_000 {
		rowEntry(f, frameNow, fmt.Sprint("then", n), 1)
	}
	draws := (f.table.random - before) * 0xf1de83e19937733d // the inverse of what draw adds, modulo 2^64
	if draws > 16_000/tryCost*tries {
		t.Errorf("got %d draws for 16,000 entries, want at most one search for each %d", draws, tryCost)
	}
	if f.Stats().Displaced > 0 {
		t.Error("callers that are as far from their limit were displaced")
	}
}

// TestAClosureOutlivesItsRow: an owner that starts does not open what an earlier one closed under a rule that has lost
// weight; under a rule that counted all, or another version of it, it does.
func TestAClosureOutlivesItsRow(t *testing.T) {
	set := foldtest.Rules(t, "{name: r, callers: key, limit: 10, window: 1m}")
	f := New(set, Options{MaxRows: 1})
	d := &schemas.Decision{Rule: "r", RuleVersion: set.Rules[0].Fingerprint(), Caller: schemas.Caller{Kind: "key", ID: "gone"}}
	if f.View().MayBeClosed(d.Rule, d.RuleVersion, d.Caller.ID) {
		t.Error("a rule that counted all: got a closure kept, want it opened")
	}
	rowEntry(f, frameNow, "a", 1)
	rowEntry(f, frameNow, "b", 1)
	if !f.View().MayBeClosed(d.Rule, d.RuleVersion, d.Caller.ID) {
		t.Error("a rule that lost weight: got a closure opened, want it kept")
	}
	for _, other := range []schemas.Decision{{Rule: "r", RuleVersion: d.RuleVersion + 1}, {Rule: "no such rule", RuleVersion: d.RuleVersion}} {
		if f.View().MayBeClosed(other.Rule, other.RuleVersion, other.Caller.ID) {
			t.Errorf("%+v: got it kept, want it opened", other)
		}
	}
	rowEntry(f, frameNow+10*minute, "a", 1)
	if f.View().MayBeClosed(d.Rule, d.RuleVersion, d.Caller.ID) {
		t.Error("ten minutes later: got a closure kept, want it opened")
	}
}

// TestATableThatMustShrink: an analyzer starts with less room than its store has rows. Those that matter least go at once, the
// others keep their counts, and the store is told.
func TestATableThatMustShrink(t *testing.T) {
	set := foldtest.Rules(t, "{name: r, callers: key, limit: 100, window: 1h}")
	f := New(set, Options{})
	for n := range 1000 {
		rowEntry(f, frameNow+int64(n), fmt.Sprint("k", n), uint32(1+n%100)) // small
	}
	closedOf(f)
	var kept fakeStore
	kept.commit(t, f)
	g := kept.restore(t, set, Options{MaxRows: 100})
	if s := g.Stats(); s.Rows != 100 || g.table.Made() != 100 || s.Displaced != 900 {
		t.Fatalf("got %d rows of %d, %d displaced; want 100 side by side", s.Rows, g.table.Made(), s.Displaced)
	}
	for id, total := range totals(g) {
		if total < 91 {
			t.Errorf("%s: got %d, want one of the hundred that are nearest to their limit, or closed", id, total)
		}
	}
	kept.commit(t, g)
	again := kept.restore(t, set, Options{})
	if got, want := rowsOf(again), rowsOf(g); !slices.Equal(got, want) {
		t.Errorf("got %d rows in the store, want %d", len(got), len(want))
	}
	rowEntry(again, frameNow+second, "k0", 1)
	if r := rowOf(again, 0, "k0"); r == nil || r.since == never {
		t.Errorf("got %+v, want a row with a mark for a caller that was displaced", r)
	}
}

// TestNewRulesProlongDoubt: a loss matters for as long as the limits and closures of then could make it matter, which a
// change of rules may have shortened since.
func TestNewRulesProlongDoubt(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 60, window: 1m, algorithm: gcra, burst: 600}"), Options{MaxRows: 1})
	rowEntry(f, frameNow, "a", 1)
	rowEntry(f, frameNow, "c", 290)
	rowEntry(f, frameNow+5*minute, "a", 1)
	f.SetRules(foldtest.Rules(t, "{name: r, callers: key, limit: 6000, window: 1m, algorithm: gcra, burst: 600}"))
	if got := f.table.losses.byRule[0].lost; got != frameNow+5*minute {
		t.Errorf("got the loss at %d, want it at the change of rules", got-frameNow)
	}
	f.table.maxRows = 2
	rowEntry(f, frameNow+5*minute+second, "c", 1)
	if r := rowOf(f, 0, "c"); r == nil || r.since == never {
		t.Errorf("got %+v, want a row with a mark", r)
	}
}

// TestARuleKeepsItsLosses: when other rules come and go, it is not forgotten what a rule could not count.
func TestARuleKeepsItsLosses(t *testing.T) {
	const gone, kept = "{name: gone, callers: ip, limit: 60, window: 1h}", "{name: kept, callers: key, limit: 60, window: 1h}"
	f := New(foldtest.Rules(t, gone, kept), Options{MaxRows: 1})
	rowEntry(f, frameNow, "a", 1)
	rowEntry(f, frameNow, "b", 5)
	f.SetRules(foldtest.Rules(t, kept))
	if l := f.View().Look(callerOf("unknown"), frameNow).Rules[0]; l.Absence != TableFull || l.Since != frameNow {
		t.Errorf("got %+v, want that the table was full", l)
	}
	if s := f.Stats(); s.UncountedWeight() != 5 {
		t.Errorf("got %+v, want 5 not counted", s)
	}
}

// TestAnAuditCountsSomeCallers: with Options.Only, all others are not counted, and their weight is added up.
func TestAnAuditCountsSomeCallers(t *testing.T) {
	only := func(_ *rules.Rule, id string) bool { return id == "a" }
	f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 10, window: 1m}"), Options{Only: only})
	rowEntry(f, frameNow, "a", 4)
	rowEntry(f, frameNow, "b", 50)
	if s := f.Stats(); s.Rows != 1 || s.Closes != 0 || s.UncountedWeight() != 50 || rowOf(f, 0, "a") == nil {
		t.Errorf("got %+v, want one row of a", s)
	}
}

// TestRowsThatARuleIsGuaranteedAreNoVictims: callers of another rule do not get them, however close to their limits they are.
func TestRowsThatARuleIsGuaranteedAreNoVictims(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: a, callers: key, limit: 10, window: 1m}", "{name: b, callers: ip, limit: 10, window: 1m}"), Options{MaxRows: 100})
	rowEntry(f, frameNow, "x", 1)
	if i, ok := f.table.victim(displaceable{newcomer: 1, share: 1, anyOpen: true, closed: true}); ok {
		t.Errorf("got row %d of rule a for a caller of rule b, want none", i)
	}
	if _, ok := f.table.victim(displaceable{newcomer: 0, share: 1, anyOpen: true, closed: true}); !ok {
		t.Error("got no row of rule a for a caller of rule a")
	}
}
