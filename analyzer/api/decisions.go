package api

import (
	"net/http"
	"strings"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/explain"
	"github.com/509da70d/floodgate/schemas"
)

// getDecisions lists the decisions that gates hold, or those about one caller; with since, what has happened.
func (s *Server) getDecisions(c *call) error {
	if c.query.has("since") {
		return s.getEvents(c)
	}
	limit, err := c.query.number("limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	keep, err := c.decisionFilter()
	if err != nil {
		return err
	}
	b := c.backend.Board.Status()
	list := apiv1.DecisionList{Now: c.now().UTC(), Ready: b.Ready, Incomplete: b.Incomplete, Decisions: []apiv1.DecisionView{}}
	if c.query.has("caller") {
		caller, err := c.caller()
		if err != nil {
			return err
		}
		for _, d := range c.backend.Board.Of(caller) {
			if keep(&d) {
				list.Decisions = append(list.Decisions, c.decision(&d))
			}
		}
		return c.answer(http.StatusOK, list)
	}
	after, err := c.decisionsAfter()
	if err != nil {
		return err
	}
	for looked := 0; looked < maxLooked; {
		page := c.backend.Board.After(after.Number, maxPage)
		if len(page) == 0 {
			return c.answer(http.StatusOK, list)
		}
		for i := range page {
			if len(list.Decisions) == int(limit) {
				list.Next = s.cursors.seal(decisionPages, after)
				return c.answer(http.StatusOK, list)
			}
			after.Number = page[i].Number
			if keep(&page[i].Decision) {
				list.Decisions = append(list.Decisions, c.decision(&page[i].Decision))
			}
		}
		looked += len(page)
	}
	list.Next = s.cursors.seal(decisionPages, after)
	return c.answer(http.StatusOK, list)
}

// decisionCursor is a place in the numbers of one board.
type decisionCursor struct {
	Server string // whose board: numbers are its own
	Number uint64
}

// decisionsAfter returns where a page begins.
func (c *call) decisionsAfter() (after decisionCursor, err error) {
	after.Server = c.server.instance
	text, found, err := c.query.optional("cursor")
	if err != nil || !found {
		return after, err
	}
	if err := c.server.cursors.unseal(decisionPages, text, &after); err != nil {
		return after, err
	}
	if after.Server != c.server.instance {
		return after, badQuery("cursor", text, "next of an earlier answer of this analyzer: begin again without a cursor")
	}
	return after, nil
}

// decisionFilter returns what the query wants to see.
func (c *call) decisionFilter() (func(*schemas.Decision) bool, error) {
	rule, _, err := c.query.optional("rule")
	if err != nil {
		return nil, err
	}
	kind, _, err := c.query.optional("kind")
	if err != nil {
		return nil, err
	}
	mode, err := c.query.choice("mode", "", schemas.ModeEnforce.String(), schemas.ModeShadow.String())
	if err != nil {
		return nil, err
	}
	prefix, found, err := c.query.optional("prefix")
	if err != nil {
		return nil, err
	}
	if found && c.redactor.on {
		return nil, problem(http.StatusForbidden, "ids are shown as hashes: they have no prefix")
	}
	return func(d *schemas.Decision) bool {
		return (rule == "" || d.Rule == rule) && (kind == "" || d.Caller.Kind == kind) && (mode == "" || d.Mode.String() == mode) &&
			strings.HasPrefix(d.Caller.ID, prefix)
	}, nil
}

// decision returns a decision as the API shows it.
func (c *call) decision(d *schemas.Decision) apiv1.DecisionView {
	v := explain.Decision(d, c.now().UnixNano())
	c.redactor.replace(&v.Caller)
	return v
}
