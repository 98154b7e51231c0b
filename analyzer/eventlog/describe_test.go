package eventlog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// story folds entries of callers at seconds since the epoch, each as a message of its own, and returns the events, as text.
func story(t *testing.T, rules string, entries ...[3]int) []string {
	t.Helper()
	f := fold.New(foldtest.Rules(t, rules), fold.Options{Ends: true})
	var all []string
	for i, e := range entries {
		frame := foldtest.Frame(uint64(i)+1, int64(e[0])*int64(time.Second)) // a test's own numbers
		frame.Entries = []schemas.Entry{{Time: int64(e[0]) * int64(time.Second), Kind: "key", ID: fmt.Sprint("c", e[1]), Count: uint32(e[2])}}
		if err := f.Frame(fold.Record{Offset: int64(i), Time: frame.Entries[0].Time, Value: foldtest.Encode(t, frame)}); err != nil {
			t.Fatal(err)
		}
		for _, c := range f.TakeChanges() {
			if e, ok := Describe(&c, 3, -1); ok {
				all = append(all, show(&e))
			}
		}
	}
	return all
}

// show writes what a test compares of an event.
func show(e *event.Event) string {
	text := fmt.Sprintf("%d %s %s", e.Offset, e.Type, e.Caller.ID)
	if e.Share > 0 {
		return text + fmt.Sprintf(" %v of %d", e.Share, e.Limit)
	}
	return text + fmt.Sprintf(" %d-%d", e.CloseAt.Unix(), e.Until.Unix())
}

// TestStoriesInTime: what happens to callers, and the events of it.
func TestStoriesInTime(t *testing.T) {
	t.Parallel()
	const fixed = "{name: r, callers: key, limit: 10, window: 1m, algorithm: fixed}"
	for name, c := range map[string]struct {
		rules   string
		entries [][3]int
		want    []string
	}{
		"below":            {fixed, [][3]int{{1, 1, 9}}, nil},
		"closed and ended": {fixed, [][3]int{{1, 1, 9}, {2, 1, 1}, {60, 2, 1}}, []string{"1 closed c1 2-60", "2 ended c1 2-60"}},
		"two callers":      {fixed, [][3]int{{1, 1, 10}, {2, 2, 10}}, []string{"0 closed c1 1-60", "1 closed c2 2-60"}},
		"warned once, as it crosses": {
			"{name: r, callers: key, limit: 10, window: 1m, algorithm: fixed, warn: [0.5, 0.8]}", [][3]int{{1, 1, 4}, {2, 1, 1}, {3, 1, 1}, {4, 1, 2}},
			[]string{"1 warned c1 0.5 of 10", "3 warned c1 0.8 of 10"},
		},
		"closed again, for longer": {
			"{name: r, callers: key, limit: 10, window: 1m, algorithm: fixed, close_for: 1m, escalate: {factor: 2, max: 1h, forget: 1h}}",
			[][3]int{{1, 1, 10}, {70, 1, 10}, {300, 2, 1}},
			[]string{"0 closed c1 1-61", "1 ended c1 1-61", "1 closed c1 70-190", "2 ended c1 70-190"},
		},
	} {
		if got := story(t, c.rules, c.entries...); !slices.Equal(got, c.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// TestRequestsInFlightCloseOnce: gates open and close a caller again and again while its requests end and begin. People hear of one close.
func TestRequestsInFlightCloseOnce(t *testing.T) {
	t.Parallel()
	f := fold.New(foldtest.Rules(t, "{name: r, callers: key, limit: 4, measure: in_flight}"), fold.Options{Ends: true})
	var got []string
	step := func(second int64, begins bool) {
		e := schemas.Entry{Time: second * int64(time.Second), Kind: "key", ID: "x", Count: 1, Arrived: second * 100}
		if !begins {
			e.Response, e.Status, e.Arrived = true, 200, schemas.Tick(int64(time.Second))
		}
		f.Entry(&e)
		for _, c := range f.TakeChanges() {
			if e, ok := Describe(&c, 0, -1); ok {
				got = append(got, fmt.Sprintf("%s at %d", e.Type, e.Time.Unix()))
			}
		}
	}
	for range 4 {
		step(1, true)
	}
	for second := int64(2); second < 20; second++ { // one ends, and the next begins
		step(second, false)
		step(second, true)
	}
	for range 3 {
		step(20, false)
	}
	if want := []string{"closed at 1", "ended at 20"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestMovesAreThinned: an end that moves with each request is no event each time.
func TestMovesAreThinned(t *testing.T) {
	t.Parallel()
	const rule = "{name: r, callers: key, limit: 10, window: 80s, algorithm: log, count_blocked: true}"
	var entries [][3]int
	for i := range 200 {
		entries = append(entries, [3]int{i, 1, 1})
	}
	moved := 0
	for _, e := range story(t, rule, entries...) {
		if strings.Contains(e, "extended") {
			moved++
		}
	}
	if moved < 5 || moved > 40 { // it moves by some 190 s in all, and an eighth of the window is 10 s
		t.Errorf("got %d events of an end that moved 190 times by a second, want one each ten seconds or so", moved)
	}
}

// TestEqualWarningsHaveOneID: one who stays at the share of a warning crosses it with each request.
func TestEqualWarningsHaveOneID(t *testing.T) {
	t.Parallel()
	r := foldtest.Rules(t, "{name: r, callers: key, limit: 10, window: 80s}").Rules[0]
	id := func(at time.Duration, offset int64) string {
		e, ok := Describe(&fold.Change{Rule: r, Caller: schemas.Caller{Kind: "key", ID: "x"}, Warn: 0.8, At: int64(at), Offset: offset, Limit: 10}, 0, -1)
		if !ok || e.Type != event.Warned {
			t.Fatalf("got %+v, want a warning", e)
		}
		return e.ID
	}
	if id(0, 1) != id(9*time.Second, 2) || id(0, 1) == id(10*time.Second, 1) {
		t.Error("got other ids, want one for each ten seconds: an eighth of the window")
	}
}

// TestAWarningOfAPoolIsAboutAllItsCallers together, and not about one that is called so.
func TestAWarningOfAPoolIsAboutAllItsCallers(t *testing.T) {
	t.Parallel()
	for rule, together := range map[string]bool{"{name: r, callers: key, capacity: 5000, window: 1s}": true, "{name: r, callers: key, limit: 10, window: 80s}": false} {
		r := foldtest.Rules(t, rule).Rules[0]
		e, ok := Describe(&fold.Change{Rule: r, Caller: schemas.Caller{Kind: "key", ID: fold.AllCallers}, Warn: 0.8, Limit: r.Limit}, 0, -1)
		if !ok || e.Together != together || e.Caller.ID != "*" {
			t.Errorf("%s: got %+v, want together %v", rule, e, together)
		}
	}
}

// TestAPlaceIsTheOffsetThatFollows: what rules or people change has the offset of the next message.
func TestAPlaceIsTheOffsetThatFollows(t *testing.T) {
	t.Parallel()
	f := fold.New(foldtest.Rules(t, "{name: r, callers: key, limit: 10, window: 1m}"), fold.Options{Ends: true})
	f.Entry(&schemas.Entry{Time: 1, Kind: "key", ID: "x", Count: 10})
	f.TakeChanges()
	f.SetRules(foldtest.Rules(t, "{name: r, callers: key, limit: 100, window: 1m}"))
	changes := f.TakeChanges()
	if len(changes) != 1 {
		t.Fatalf("got %d changes, want 1", len(changes))
	}
	e, ok := Describe(&changes[0], 2, 77)
	if !ok || e.Type != event.Opened || e.Offset != 77 || e.Partition != 2 || e.ID == "" {
		t.Errorf("got %+v, want an opening at offset 77", e)
	}
}

// TestWhatPeopleDecided: a control event says who, why, and what.
func TestWhatPeopleDecided(t *testing.T) {
	t.Parallel()
	c := schemas.Control{
		ID: schemas.ControlID{1}, Time: 5, Author: "bob", Reason: "a customer called", Action: schemas.ControlLimit,
		Caller: schemas.Caller{Kind: "key", ID: "\xff"}, Rule: "r", Limit: 7, Until: 9,
	}
	e := DescribeControl(&c, 2, 30)
	if e.Type != event.Control || e.Author != "bob" || e.Reason != c.Reason || e.Action != "limit" || e.Limit != 7 || e.Caller.Caller() != c.Caller ||
		e.Record != c.ID.String() || e.Offset != 30 || e.Until.UnixNano() != 9 || e.Time.UnixNano() != 5 {
		t.Errorf("got %+v, want what %+v says", e, c)
	}
	again := DescribeControl(&c, 2, 31)
	if again.ID != e.ID {
		t.Error("got another id where the record was applied elsewhere, want the same")
	}
	undo := DescribeControl(&schemas.Control{ID: schemas.ControlID{2}, Time: 6, Action: schemas.ControlUndo, Target: c.ID, Reason: "r"}, 0, 31)
	if undo.Target != c.ID.String() || undo.Caller.Kind != "" || !undo.Until.IsZero() {
		t.Errorf("got %+v, want an undo of %s", undo, c.ID)
	}
	changed := DescribeRules(1, 2, 0, 40, -5)
	if changed.RulesFrom != "0000000000000001" || changed.RulesTo != "0000000000000002" || changed.Offset != 40 || changed.Time.UnixNano() != 0 {
		t.Errorf("got %+v, want a change of rules 1 to 2", changed)
	}
	for _, e := range []event.Event{e, undo, changed} {
		if got, err := event.Decode(e.Encode()); err != nil || got.ID != e.ID {
			t.Errorf("got %+v, %v, want what was encoded", got, err)
		}
	}
}
