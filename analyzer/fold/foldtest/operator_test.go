package foldtest

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
)

// An operator decides all that a person can, in records that the topic takes.
func TestAnOperatorDecidesEverything(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		o := Operator{
			Rnd: rand.New(rand.NewPCG(1, 2)), Callers: []schemas.Caller{{Kind: "key", ID: "a"}, {Kind: "ip", ID: "192.0.2.1"}},
			Rules: []string{"r", "s"}, Fresh: fresh,
		}
		seen, ids := make(map[schemas.ControlAction]int), make(map[schemas.ControlID]bool)
		for i := range int64(1000) {
			c := o.Decide(Now + i)
			if _, err := pb.AppendControl(nil, &c); err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
			if c.Action == schemas.ControlUndo && !ids[c.Target] {
				t.Errorf("undo of %s, which was not given", c.Target)
			}
			seen[c.Action]++
			ids[c.ID] = true
		}
		if len(seen) != int(schemas.ControlRules) {
			t.Errorf("got actions %v, want all %d", seen, schemas.ControlRules)
		}
		if all := len(ids) == 1000; all != fresh {
			t.Errorf("fresh %v: got %d ids of 1000 records", fresh, len(ids))
		}
	}
	o := Operator{Rnd: rand.New(rand.NewPCG(3, 4)), Callers: []schemas.Caller{{Kind: "key", ID: "a"}}, Rules: []string{"r"}, Actions: []schemas.ControlAction{schemas.ControlUndo}}
	o.Fresh = true
	if c := o.Decide(Now); c.Action != schemas.ControlClose {
		t.Errorf("got %s with nothing to undo, want a close", c.Action)
	}
	if c := o.Decide(Now); c.Action != schemas.ControlUndo {
		t.Errorf("got %s with something to undo, want an undo", c.Action)
	}
}

// TestOperatorsOfOneSeedAgree, or a run that failed could not be run again; and none decides what is over already.
func TestOperatorsOfOneSeedAgree(t *testing.T) {
	operators := [2]Operator{}
	for i := range operators {
		operators[i] = Operator{Rnd: rand.New(rand.NewPCG(7, 8)), Callers: []schemas.Caller{{Kind: "key", ID: "a"}, {Kind: "key", ID: "b"}}, Rules: []string{"r", "s"}}
	}
	for now := Now; now < Now+500; now++ {
		a, b := operators[0].Decide(now), operators[1].Decide(now)
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("got %+v and %+v", a, b)
		}
		if a.Time != now || a.Until <= now || a.Until > now+int64(time.Hour)+1 {
			t.Errorf("at %d: got %+v, want it to end within an hour", now, a)
		}
	}
}
