package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/api/history"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// Events is the topic of events. *history.History is one. Page is safe for concurrent use.
type Events interface {
	Page(ctx context.Context, q history.Query) (history.Page, error)
}

// eventsWait is how long a page of events may take.
const eventsWait = 10 * time.Second

// getEvents lists what has happened since a time, the oldest first.
func (s *Server) getEvents(c *call) error {
	limit, err := c.query.number("limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	q := history.Query{Limit: int(limit)}
	text, err := c.query.required("since")
	if err != nil {
		return err
	}
	if q.Since, err = time.Parse(time.RFC3339Nano, text); err != nil {
		return badQuery("since", text, "a time as RFC 3339 writes it, such as 2026-01-31T12:00:00Z")
	}
	if q.Keep, err = c.eventFilter(); err != nil {
		return err
	}
	if _, _, err := c.cursor(eventPages, &q.After); err != nil {
		return err
	}
	if c.backend.Events == nil {
		return problem(http.StatusServiceUnavailable, "there is no topic of events")
	}
	ctx, cancel := context.WithTimeout(c.Context(), eventsWait)
	defer cancel()
	page, err := c.backend.Events.Page(ctx, q)
	if err != nil {
		return problem(http.StatusServiceUnavailable, "cannot read the topic of events: %v", err)
	}
	b := c.backend.Board.Status()
	list := apiv1.DecisionList{Now: c.now().UTC(), Ready: b.Ready, Incomplete: b.Incomplete, Decisions: []apiv1.DecisionView{}}
	for i := range page.Events {
		list.Events = append(list.Events, c.event(&page.Events[i]))
	}
	if page.Next != nil {
		list.Next = s.cursors.seal(eventPages, page.Next)
	}
	return c.answer(http.StatusOK, list)
}

// eventFilter returns what the query wants to see. A gap and a change of rules are about all callers and rules.
func (c *call) eventFilter() (func(*event.Event) bool, error) {
	keep, err := c.decisionFilter()
	if err != nil {
		return nil, err
	}
	var caller schemas.Caller
	if c.query.has("caller") {
		if caller, err = c.caller(); err != nil {
			return nil, err
		}
	}
	mode, _, err := c.query.optional("mode")
	if err != nil {
		return nil, err
	}
	return func(e *event.Event) bool {
		switch e.Type {
		case event.Gap, event.RulesChanged:
			return true
		}
		d := schemas.Decision{Rule: e.Rule, Caller: e.Caller.Caller(), Mode: schemas.ModeEnforce}
		if strings.EqualFold(e.Mode, schemas.ModeShadow.String()) {
			d.Mode = schemas.ModeShadow
		}
		return keep(&d) && (mode == "" || e.Mode != "") && (caller.Kind == "" || d.Caller == caller)
	}, nil
}

// event returns an event as the API shows it.
func (c *call) event(e *event.Event) apiv1.Event {
	v := apiv1.Event{
		ID: e.ID, Type: string(e.Type), Time: e.Time, Partition: e.Partition, Offset: e.Offset, Rule: e.Rule, Mode: e.Mode,
		CloseAt: e.CloseAt, Until: e.Until, Count: e.Count, Limit: e.Limit, Nth: e.Nth, Share: e.Share, Together: e.Together, Action: e.Action, Author: e.Author,
		Reason: e.Reason, Record: e.Record, Target: e.Target, RulesFrom: e.RulesFrom, RulesTo: e.RulesTo, From: e.From, To: e.To, Lost: e.Lost,
	}
	if caller := e.Caller.Caller(); caller.Kind != "" {
		shown := event.CallerOf(caller)
		v.Caller = &shown
	}
	c.redactor.event(&v)
	return v
}
