package api

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
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
