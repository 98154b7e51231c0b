package fold

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// TestATrialIsWhatHappens: requests are tried on a fold that has counted anything, and then they come. The fold closes when the trial
// said so, and holds what it said; and the trial itself has changed nothing.
func TestATrialIsWhatHappens(t *testing.T) {
	sets := foldtest.VariedRules(t)
	closes, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		f := New(sets[0], Options{})
		var o drawnOperator
		for i, r := range randomLog(t) {
			o.act(t, i, f)
			_ = f.Frame(r)
		}
		now := f.LogTime() + rapid.Int64Range(0, 2*minute).Draw(t, "tried later by")
		if f.LogTime() == never {
			now = second
		}
		trial := Trial{
			Resource: rapid.SampledFrom([]string{"", "GET /search"}).Draw(t, "resource"), At: now, Count: rapid.IntRange(0, 12).Draw(t, "count"),
			Cost: rapid.Int64Range(-1, 8).Draw(t, "cost"), Status: rapid.SampledFrom([]uint16{0, 404, 500}).Draw(t, "status"),
		}
		var callers []schemas.Caller
		for _, kind := range rapid.SampledFrom([][]string{{"key"}, {"ip"}, {"key", "ip"}, {"tenant", "ip"}}).Draw(t, "kinds") {
			callers = append(callers, schemas.Caller{Kind: kind, ID: rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "new"}).Draw(t, "id")})
		}
		if rapid.IntRange(0, 3).Draw(t, "other rules") == 0 {
			trial.Rules = sets[1]
		}
		digest, dirty := f.Digest(now), f.Dirty()
		var drafts []*Draft
		for _, c := range callers {
			drafts = append(drafts, f.View().Draft(c))
		}
		got, err := Try(trial, drafts...)
		if err != nil {
			t.Fatal(err)
		}
		if f.Digest(now) != digest || f.Dirty() != dirty {
			t.Fatal("the trial has changed what is counted")
		}
		if again, _ := Try(trial, drafts...); !reflect.DeepEqual(again, got) {
			t.Fatalf("tried again: got %+v, want %+v", again, got)
		}
		f.Advance(now)
		if trial.Rules != nil {
			f.SetRules(trial.Rules)
		}
		comes(t, f, &trial, callers, got)
		for _, c := range got.Callers {
			if c.Closes {
				closes++
			}
		}
		refused += got.Requests - got.Admitted
	})
	if closes == 0 || refused == 0 {
		t.Errorf("got %d closes and %d requests refused: nothing was shown", closes, refused)
	}
}

// comes lets the requests of a trial come, as servers do whose gates know at once what is decided, and compares.
func comes(t *rapid.T, f *Fold, trial *Trial, callers []schemas.Caller, want *Outcome) {
	closed := func(c schemas.Caller) bool {
		l := f.View().Look(c, want.At)
		if l.Record.Mode == schemas.ModeEnforce && l.Record.Closure.ClosedAt(want.At) {
			return true
		}
		for _, r := range l.Rules {
			if r.Rule.Mode == schemas.ModeEnforce && r.Closure.ClosedAt(want.At) {
				return true
			}
		}
		return false
	}
	admitted := 0
	for range want.Requests {
		anyone := false
		for _, c := range callers {
			anyone = anyone || closed(c)
		}
		for _, c := range callers {
			e := schemas.Entry{Time: want.At, Kind: c.Kind, ID: c.ID, Resource: trial.Resource, Count: 1, Blocked: closed(c), Arrived: max(schemas.Tick(want.At), 1)}
			if anyone && !e.Blocked {
				continue
			}
			f.Entry(&e)
			if !anyone {
				e.Response, e.Status, e.Cost, e.Arrived = true, trial.Status, max(trial.Cost, 0), 0
				if e.Status == 0 {
					e.Status = 200
				}
				f.Entry(&e)
			}
		}
		if !anyone {
			admitted++
		}
	}
	if admitted != want.Admitted || want.Requests != max(trial.Count, 1) {
		t.Fatalf("got %d of %d requests through, and the trial said %d of %d", admitted, max(trial.Count, 1), want.Admitted, want.Requests)
	}
	for i, c := range callers {
		o := want.Callers[i]
		if o.Closes && !closed(c) || !o.Closes && o.Open && closed(c) {
			t.Fatalf("%s: got closed %v, and the trial said %+v", c, closed(c), o)
		}
		for n, r := range f.View().Look(c, want.At).Rules {
			said := o.Rules[n].After
			if r.Closure != said.Closure || r.Count != said.Count || r.Limit != said.Limit || r.Rule.Name != said.Rule.Name {
				t.Fatalf("%s under %s: got %+v, and the trial said %+v", c, r.Rule.Name, r, said)
			}
		}
	}
}

// key is a caller of kind key.
func key(id string) schemas.Caller { return schemas.Caller{Kind: "key", ID: id} }

func TestATrialSaysWhichRuleClosesAndWhen(t *testing.T) {
	f := New(foldtest.Rules(t,
		"{name: five, callers: key, limit: 5, window: 1m, algorithm: fixed, close_for: 2m}",
		"{name: cost, callers: key, limit: 100, window: 1m, algorithm: fixed, measure: cost}",
		"{name: search, callers: key, limit: 3, window: 1m, algorithm: fixed, mode: shadow, match: {resource: 'GET /search'}}"), Options{})
	for range 2 {
		rowEntry(f, second, "a", 1)
	}
	got, err := Try(Trial{Resource: "GET /search", Count: 9, Cost: 10, At: 30 * second}, f.View().Draft(key("a")))
	if err != nil {
		t.Fatal(err)
	}
	if got.Requests != 9 || got.Admitted != 3 || !got.Callers[0].Open || !got.Callers[0].Closes {
		t.Fatalf("got %+v, want 3 of 9 admitted, and a close", got)
	}
	five, cost, search := got.Callers[0].Rules[0], got.Callers[0].Rules[1], got.Callers[0].Rules[2]
	if c := five.After.Closure; !five.Counts || five.Weight != 3 || five.Before.Count.Total != 2 || five.After.Count.Total != 5 ||
		c.CloseAt != 30*second || c.Until != 150*second || five.Admitted != 3 || !five.ClosedAt(30*second) {
		t.Errorf("five: got %+v", five)
	}
	if !cost.Counts || cost.Weight != 30 || cost.After.Count.Total != 30 || cost.Admitted != 9 || cost.ClosedAt(30*second) {
		t.Errorf("cost: got %+v, want 30 of 100", cost)
	}
	if !search.Counts || search.Weight != 3 || !search.ClosedAt(30*second) || search.Admitted != 3 {
		t.Errorf("search: got %+v, want a close in shadow at 3", search)
	}
	got, err = Try(Trial{Resource: "GET /search", Count: 4, At: 30 * second, Rules: foldtest.Rules(t,
		"{name: five, callers: key, limit: 7, window: 1m, algorithm: fixed, close_for: 2m}")}, f.View().Draft(key("a")))
	if err != nil || got.Admitted != 4 || got.Callers[0].Closes || got.Callers[0].Rules[0].After.Count.Total != 6 {
		t.Errorf("under a limit of 7: got %+v and %v, want 6 of 7", got, err)
	}
	got, err = Try(Trial{At: 30 * second, Rules: foldtest.Rules(t,
		"{name: five, callers: key, limit: 2, window: 1m, algorithm: fixed, close_for: 2m}")}, f.View().Draft(key("a")))
	if err != nil || got.Admitted != 0 || got.Callers[0].Open || got.Callers[0].Closes {
		t.Errorf("under a limit of 2, which closes at once: got %+v and %v", got, err)
	}
}

// A request has several callers, and passes if all are open. What refuses it is not charged to the others.
func TestATrialOfSeveralCallers(t *testing.T) {
	f := New(foldtest.Rules(t,
		"{name: k, callers: key, limit: 5, window: 1m, algorithm: fixed}", "{name: i, callers: ip, limit: 2, window: 1m, algorithm: fixed}"), Options{})
	got, err := Try(Trial{Count: 4, At: second}, f.View().Draft(key("a")), f.View().Draft(schemas.Caller{Kind: "ip", ID: "10.0.0.1"}))
	if err != nil {
		t.Fatal(err)
	}
	k, i := got.Callers[0], got.Callers[1]
	if got.Admitted != 2 || k.Closes || !i.Closes || k.Rules[0].After.Count.Total != 2 || k.Rules[0].Admitted != 4 || i.Rules[0].Admitted != 2 {
		t.Errorf("got %+v, want 2 of 4, and ip closed", got)
	}
}

func TestATrialIsBounded(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: k, callers: key, limit: 1000000, window: 1m}"), Options{})
	got, err := Try(Trial{Count: 1 << 40}, f.View().Draft(key("a")))
	if err != nil || got.Requests != MaxTrial || got.Admitted != MaxTrial {
		t.Errorf("got %+v and %v, want %d requests", got, err, MaxTrial)
	}
	got, err = Try(Trial{Count: -3}, f.View().Draft(schemas.Caller{Kind: "nobody", ID: "a"}))
	if err != nil || got.Requests != 1 || got.Admitted != 1 || len(got.Callers[0].Rules) != 0 || !got.Callers[0].Open {
		t.Errorf("a kind that no rule counts: got %+v and %v, want one request that passes", got, err)
	}
}

// Gates refuse by what was predicted, too: a trial says so, unless the rule is another.
func TestATrialKnowsWhatGatesWereTold(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: k, callers: key, limit: 10, window: 1m, algorithm: fixed}"), Options{Predict: rules.PredictEarly})
	f.Measure(0, 100)
	rowEntry(f, second, "a", 9)
	d := f.View().Draft(key("a"))
	d.spans["k"] = earlySpan{span: schemas.Span{CloseAt: second, Until: 3 * second, Early: true}, version: f.rules.set.Rules[0].Fingerprint()}
	for name, c := range map[string]struct {
		trial    Trial
		admitted int
	}{
		"while it holds": {Trial{At: 2 * second}, 0}, "before it": {Trial{At: second}, 0}, "after it": {Trial{At: 3 * second}, 1},
		"under another rule": {Trial{At: 2 * second, Rules: foldtest.Rules(t, "{name: k, callers: key, limit: 11, window: 1m, algorithm: fixed}")}, 1},
	} {
		got, err := Try(c.trial, d)
		if err != nil || got.Admitted != c.admitted || got.Callers[0].Open != (c.admitted > 0) {
			t.Errorf("%s: got %+v and %v, want %d admitted", name, got, err, c.admitted)
		}
	}
}

// TestATrialKnowsWhichCloseOfAPersonIsEnforced: under the brake, requests of a caller that a person closed pass.
func TestATrialKnowsWhichCloseOfAPersonIsEnforced(t *testing.T) {
	f := New(foldtest.Rules(t, tenAMinute), Options{})
	f.Advance(second)
	for n, step := range []struct {
		record schemas.Control
		open   bool
	}{
		{schemas.Control{Action: schemas.ControlClose, Caller: callerOf("x"), Until: hour}, false},
		{schemas.Control{Action: schemas.ControlMode, Until: hour}, true},
	} {
		step.record.ID, step.record.Time = controlNumber(n+1), second
		if err := f.Control(&step.record, 1, int64(n)); err != nil {
			t.Fatal(err)
		}
		got, err := Try(Trial{At: second, Count: 1}, f.View().Draft(callerOf("x")))
		if err != nil || got.Callers[0].Open != step.open || (got.Admitted == 1) != step.open {
			t.Errorf("after %s: got %+v and %v, want open %v", step.record.Action, got, err, step.open)
		}
	}
}
