package api

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// Bounds of pages.
const (
	defaultPage = 100
	maxPage     = 1000
	maxLooked   = 1 << 16 // records or decisions that one page looks at
)

// getActions lists what was decided by hand, the newest first.
func (s *Server) getActions(c *call) error {
	limit, err := c.number("limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	var after struct{ Offset int64 }
	after.Offset = math.MaxInt64
	if text, found, err := c.optional("cursor"); err != nil {
		return err
	} else if found {
		if err := s.unseal(ofActions, text, &after); err != nil {
			return err
		}
	}
	keep, err := c.actionFilter()
	if err != nil {
		return err
	}
	list := apiv1.ActionList{Now: c.now().UTC(), Actions: []apiv1.Action{}}
	looked := 0
	for r := range c.backend.Records.Before(after.Offset) {
		if len(list.Actions) == int(limit) || looked == maxLooked {
			list.Next = s.seal(ofActions, struct{ Offset int64 }{after.Offset})
			break
		}
		looked, after.Offset = looked+1, r.Offset
		if r.Action == schemas.ControlRules {
			continue
		}
		if a := c.action(&r, c.waits(&r)); keep(&r, &a) {
			list.Actions = append(list.Actions, a)
		}
	}
	return c.answer(http.StatusOK, list)
}

// actionFilter returns what the query wants to see.
func (c *call) actionFilter() (func(r *Record, a *apiv1.Action) bool, error) {
	action, err := c.choice("action", "", "close", "open", "limit", "reset", "mode", "undo")
	if err != nil {
		return nil, err
	}
	state, err := c.choice("state", "", apiv1.StateWaiting, apiv1.StateInForce, apiv1.StateDone, apiv1.StateEnded, apiv1.StateUndone)
	if err != nil {
		return nil, err
	}
	var caller schemas.Caller
	if c.values.Has("caller") {
		if caller, err = c.caller(); err != nil {
			return nil, err
		}
	}
	return func(r *Record, a *apiv1.Action) bool {
		return (action == "" || a.Action == action) && (state == "" || a.State == state) && (caller.Kind == "" || r.Caller == caller)
	}, nil
}

// waits reports whether some owner has not applied a record yet, as its heartbeats say.
func (c *call) waits(r *Record) bool {
	for _, p := range c.partitions(&r.Control) {
		if h, ok := c.backend.Board.Heartbeat(p); !ok || h.Control <= r.Offset {
			return true
		}
	}
	return false
}

// action returns a record as the API shows it.
func (c *call) action(r *Record, waits bool) apiv1.Action {
	a := apiv1.Action{
		ID: r.ID.String(), Offset: r.Offset, Time: timeOf(r.Time), Author: r.Author, Reason: c.hide(r.Reason),
		Action: r.Action.String(), Rule: r.Rule, Limit: r.Limit, Until: timeOf(r.Until),
	}
	if r.Caller.Kind != "" {
		v := c.shown(r.Caller)
		a.Caller = &v
	}
	if r.Action == schemas.ControlUndo {
		a.Target = r.Target.String()
	}
	by, undone := c.backend.Records.Undone(r.ID)
	switch {
	case undone:
		a.State = apiv1.StateUndone
		a.UndoneBy = &apiv1.ByWhom{ID: by.ID.String(), Time: timeOf(by.Time), Author: by.Author, Reason: c.hide(by.Reason)}
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

func (s *Server) postClose(c *call) error {
	var q apiv1.CloseRequest
	if err := c.decode(&q); err != nil {
		return err
	}
	r := schemas.Control{Action: schemas.ControlClose}
	return c.act(&r, &q.Caller, &q.Until, q.Reason)
}

func (s *Server) postOpen(c *call) error {
	var q apiv1.OpenRequest
	if err := c.decode(&q); err != nil {
		return err
	}
	r := schemas.Control{Action: schemas.ControlOpen, Rule: q.Rule}
	return c.act(&r, &q.Caller, &q.Until, q.Reason)
}

func (s *Server) postLimit(c *call) error {
	var q apiv1.LimitRequest
	if err := c.decode(&q); err != nil {
		return err
	}
	if q.Rule == "" {
		return badBody("/rule", "", "the name of a rule")
	}
	if q.Limit < 1 || q.Limit > rules.MaxLimit {
		return badBody("/limit", strconv.FormatInt(q.Limit, 10), "1 to "+strconv.FormatInt(rules.MaxLimit, 10))
	}
	r := schemas.Control{Action: schemas.ControlLimit, Rule: q.Rule, Limit: q.Limit}
	return c.act(&r, &q.Caller, &q.Until, q.Reason)
}

func (s *Server) postReset(c *call) error {
	var q apiv1.ResetRequest
	if err := c.decode(&q); err != nil {
		return err
	}
	r := schemas.Control{Action: schemas.ControlReset, Rule: q.Rule}
	return c.act(&r, &q.Caller, nil, q.Reason)
}

func (s *Server) postMode(c *call) error {
	var q apiv1.ModeRequest
	if err := c.decode(&q); err != nil {
		return err
	}
	if q.Mode != schemas.ModeShadow.String() {
		return badBody("/mode", q.Mode, "shadow: a rule whose own mode is shadow is changed in the rules file")
	}
	r := schemas.Control{Action: schemas.ControlMode, Rule: q.Rule}
	return c.act(&r, nil, &q.Until, q.Reason)
}

func (s *Server) postUndo(c *call) error {
	var q apiv1.UndoRequest
	if err := c.decode(&q); err != nil {
		return err
	}
	target, err := schemas.ParseControlID(q.ID)
	if err != nil {
		return badBody("/id", q.ID, "the id of a record: 32 hexadecimal digits, as actions shows it")
	}
	r := schemas.Control{Action: schemas.ControlUndo, Target: target}
	return c.act(&r, nil, nil, q.Reason)
}

// act completes a record, writes it, and answers when the owners have applied it. caller and until are nil for records that have
// none.
func (c *call) act(r *schemas.Control, caller *apiv1.Caller, until *time.Time, reason string) (err error) {
	now := c.now()
	r.Time, r.Author, r.Reason = now.UnixNano(), c.who.name, reason
	if r.ID, err = c.recordID(); err != nil {
		return err
	}
	c.w.Header().Set("Idempotency-Key", r.ID.String())
	c.noteRecord(r)
	if err := checkReason(reason); err != nil {
		return err
	}
	if caller != nil {
		if r.Caller, err = c.server.canon.body("/caller", caller, true); err != nil {
			return err
		}
		c.noteRecord(r)
	}
	if until != nil {
		r.Until = until.UnixNano()
	}
	if !c.backend.Records.Ready() {
		return problem(http.StatusServiceUnavailable, "this analyzer has not read the control topic yet")
	}
	if old, ok := c.server.writes.find(c.backend, r.ID); ok {
		return c.again(r, old)
	}
	if err := checkUntil(until, now); err != nil {
		return err
	}
	if err := c.checkRule(r); err != nil {
		return err
	}
	if err := c.checkTarget(r); err != nil {
		return err
	}
	return c.write(r)
}

// recordID returns the id of the record: Idempotency-Key, or a new one.
func (c *call) recordID() (id schemas.ControlID, err error) {
	keys := c.Header.Values("Idempotency-Key")
	if len(keys) == 0 {
		_, _ = rand.Read(id[:]) // never fails
		return id, nil
	}
	text := strings.Join(keys, ", ")
	const uuid = "8-4-4-4-12"
	if len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-' {
		text = text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	}
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) || bytes.Equal(b, make([]byte, len(id))) {
		return id, wrong(http.StatusBadRequest, "Idempotency-Key", strings.Join(keys, ", "), "32 hexadecimal digits or a UUID ("+uuid+"), random for each record")
	}
	copy(id[:], b)
	return id, nil
}

// checkReason refuses a reason that says nothing, or that would not be readable in a table.
func checkReason(reason string) error {
	switch {
	case strings.TrimSpace(reason) == "":
		return badBody("/reason", reason, "why: 1 to "+strconv.Itoa(schemas.MaxReason)+" bytes, for those who read it later")
	case len(reason) > schemas.MaxReason:
		return badBody("/reason", strconv.Itoa(len(reason))+" bytes", strconv.Itoa(schemas.MaxReason)+" bytes at most")
	case !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl):
		return badBody("/reason", reason, "text without control characters")
	}
	return nil
}

func checkUntil(until *time.Time, now time.Time) error {
	if until == nil {
		return nil
	}
	last := now.Add(schemas.MaxClosure)
	want := "a time after " + now.UTC().Format(time.RFC3339) + " and no later than " + last.UTC().Format(time.RFC3339)
	if until.IsZero() {
		return badBody("/until", "", want)
	}
	if !until.After(now) || until.After(last) {
		return badBody("/until", until.UTC().Format(time.RFC3339Nano), want)
	}
	return nil
}

// checkRule refuses a rule that would never count the caller: a mistake in its name would otherwise look like success.
func (c *call) checkRule(r *schemas.Control) error {
	if r.Rule == "" {
		return nil
	}
	var names []string
	for _, rule := range c.backend.Analyzer.RulesStatus(c.now()).Set.Rules {
		if rule.Name == r.Rule {
			if r.Caller.Kind != "" && rule.Kind != r.Caller.Kind {
				return badBody("/rule", r.Rule, "a rule that counts kind "+r.Caller.Kind+": this one counts kind "+rule.Kind)
			}
			return nil
		}
		if (r.Caller.Kind == "" || rule.Kind == r.Caller.Kind) && len(names) < 20 {
			names = append(names, rule.Name)
		}
	}
	want := "no rule: there is none"
	if r.Caller.Kind != "" {
		want = "no rule: none counts kind " + r.Caller.Kind
	}
	if len(names) > 0 {
		want = "one of " + strings.Join(names, ", ")
	}
	return badBody("/rule", r.Rule, want)
}

// checkTarget refuses an undo without an effect, or for which the role is too low.
func (c *call) checkTarget(r *schemas.Control) error {
	if r.Action != schemas.ControlUndo {
		return nil
	}
	target, ok := c.backend.Records.Find(r.Target)
	if !ok {
		return wrong(http.StatusNotFound, "/id", r.Target.String(), "the id of a record, as actions shows it")
	}
	switch target.Action {
	case schemas.ControlReset, schemas.ControlUndo, schemas.ControlRules:
		return badBody("/id", "a record of action "+target.Action.String(), "one that holds until a time: close, open, limit or mode")
	case schemas.ControlMode:
		if c.who.role < RoleAdmin {
			return problem(http.StatusForbidden, "the token of %s may %s, and to undo a mode needs %s", c.who.name, c.who.role, RoleAdmin)
		}
	default:
	}
	if by, ok := c.backend.Records.Undone(r.Target); ok {
		return problem(http.StatusConflict, "%s has undone it already, as record %s", by.Author, by.ID)
	}
	if target.Until <= c.now().UnixNano() {
		return problem(http.StatusConflict, "it has ended by itself at %s", time.Unix(0, target.Until).UTC().Format(time.RFC3339))
	}
	return nil
}
