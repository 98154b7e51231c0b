package fold

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

// lookedAt is the callers that logs of tests are about, and one that they are not.
func lookedAt() (list []schemas.Caller) {
	for _, kind := range []string{"key", "ip", "tenant"} {
		for _, id := range []string{"10.0.0.1", "10.0.0.2", "2001:db8::1", "nobody"} {
			list = append(list, schemas.Caller{Kind: kind, ID: id})
		}
	}
	return list
}

// TestALookIsTheRefold: what an owner says that was killed, goes on from its checkpoint, and is asked all the time, is what a fold of
// the log up to that offset says. And whoever asks changes nothing.
func TestALookIsTheRefold(t *testing.T) {
	sets := foldtest.VariedRules(t)
	rapid.Check(t, func(t *rapid.T) {
		log := randomLog(t)
		change := changeOfRules{before: rapid.IntRange(0, len(log)).Draw(t, "rules change before"), set: sets[1]}
		plain, asked := New(sets[0], Options{}), New(sets[0], Options{Busiest: true})
		var kept fakeStore
		for i := range log {
			want := foldOne(plain, log, i, change, func([]Change) {})
			if got := foldOne(asked, log, i, change, func([]Change) {}); !sameChanges(got, want) {
				t.Fatalf("record %d: whoever asks changes what is decided: got %+v, want %+v", i, got, want)
			}
			if rapid.IntRange(0, 3).Draw(t, "killed") == 0 {
				kept.commit(t, asked)
				asked = kept.restore(t, asked.Rules(), asked.opts)
			}
			now := plain.LogTime() + rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(-hour, hour)).Draw(t, "asked later by")
			for _, c := range lookedAt() {
				got, want := asked.View().Look(c, now), plain.View().Look(c, now)
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("record %d, %s: got %+v, want %+v", i, c, got, want)
				}
				checkLook(t, plain, &want)
				asked.View().Draft(c)
			}
			asked.View().Busiest().Lists(now)
			asked.View().WalkRows(new(Walk), MaxWalk, now, func(*Row) {})
		}
		if got, want := asked.Digest(plain.LogTime()), plain.Digest(plain.LogTime()); got != want {
			t.Fatalf("whoever asks changes the digest: got %#x, want %#x", got, want)
		}
	})
}

// checkLook compares a look with the rows, which are listed in another way.
func checkLook(t *rapid.T, f *Fold, l *Look) {
	rows := make(map[string]Row)
	f.View().Rows(l.Now, func(r Row) bool {
		if r.Rule.Kind == l.Caller.Kind && r.ID == l.Caller.ID {
			rows[r.Rule.Name] = r
		}
		return true
	})
	for _, r := range l.Rules {
		row, ok := rows[r.Rule.Name]
		switch {
		case ok != (r.Absence == Present):
			t.Fatalf("%s under %s: got absence %d, and a row is there: %v", l.Caller, r.Rule.Name, r.Absence, ok)
		case ok && (row.Total != r.Count.Total || row.Closure != r.Closure || row.Limit != r.Limit || row.Unlimited != r.Unlimited || row.Since != r.Since):
			t.Fatalf("%s under %s: got %+v, want the row %+v", l.Caller, r.Rule.Name, r, row)
		}
		var sum int64
		for _, p := range r.Parts {
			sum += p.Weight
		}
		if ok && sum != r.Count.Total {
			t.Fatalf("%s under %s: got parts %v, want %d", l.Caller, r.Rule.Name, r.Parts, r.Count.Total)
		}
		delete(rows, r.Rule.Name)
	}
	if len(rows) > 0 {
		t.Fatalf("%s: rules are missing from %+v: %v", l.Caller, l, rows)
	}
}

func TestALookSaysWhyACallerIsNotCounted(t *testing.T) {
	f := New(foldtest.Rules(t,
		"{name: plain, callers: key, limit: 3, window: 1m}",
		"{name: pattern, callers: 'key:vip-*', limit: 3, window: 1m}",
		"{name: search, callers: key, limit: 3, window: 1m, match: {resource: 'GET /search'}}",
		"{name: errors, callers: key, limit: 3, window: 1m, match: {status: 5xx}}"), Options{})
	l := f.View().Look(schemas.Caller{Kind: "key", ID: "a"}, second)
	want := map[string]Absence{"plain": NothingCame, "pattern": PatternAbsence, "search": MatchAbsence, "errors": MatchAbsence}
	for _, r := range l.Rules {
		if r.Absence != want[r.Rule.Name] || r.Count.Total != 0 || r.LowerBound() || r.EmptyAt() != math.MinInt64 {
			t.Errorf("%s: got %+v, want absence %d", r.Rule.Name, r, want[r.Rule.Name])
		}
		delete(want, r.Rule.Name)
	}
	if len(want) > 0 {
		t.Errorf("rules are missing: %v", want)
	}
	if l := f.View().Look(schemas.Caller{Kind: "ip", ID: "10.0.0.1"}, second); len(l.Rules) != 0 {
		t.Errorf("a kind that no rule counts: got %+v", l.Rules)
	}
}

// A caller for whom there is no row is not said to have sent nothing.
func TestALookAtAFullTable(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 100, window: 1m, algorithm: fixed}"), Options{MaxRows: 8})
	for i := range 8 {
		rowEntry(f, second, fmt.Sprint("held-", i), 40)
	}
	rowEntry(f, second, "waits", 7)
	look := func(id string) RuleLook { return f.View().Look(schemas.Caller{Kind: "key", ID: id}, second).Rules[0] }
	if l := look("waits"); l.Absence != Waiting || l.Count.Total != 7 || !l.LowerBound() {
		t.Errorf("one that waits: got %+v, want a coarse count of 7", l)
	}
	if l := look("unknown"); l.Absence != TableFull || !l.LowerBound() {
		t.Errorf("one that nobody knows: got %+v, want a full table", l)
	}
	if l := look("held-1"); l.Absence != Present || l.Count.Total != 40 || l.LowerBound() {
		t.Errorf("one with a row: got %+v, want 40", l)
	}
	if l := f.View().Look(schemas.Caller{Kind: "key", ID: "unknown"}, 5*minute).Rules[0]; l.Absence != NothingCame {
		t.Errorf("when the losses are forgotten: got %+v, want nothing came", l)
	}
}

func TestALookSaysWhereALimitComesFrom(t *testing.T) {
	f := New(foldtest.Rules(t,
		"{name: r, callers: ip, limit: 10, window: 1m, algorithm: gcra, burst: 4, overrides: {10.0.0.1: 3, 10.0.0.0/24: 20, 10.0.1.0/24: unlimited}}"), Options{})
	for id, want := range map[string]RuleLook{
		"10.0.0.1": {Limit: 3, Capacity: 4, Override: "10.0.0.1", Exact: true},
		"10.0.0.2": {Limit: 20, Capacity: 4, Override: "10.0.0.0/24"},
		"10.0.1.2": {Limit: 10, Capacity: 4, Override: "10.0.1.0/24", Unlimited: true},
		"10.0.2.2": {Limit: 10, Capacity: 4},
	} {
		l := f.View().Look(schemas.Caller{Kind: "ip", ID: id}, 0).Rules[0]
		if l.Limit != want.Limit || l.Capacity != want.Capacity || l.Override != want.Override || l.Exact != want.Exact || l.Unlimited != want.Unlimited {
			t.Errorf("%s: got %+v, want %+v", id, l, want)
		}
	}
}

func TestALookShowsClosureAndWindow(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 5, window: 1m, slots: 6, close_for: 2m}"), Options{})
	for i := range 5 {
		rowEntry(f, int64(i)*10*second, "a", 1)
	}
	l := f.View().Look(schemas.Caller{Kind: "key", ID: "a"}, 45*second).Rules[0]
	if want := (policy.Closure{CloseAt: 40 * second, Until: 160 * second, Nth: 1, Peak: 5}); l.Closure != want {
		t.Errorf("got closure %+v, want %+v", l.Closure, want)
	}
	if l.Count.Total != 5 || len(l.Parts) != 5 || l.Parts[0] != (window.Part{From: 0, To: 10 * second, Leaves: 70 * second, Weight: 1}) {
		t.Errorf("got %+v, want five slots", l)
	}
	if got := l.EmptyAt(); got != 110*second {
		t.Errorf("empty at %d, want %d", got, 110*second)
	}
	if got := f.View().Look(schemas.Caller{Kind: "key", ID: "a"}, 0).Now; got != 40*second {
		t.Errorf("asked about a time before log time: got windows as of %d, want log time", got)
	}
}

// What is predicted, and what gates measure, is shown as gates were told.
func TestALookShowsWhatIsPredicted(t *testing.T) {
	l := shared(t)
	seen := false
	l.fold.View().Rows(l.fold.LogTime(), func(r Row) bool {
		look := l.fold.View().Look(schemas.Caller{Kind: r.Rule.Kind, ID: r.ID}, l.fold.LogTime()).Rules[0]
		seen = seen || look.Share != nil && look.Rate > 0
		return true
	})
	if !seen {
		t.Error("nobody has a share and a rate, and the loop has given one")
	}
}
