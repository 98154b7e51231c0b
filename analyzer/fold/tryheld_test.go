package fold

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// tenEach is a rule with holds whose figures a reader can follow: 10 each, no margin, and half a request stays free.
const tenEach = "{name: tokens, callers: key, limit: 100, window: 1m, algorithm: fixed, measure: cost, charge: arrival, hold: {estimate: 10, margin: 0}}"

// begins folds arrivals of caller a at a time, and finishes responses to requests that came then.
func begins(f *Fold, at int64, count uint32) {
	f.Entry(&schemas.Entry{Time: at, Kind: "key", ID: "a", Count: count, Arrived: int64(count) * schemas.Tick(at)})
}

func finishes(f *Fold, at, arrived int64, count uint32, cost int64) {
	f.Entry(&schemas.Entry{
		Time: at, Kind: "key", ID: "a", Count: count, Cost: cost, Response: true, Status: 200, Arrived: int64(count) * schemas.Tick(arrived),
	})
}

// TestATrialAsksTheRoom: requests of a trial are in flight until its end, so that they pass while those before them leave room.
func TestATrialAsksTheRoom(t *testing.T) {
	const shadow = ", mode: shadow}"
	for _, test := range []struct {
		name, rule string
		predict    rules.Predict
		tell       func(f *Fold)
		trial      Trial
		admitted   int
		left       int64 // after the trial
	}{
		{"by the estimate", tenEach, rules.PredictEarly, nil, Trial{Count: 12}, 10, -5},
		{"by what is declared", tenEach, rules.PredictEarly, nil, Trial{Count: 12, Cost: 25}, 4, -5},
		{"beside what is in flight", tenEach, rules.PredictEarly, func(f *Fold) { begins(f, second, 4) }, Trial{Count: 12}, 6, -5},
		{"beside what is counted", tenEach, rules.PredictEarly, func(f *Fold) { begins(f, second, 4); finishes(f, 2*second, second, 4, 40) }, Trial{Count: 12}, 6, -5},
		{"all of them, and room is left", tenEach, rules.PredictEarly, nil, Trial{Count: 3}, 3, 65},
		{"the room is used up before", tenEach, rules.PredictEarly, func(f *Fold) { begins(f, second, 11) }, Trial{Count: 2}, 0, -15},
		{"a request that never fits passes alone", tenEach, rules.PredictEarly, nil, Trial{Count: 3, Cost: 500}, 1, -105},
		{"nothing holds without predictions", tenEach, rules.PredictOff, func(f *Fold) { begins(f, second, 11) }, Trial{Count: 3}, 3, -45},
		{"without predictions costs close", tenEach, rules.PredictOff, nil, Trial{Count: 12, Cost: 25}, 4, -105},
		{"in shadow no request is refused", tenEach[:len(tenEach)-1] + shadow, rules.PredictEarly, nil, Trial{Count: 9}, 9, 5},
		{"in flight", "{name: tokens, callers: key, limit: 5, measure: in_flight}", rules.PredictOff, func(f *Fold) { begins(f, second, 2) }, Trial{Count: 12, Cost: 7}, 3, 0},
		{"in flight, and one has ended", "{name: tokens, callers: key, limit: 5, measure: in_flight}", rules.PredictOff, func(f *Fold) { begins(f, second, 5); finishes(f, 2*second, second, 1, 7) }, Trial{Count: 12}, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := New(foldtest.Rules(t, test.rule), Options{Predict: test.predict})
			if test.tell != nil {
				test.tell(f)
			}
			test.trial.At = 3 * second
			d := f.View().Draft(key("a"))
			before := f.View().Look(key("a"), test.trial.At)
			got, err := Try(test.trial, d)
			if err != nil {
				t.Fatal(err)
			}
			r := &got.Callers[0].Rules[0]
			if got.Admitted != test.admitted || r.After.Room.Left != test.left {
				t.Errorf("got %d admitted and the room %+v, want %d and %d left", got.Admitted, r.After.Room, test.admitted, test.left)
			}
			if refused := got.Admitted < got.Requests; refused && !r.ClosedAt(got.At) || got.Callers[0].Open != (test.admitted > 0) || r.ClosedBefore(got.At) == got.Callers[0].Open {
				t.Errorf("got %+v, want a closed caller if requests are refused", r)
			}
			if !reflect.DeepEqual(r.Before.Room, before.Rules[0].Room) || !reflect.DeepEqual(f.View().Look(key("a"), test.trial.At), before) {
				t.Errorf("got the room %+v before, and %+v counted, want what there is, unchanged", r.Before.Room, before.Rules[0])
			}
		})
	}
}

// TestATrialKnowsWhomHoldsClose: gates hold the caller until it has room for a request, or until the end that they were told.
func TestATrialKnowsWhomHoldsClose(t *testing.T) {
	f := New(foldtest.Rules(t, tenEach, "{name: all, callers: key, limit: 1000, window: 1m}"), Options{Predict: rules.PredictEarly})
	begins(f, second, 11)
	if got, err := Try(Trial{At: second, Count: 3}, f.View().Draft(key("a"))); err != nil || got.Admitted != 0 || got.Callers[0].Rules[1].After.Early != 0 {
		t.Errorf("before gates know it: got %+v and %v, want no room, and refused requests that are not blocked early", got, err)
	}
	if plans := f.TakePlans(); len(plans) != 1 || !plans[0].Decision.Held {
		t.Fatalf("got %+v, want a caller that is held", plans)
	}
	finishes(f, 2*second, second, 1, 10)
	finishes(f, 2*second, second, 2, 0) // a little room: not enough to open
	d := f.View().Draft(key("a"))
	got, err := Try(Trial{At: 2 * second, Count: 3}, d)
	if err != nil || got.Admitted != 0 || got.Callers[0].Open {
		t.Fatalf("got %+v and %v, want a closed caller", got, err)
	}
	if r := got.Callers[0].Rules; !r[0].ClosedBefore(got.At) || r[0].Early.Until == 0 || r[0].Before.NoRoom() || r[1].After.Count.Total != 11 || r[1].After.Early != 0 {
		t.Errorf("got %+v, want the rule that holds it, and refused requests that are not blocked early", r)
	}
	if got, err := Try(Trial{At: 20 * second, Count: 1}, d); err != nil || got.Admitted != 1 {
		t.Errorf("after that: got %+v and %v, want it admitted", got, err)
	}
	if got, err := Try(Trial{At: 2 * second, Rules: foldtest.Rules(t, tenEach[:len(tenEach)-1]+", warn: 0.5}")}, d); err != nil || got.Admitted != 1 {
		t.Errorf("under another rule: got %+v and %v, want what its room says", got, err)
	}
}

// TestATrialIsWhatHappensToRequestsInFlight: the same requests come, gates know at once what is decided, and as many pass.
func TestATrialIsWhatHappensToRequestsInFlight(t *testing.T) {
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		rule := fmt.Sprintf("{name: tokens, callers: key, limit: %d, window: 1m, %s, measure: cost, charge: arrival, hold: {estimate: %d, margin: %d, resources: {/b: 30}}}",
			rapid.IntRange(1, 400).Draw(t, "limit"), rapid.SampledFrom([]string{"algorithm: fixed", "slots: 20", "slots: 1"}).Draw(t, "window"),
			rapid.IntRange(1, 50).Draw(t, "estimate"), rapid.IntRange(0, 4).Draw(t, "margin"))
		f := New(foldtest.Rules(t, rule), Options{Predict: rules.PredictEarly})
		for i := range rapid.IntRange(0, 12).Draw(t, "requests before") {
			at := 40*second + int64(i)*second
			begins(f, at, 1)
			if rapid.Bool().Draw(t, "ends") {
				finishes(f, at+second/2, at, 1, rapid.Int64Range(0, 60).Draw(t, "cost"))
			}
		}
		trial := Trial{At: max(f.LogTime(), minute), Count: rapid.IntRange(1, 20).Draw(t, "count"), Cost: rapid.Int64Range(0, 60).Draw(t, "cost"), Resource: rapid.SampledFrom([]string{"/a", "/b"}).Draw(t, "resource")}
		f.Advance(trial.At)
		got, err := Try(trial, f.View().Draft(key("a")))
		if err != nil {
			t.Fatal(err)
		}
		admitted := 0
		for range trial.Count {
			l := f.View().Look(key("a"), trial.At).Rules[0]
			if l.NoRoom() != (l.Room.Left <= 0 && l.Count.Total+l.Room.InFlight > 0) {
				t.Fatalf("got no room %v in %+v", l.NoRoom(), l.Room)
			}
			if l.NoRoom() || l.Closure.ClosedAt(trial.At) {
				break
			}
			admitted++
			f.Entry(&schemas.Entry{Time: trial.At, Kind: "key", ID: "a", Resource: trial.Resource, Count: 1, Arrived: schemas.Tick(trial.At), Declared: trial.Cost})
			held := false
			for _, p := range f.TakePlans() {
				held = p.Decision.Held && p.Decision.ClosedAt(trial.At)
			}
			if l := f.View().Look(key("a"), trial.At).Rules[0]; held != l.NoRoom() {
				t.Fatalf("got a caller that is held: %v, and no room %v in %+v", held, l.NoRoom(), l.Room)
			}
		}
		if admitted != got.Admitted {
			t.Fatalf("got %d through, and the trial said %d", admitted, got.Admitted)
		}
		if after := f.View().Look(key("a"), trial.At).Rules[0]; after.Room != got.Callers[0].Rules[0].After.Room {
			t.Fatalf("got %+v, and the trial said %+v", after.Room, got.Callers[0].Rules[0].After.Room)
		}
		refused += got.Requests - got.Admitted
	})
	if refused == 0 {
		t.Error("no request was refused: nothing was shown")
	}
}
