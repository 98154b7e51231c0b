package explain

import (
	"testing"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
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
