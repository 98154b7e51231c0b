package foldtest

import (
	"math/rand/v2"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// Operator is a person who decides by hand, at random, about some callers and rules. One goroutine at a time may use it.
type Operator struct {
	Rnd     *rand.Rand
	Callers []schemas.Caller
	Rules   []string
	Actions []schemas.ControlAction // to choose from; nil is all
	Fresh   bool                    // no id is used twice

	given []schemas.ControlID
}

// Decide returns what the operator decides at now, in Unix nanoseconds, for up to an hour. Seldom it has the id of what was decided
// before, unless Fresh is set. An undo is of one of the last ten.
func (o *Operator) Decide(now int64) schemas.Control {
	c := schemas.Control{
		ID: o.newID(), Time: now, Author: "operator", Reason: "a test", Action: o.action(),
		Caller: o.Callers[o.Rnd.IntN(len(o.Callers))], Rule: o.Rules[o.Rnd.IntN(len(o.Rules))],
		Until: now + 1 + o.Rnd.Int64N(int64([]time.Duration{time.Second, time.Minute, time.Hour}[o.Rnd.IntN(3)])),
	}
	n := len(o.given)
	if c.Action == schemas.ControlUndo && n == 0 {
		c.Action = schemas.ControlClose
	}
	switch c.Action {
	case schemas.ControlLimit:
		c.Limit = 1 + o.Rnd.Int64N(30)
	case schemas.ControlUndo:
		c.Target = o.given[n-1-o.Rnd.IntN(min(n, 10))]
	case schemas.ControlRules:
		c.RulesID, c.Text = 1, []byte("a note")
	case schemas.ControlClose, schemas.ControlOpen, schemas.ControlReset, schemas.ControlMode:
		if o.Rnd.IntN(2) == 0 {
			c.Rule = ""
		}
	}
	if !o.Fresh && n > 0 && o.Rnd.IntN(20) == 0 {
		c.ID = o.given[o.Rnd.IntN(n)]
	}
	o.given = append(o.given, c.ID)
	return c
}

func (o *Operator) action() schemas.ControlAction {
	if len(o.Actions) > 0 {
		return o.Actions[o.Rnd.IntN(len(o.Actions))]
	}
	return schemas.ControlClose + schemas.ControlAction(o.Rnd.UintN(uint(schemas.ControlRules)))
}

func (o *Operator) newID() (id schemas.ControlID) {
	for i := range id {
		id[i] = byte(o.Rnd.Uint32())
	}
	return id
}
