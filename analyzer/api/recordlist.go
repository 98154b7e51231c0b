package api

import (
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas"
)

// Bounds of pages.
const (
	defaultPage = 100
	maxPage     = 1000
	maxLooked   = 1 << 16 // records or decisions that one page looks at
)

// getActions lists the control records of people, the newest first.
func (s *Server) getActions(c *call) error {
	limit, err := c.query.number("limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	var after struct{ Offset int64 }
	after.Offset = math.MaxInt64
	if _, _, err := c.cursor(recordPages, &after); err != nil {
		return err
	}
	keep, err := c.recordFilter()
	if err != nil {
		return err
	}
	list := apiv1.ActionList{Now: c.now().UTC(), Actions: []apiv1.Action{}}
	looked := 0
	for r := range c.backend.Records.Before(after.Offset) {
		if len(list.Actions) == int(limit) || looked == maxLooked {
			list.Next = s.cursors.seal(recordPages, struct{ Offset int64 }{after.Offset})
			break
		}
		looked, after.Offset = looked+1, r.Offset
		first, found := c.backend.Records.Find(r.ID)
		if r.Action == schemas.ControlRules || found && first.Offset != r.Offset { // of one id, only the first record acts
			continue
		}
		if a := c.record(&r, c.unapplied(&r)); keep(&r, &a) {
			list.Actions = append(list.Actions, a)
		}
	}
	return c.answer(http.StatusOK, list)
}

// recordFilter returns what the query wants to see.
func (c *call) recordFilter() (func(r *Record, a *apiv1.Action) bool, error) {
	action, err := c.query.choice("action", "", "close", "open", "limit", "reset", "mode", "undo")
	if err != nil {
		return nil, err
	}
	state, err := c.query.choice("state", "", apiv1.StateWaiting, apiv1.StateInForce, apiv1.StateDone, apiv1.StateEnded, apiv1.StateUndone)
	if err != nil {
		return nil, err
	}
	var caller schemas.Caller
	if c.query.has("caller") {
		if caller, err = c.caller(); err != nil {
			return nil, err
		}
	}
	return func(r *Record, a *apiv1.Action) bool {
		return (action == "" || a.Action == action) && (state == "" || a.State == state) && (caller.Kind == "" || r.Caller == caller)
	}, nil
}

// unapplied reports whether an owner has not applied a record yet. Heartbeats tell that.
func (c *call) unapplied(r *Record) bool {
	for _, p := range c.recordPartitions(&r.Control) {
		if h, ok := c.backend.Board.Heartbeat(p); !ok || h.Control <= r.Offset {
			return true
		}
	}
	return false
}

// record returns a record as the API shows it.
func (c *call) record(r *Record, waits bool) apiv1.Action {
	a := apiv1.Action{
		ID: r.ID.String(), Offset: r.Offset, Time: timeOf(r.Time), Author: r.Author, Reason: c.redactor.text(r.Reason),
		Action: r.Action.String(), Rule: r.Rule, Limit: r.Limit, Until: timeOf(r.Until),
	}
	if r.Caller.Kind != "" {
		v := c.redactor.caller(r.Caller)
		a.Caller = &v
	}
	if r.Action == schemas.ControlUndo {
		a.Target = r.Target.String()
	}
	by, undone := c.backend.Records.Undone(r.ID)
	switch {
	case undone:
		a.State = apiv1.StateUndone
		a.UndoneBy = &apiv1.UndoneBy{ID: by.ID.String(), Time: timeOf(by.Time), Author: by.Author, Reason: c.redactor.text(by.Reason)}
	case waits:
		a.State = apiv1.StateWaiting
	case r.Until == 0:
		a.State = apiv1.StateDone
	case r.Until <= c.now().UnixNano():
		a.State = apiv1.StateEnded
	default:
		a.State = apiv1.StateInForce
	}
	return a
}

// timeOf returns the time of Unix nanoseconds, in UTC. 0 is the zero time, and so is math.MinInt64: the log time where nothing was counted.
func timeOf(ns int64) time.Time {
	if ns == 0 || ns == math.MinInt64 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// hexID writes a fingerprint.
func hexID(id uint64) string { return fmt.Sprintf("%016x", id) }
