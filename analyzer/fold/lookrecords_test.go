package fold

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
)

// drawControl draws what an operator may write at log time now; known is the records that were written before.
func drawControl(t *rapid.T, now int64, known []schemas.ControlID) schemas.Control {
	c := schemas.Control{
		Action: schemas.ControlAction(rapid.IntRange(int(schemas.ControlClose), int(schemas.ControlUndo)).Draw(t, "action")),
		Time:   now, Author: "alice", Reason: "ticket 4711",
	}
	c.ID[0], c.ID[1] = byte(len(known)), byte(len(known)>>8)
	switch c.Action {
	case schemas.ControlUndo:
		if len(known) > 0 {
			c.Target = rapid.SampledFrom(known).Draw(t, "target")
		}
		return c
	case schemas.ControlMode:
	default:
		c.Caller = rapid.SampledFrom(lookedAt()).Draw(t, "caller")
	}
	c.Rule = rapid.SampledFrom([]string{"fixed", "sliding", "log", "daily"}).Draw(t, "rule")
	if c.Action != schemas.ControlLimit && rapid.Bool().Draw(t, "all rules") {
		c.Rule = ""
	}
	if c.Action == schemas.ControlLimit {
		c.Limit = rapid.Int64Range(1, 12).Draw(t, "limit")
	}
	if c.Action != schemas.ControlReset {
		c.Until = now + rapid.Int64Range(1, 2*hour).Draw(t, "for")
	}
	return c
}

// drawnOperator applies drawn control records to folds alike.
type drawnOperator struct{ known []schemas.ControlID }

func (o *drawnOperator) act(t *rapid.T, from int, folds ...*Fold) {
	if rapid.IntRange(0, 2).Draw(t, "operator") > 0 {
		return
	}
	c := drawControl(t, max(folds[0].LogTime(), second), o.known)
	o.known = append(o.known, c.ID)
	for _, f := range folds {
		_ = f.Control(&c, int64(from), int64(len(o.known)))
		f.TakeChanges()
	}
}

// TestALookWithAnOperatorIsTheRefold: as TestALookIsTheRefold, while a person closes, opens, limits, resets, brakes and undoes.
func TestALookWithAnOperatorIsTheRefold(t *testing.T) {
	sets := foldtest.VariedRules(t)
	rapid.Check(t, func(t *rapid.T) {
		log := randomLog(t)
		plain, asked := New(sets[0], Options{}), New(sets[0], Options{Busiest: true})
		var kept fakeStore
		var o drawnOperator
		for i := range log {
			o.act(t, i, plain, asked)
			_, _ = plain.Frame(log[i]), asked.Frame(log[i])
			if rapid.IntRange(0, 3).Draw(t, "killed") == 0 {
				kept.commit(t, asked)
				asked = kept.restore(t, asked.Rules(), asked.opts)
			}
			now := plain.LogTime() + rapid.Int64Range(0, hour).Draw(t, "asked later by")
			for _, c := range lookedAt() {
				got, want := asked.View().Look(c, now), plain.View().Look(c, now)
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("record %d, %s: got %+v, want %+v", i, c, got, want)
				}
				checkLook(t, plain, &want)
				checkRecords(t, plain, &want)
				asked.View().Draft(c)
			}
		}
		if got, want := asked.Digest(plain.LogTime()), plain.Digest(plain.LogTime()); got != want {
			t.Fatalf("whoever asks changes the digest: got %#x, want %#x", got, want)
		}
	})
}

// checkRecords compares what a look says of control records with the list of them.
func checkRecords(t *rapid.T, f *Fold, l *Look) {
	held := make(map[schemas.ControlID]override.Record)
	for r := range f.View().Records().All(0) {
		held[r.ID] = r
	}
	named := []*override.Record{l.Record.By, l.Record.ShadowBy}
	for i := range l.Rules {
		r := &l.Rules[i]
		named = append(named, r.LimitBy, r.OpenedBy, r.ShadowBy)
		switch {
		case r.OpenedBy != nil && !r.Unlimited, r.LimitBy != nil && r.LimitBy.Limit != r.Limit:
			t.Fatalf("%s under %s: got limit %d, unlimited %v, by %+v and %+v", l.Caller, r.Rule.Name, r.Limit, r.Unlimited, r.LimitBy, r.OpenedBy)
		case r.ShadowBy != nil && r.Rule.Mode != schemas.ModeShadow:
			t.Fatalf("%s: the brake holds, and the mode is %s", r.Rule.Name, r.Rule.Mode)
		}
	}
	for _, m := range named {
		if m == nil {
			continue
		}
		want, ok := held[m.ID]
		if !ok || m.Undone() || !reflect.DeepEqual(*m, want) || m.Action != schemas.ControlMode && m.Caller != l.Caller {
			t.Fatalf("%s: got the record %+v, want one in force about it: %+v", l.Caller, m, want)
		}
	}
	if h := l.Record; (h.By != nil) != (h.Closure.Nth > 0) || h.By != nil && h.By.Until != h.Closure.Until {
		t.Fatalf("%s: got a closure by hand %+v by %+v", l.Caller, h.Closure, h.By)
	}
}

func TestALookSaysWhoDidIt(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 3, window: 1m, overrides: {a: 2}}", "{name: s, callers: key, limit: 3, window: 1h}"), Options{})
	n := int64(0)
	does := func(c schemas.Control) {
		t.Helper()
		n++
		c.ID[0], c.Time, c.Author, c.Reason, c.Until = byte(n), second, "alice", "ticket 4711", hour
		if err := f.Control(&c, 7, n); err != nil {
			t.Fatal(err)
		}
	}
	rowEntry(f, second, "a", 1)
	does(schemas.Control{Action: schemas.ControlLimit, Caller: key("a"), Rule: "r", Limit: 9})
	l := f.View().Look(key("a"), 0)
	if r := l.Rules[0]; r.Limit != 9 || r.LimitBy == nil || r.LimitBy.Author != "alice" || r.LimitBy.From != 7 || r.Override != "a" || r.OpenedBy != nil {
		t.Errorf("a limit by hand: got %+v", r)
	}
	if s := l.Rules[1]; s.Limit != 3 || s.LimitBy != nil || l.Record != (RecordLook{}) {
		t.Errorf("the other rule: got %+v, and by hand %+v", s, l.Record)
	}
	does(schemas.Control{Action: schemas.ControlOpen, Caller: key("a")})
	for _, r := range f.View().Look(key("a"), 0).Rules {
		if !r.Unlimited || r.OpenedBy == nil || r.OpenedBy.ID[0] != 2 {
			t.Errorf("opened by hand: got %+v", r)
		}
	}
	does(schemas.Control{Action: schemas.ControlClose, Caller: schemas.Caller{Kind: "nobody", ID: "x"}})
	does(schemas.Control{Action: schemas.ControlMode})
	h := f.View().Look(schemas.Caller{Kind: "nobody", ID: "x"}, 0).Record
	if h.By == nil || h.By.ID[0] != 3 || h.Mode != schemas.ModeShadow || h.ShadowBy == nil || h.ShadowBy.ID[0] != 4 ||
		h.Closure != (policy.Closure{CloseAt: second, Until: hour, Nth: 1}) {
		t.Errorf("closed by hand, and braked: got %+v", h)
	}
	if r := f.View().Look(key("b"), 0).Rules[1]; r.ShadowBy == nil || r.Rule.Mode != schemas.ModeShadow {
		t.Errorf("a rule that is braked: got %+v", r)
	}
}

// A person has closed a caller, or opened it: a trial knows that.
func TestATrialKnowsWhatAPersonDid(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 1, window: 1m}"), Options{})
	rowEntry(f, second, "opened", 1)
	for i, c := range []schemas.Control{
		{Action: schemas.ControlClose, Caller: key("closed")}, {Action: schemas.ControlOpen, Caller: key("opened")},
		{Action: schemas.ControlLimit, Caller: key("limited"), Rule: "r", Limit: 4},
	} {
		c.ID[0], c.Time, c.Author, c.Reason, c.Until = byte(i+1), second, "alice", "ticket 4711", hour
		if err := f.Control(&c, 1, int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]int{"closed": 0, "opened": 6, "limited": 4, "other": 1} {
		got, err := Try(Trial{At: 2 * second, Count: 6}, f.View().Draft(key(id)))
		if err != nil || got.Admitted != want || (got.Callers[0].Record.By != nil) != (id == "closed") {
			t.Errorf("%s: got %+v and %v, want %d admitted", id, got, err, want)
		}
	}
	got, err := Try(Trial{At: 2 * hour, Count: 6}, f.View().Draft(key("closed")))
	if err != nil || got.Admitted != 1 {
		t.Errorf("when that is over: got %+v and %v, want 1 admitted", got, err)
	}
}
