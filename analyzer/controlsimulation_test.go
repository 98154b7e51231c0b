package analyzer

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// TestSimulationWithAnOperator is TestSimulation with a person who decides by hand all the time. Whoever died, and when: counts are the
// truth to the unit, a recount with each control record at its place agrees, each record that was written is in force exactly once
// for as long as it says, and nobody is closed whom neither a rule nor the person has closed.
func TestSimulationWithAnOperator(t *testing.T) {
	testenv.Long(t)
	decided := 0
	simulate(t, 1, func(s *simulation) {
		d := &decider{limits: make(map[string]int64), closed: make(map[string]bool)}
		d.Rnd, d.Rules, d.Fresh = s.rnd, []string{"minute"}, true
		for i := range 8 {
			d.Callers = append(d.Callers, schemas.Caller{Kind: "key", ID: fmt.Sprint("c", i)})
		}
		s.decides = d
		s.t.Cleanup(func() { decided += d.inForce })
	})
	if decided == 0 {
		t.Error("got no control record in force at the end: an hour that shows nothing")
	}
}

// decider is the person, and what the truth is of what was decided.
type decider struct {
	foldtest.Operator

	waiting []kafkaio.Message // not acknowledged yet
	limits  map[string]int64  // the lowest that a caller was given
	closed  map[string]bool   // callers who were closed
	inForce int               // at the end
}

// serve writes what the person decides now, and what could not be written before.
func (d *decider) serve(s *simulation) {
	s.t.Helper()
	if s.rnd.IntN(4) == 0 {
		c := d.Decide(time.Now().UnixNano())
		switch id := c.Caller.ID; c.Action {
		case schemas.ControlReset, schemas.ControlMode, schemas.ControlOpen:
			c.Rule = "minute" // the counts of the year stay
		case schemas.ControlLimit:
			if d.limits[id] == 0 {
				d.limits[id] = 20 // the rule's own
			}
			d.limits[id] = min(d.limits[id], c.Limit)
		case schemas.ControlClose:
			d.closed[id] = true
		case schemas.ControlUndo, schemas.ControlRules:
		}
		value, err := pb.AppendControl(nil, &c)
		if err != nil {
			s.t.Fatal(err)
		}
		d.waiting = append(d.waiting, kafkaio.Message{Time: c.Time, Value: value})
	}
	for len(d.waiting) > 0 {
		if _, err := s.log.Produce(s.t.Context(), "control", 0, d.waiting[0]); err != nil {
			break // it may have been appended: the same bytes again, later
		}
		d.waiting = d.waiting[1:]
	}
}

// allows reports whether a close follows from what the person decided.
func (d *decider) allows(s *simulation, c *schemas.Decision) bool {
	id := c.Caller.ID
	if c.Rule == schemas.ControlRule {
		return d.closed[id]
	}
	limit := d.limits[id]
	return limit > 0 && c.Rule == "minute" && s.minutes[callerMinute{id, c.CloseAt / int64(time.Minute)}] >= limit
}

// check wants that the last owner remembers what is in the topic, each record once, and undone where it was.
func (d *decider) check(s *simulation) {
	s.t.Helper()
	f, at, err := Inspect(s.analyzers[s.owner].dir, mustRules(s.t, simulationRules), fold.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	want := make(map[string]bool) // undone, by record
	for _, r := range s.log.Records("control", 0) {
		c, err := pb.DecodeControl(r.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		if !c.OfPeople() {
			continue
		}
		if c.Action == schemas.ControlUndo {
			for key := range want {
				if key[:32] == c.Target.String() {
					want[key] = true
				}
			}
			continue
		}
		end := c.Until
		if c.Action == schemas.ControlReset {
			end = c.Time + int64(override.ResetMemory)
		}
		if key := fmt.Sprint(c.ID, c.Action, c.Caller, c.Rule, c.Limit); end > at.LogTime && !want[key] { // a copy may follow an undo
			want[key] = false
		}
	}
	got := make(map[string]bool)
	for m := range f.View().Records().All(0) {
		c := &m.Control
		got[fmt.Sprint(c.ID, c.Action, c.Caller, c.Rule, c.Limit)] = m.Undone()
		if !m.Undone() && c.Action != schemas.ControlReset {
			d.inForce++
		}
	}
	for key := range want {
		if want[key] && !got[key] { // a reset cannot be undone
			want[key] = want[key] && key[33:38] != "reset"
		}
	}
	if !maps.Equal(got, want) {
		s.t.Errorf("control records in force, and undone:\ngot  %v\nwant %v", got, want)
	}
}
