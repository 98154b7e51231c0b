package explain

import (
	"testing"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/pool"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

func TestWhatARequestWouldDoIsSaid(t *testing.T) {
	s := &teller{t: t, fold: fold.New(foldtest.Rules(t, ten, "{name: tried, callers: key, limit: 12, window: 1h, mode: shadow}"), fold.Options{})}
	s.sends(0, "a", 7)
	s.sends(0, "full", 10)
	s.control(schemas.Control{Action: schemas.ControlClose, Caller: key("banned")})
	for _, c := range []struct {
		ids    []string
		count  int
		want   string
		closes bool
	}{
		{[]string{"new"}, 1, "The request would pass.", false},
		{[]string{"a"}, 2, "All 2 requests would pass.", false},
		{[]string{"a"}, 3, "All 3 requests would pass: rule ten would close key:a until 2026-11-22T12:01:10Z.", true},
		{[]string{"a"}, 9, "3 of 9 requests would pass: rule ten would close key:a until 2026-11-22T12:01:10Z; " +
			"rule tried would close key:a until 2026-11-22T13:03:00Z, in mode shadow.", true},
		{[]string{"full"}, 1, "The request would be refused: rule ten closes key:full until 2026-11-22T12:01:10Z.", false},
		{[]string{"vip"}, 12, "All 12 requests would pass: rule tried would close key:vip until 2026-11-22T13:03:00Z, in mode shadow.", false},
		{[]string{"banned"}, 2, "0 of 2 requests would pass: key:banned is closed by hand until 2026-11-22T13:00:00Z.", false},
		{[]string{"a", "full"}, 1, "The request would be refused: rule ten closes key:full until 2026-11-22T12:01:10Z.", false},
	} {
		var drafts []*fold.Draft
		var at []apiv1.At
		for i, id := range c.ids {
			drafts = append(drafts, s.fold.View().Draft(key(id)))
			at = append(at, apiv1.At{Partition: i})
		}
		o, err := fold.Try(fold.Trial{Count: c.count, At: noon + 5*second}, drafts...)
		if err != nil {
			t.Fatal(err)
		}
		got := Try(o, at)
		if got.Sentence != c.want || got.Closes != c.closes || got.Passes != (o.Admitted == o.Requests) || int(got.Admitted) != o.Admitted || len(got.Callers) != len(c.ids) {
			t.Errorf("%d requests of %v: got %+v, want %q", c.count, c.ids, got, c.want)
		}
		for i, caller := range got.Callers {
			if caller.At.Partition != i || len(caller.Rules) != 2 || caller.Passes != (caller.Admitted == int64(o.Requests)) {
				t.Errorf("%d requests of %v: got caller %+v", c.count, c.ids, caller)
			}
		}
	}
}

// TestALevelHoldsInATrial: a caller of a pool is tried under the level in force, and without one it passes.
func TestALevelHoldsInATrial(t *testing.T) {
	s := &teller{t: t, fold: fold.New(foldtest.Rules(t, search), fold.Options{})}
	tried := func() string {
		o, err := fold.Try(fold.Trial{Count: 100, At: noon + second}, s.fold.View().Draft(key("a")))
		if err != nil {
			t.Fatal(err)
		}
		return Try(o, nil).Sentence
	}
	s.sends(second, "a", 1)
	if got := tried(); got != "All 100 requests would pass." {
		t.Errorf("without a level: got %q", got)
	}
	s.level(second, pool.Level{Level: 80_000, Asked: 62_500})
	if got := tried(); got != "41 of 100 requests would pass: rule search would close key:a until 2026-11-22T12:00:01Z." {
		t.Errorf("under a level of 80: got %q, want half a window's requests and one, at once", got)
	}
}

// What is said of each rule: whether it counts, what it holds before and after, and until when it closes.
func TestWhatEachRuleWouldDoIsSaid(t *testing.T) {
	s := &teller{t: t, fold: fold.New(foldtest.Rules(t, ten, "{name: login, callers: key, limit: 3, window: 1m, match: {resource: 'POST /login'}}"), fold.Options{})}
	s.sends(0, "a", 7)
	o, err := fold.Try(fold.Trial{Count: 4, At: noon + 5*second, Resource: "GET /"}, s.fold.View().Draft(key("a")))
	if err != nil {
		t.Fatal(err)
	}
	r := Try(o, make([]apiv1.At, 1)).Callers[0].Rules
	if x := r[0]; !x.Counts || x.Before != 7 || x.After != 10 || x.Weight != 3 || x.Admitted != 3 || x.Closed || !x.Closes || x.Nth != 1 || x.Limit != 10 || x.Until.IsZero() {
		t.Errorf("ten: got %+v", x)
	}
	if x := r[1]; x.Counts || x.Weight != 0 || x.Admitted != 4 || x.Closes || !x.Until.IsZero() {
		t.Errorf("login: got %+v", x)
	}
}

// TestWhatRequestsInFlightWouldHoldIsSaid: the room before and after, and why a caller has none.
func TestWhatRequestsInFlightWouldHoldIsSaid(t *testing.T) {
	tried := func(rule string, begun int, trial fold.Trial) apiv1.TryAnswer {
		t.Helper()
		s := &teller{t: t, fold: fold.New(foldtest.Rules(t, rule), fold.Options{Predict: rules.PredictEarly})}
		s.streams(0, begun, 0)
		s.plans()
		trial.At = noon + 21*second
		o, err := fold.Try(trial, s.fold.View().Draft(key("a")))
		if err != nil {
			t.Fatal(err)
		}
		return Try(o, make([]apiv1.At, 1))
	}
	const plain = "{name: tokens, callers: key, limit: 100000, window: 1m, algorithm: fixed, measure: cost, charge: arrival, hold: {estimate: 1000, margin: 0}}"
	for _, c := range []struct {
		rule  string
		begun int
		trial fold.Trial
		want  string
	}{
		{plain, 0, fold.Trial{Count: 9}, "All 9 requests would pass."},
		{plain, 0, fold.Trial{Count: 120}, "100 of 120 requests would pass: rule tokens would close key:a until there is room again (0 counted + 100000 expected of 100 in flight + 0 margin, of 100000)."},
		{plain, 0, fold.Trial{Count: 9, Cost: 25_000}, "4 of 9 requests would pass: rule tokens would close key:a until there is room again (0 counted + 100000 expected of 4 in flight + 0 margin, of 100000)."},
		{plain, 120, fold.Trial{}, "The request would be refused: rule tokens closes key:a until 2026-11-22T12:00:26Z, or there is room again (0 counted + 120000 expected of 120 in flight + 0 margin, of 100000)."},
		{streams, 18, fold.Trial{Count: 9}, "2 of 9 requests would pass: rule streams would close key:a until 2026-11-22T12:11:15Z."},
	} {
		if got := tried(c.rule, c.begun, c.trial); got.Sentence != c.want {
			t.Errorf("got  %s\nwant %s", got.Sentence, c.want)
		}
	}
	r := tried(plain, 90, fold.Trial{Count: 12}).Callers[0].Rules[0]
	if r.Closed || !r.Closes || !r.Until.IsZero() || r.Admitted != 10 || r.RoomBefore.InFlight != 90 || r.RoomBefore.Left != 9500 || r.RoomAfter.InFlight != 100 || r.RoomAfter.Left != -500 {
		t.Errorf("got %+v, from %+v to %+v", r, r.RoomBefore, r.RoomAfter)
	}
	if r := tried(streams, 3, fold.Trial{}).Callers[0].Rules[0]; r.RoomBefore != nil || r.RoomAfter != nil || r.Before != 3 || r.After != 4 {
		t.Errorf("got %+v, want four in flight, and no room of a rule without holds", r)
	}
}
