package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// maxWrites bounds the records that were written and have not come back from the topic yet.
const maxWrites = 4096

// appendTimeout is how long a POST tries to reach Kafka.
const appendTimeout = 5 * time.Second

// pendingRecords has the records of this server that the follower of the control topic has not read yet. So two equal requests at the
// same time write one record. Two servers may write two; then the first of the topic acts, and both answer with it. The zero value
// has none.
type pendingRecords struct {
	mu      sync.Mutex
	records map[schemas.ControlID]*pendingRecord // guarded by mu
}

// pendingRecord is a record that is being written.
type pendingRecord struct {
	record Record        // Offset is known when done is closed
	done   chan struct{} // closed when it is in the topic, or failed
	err    error         // why it could not be written; set when done is closed
}

// find returns the record with an id, if there is one.
func (w *pendingRecords) find(b *Backend, id schemas.ControlID) (*pendingRecord, bool) {
	if r, ok := b.Records.Find(id); ok {
		p := &pendingRecord{record: r, done: make(chan struct{})}
		close(p.done)
		return p, true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.records[id]
	return p, ok
}

// begin adds a record, or returns the one with the same id that is there already. It returns nil if there are too many.
func (w *pendingRecords) begin(b *Backend, r *schemas.Control) (p *pendingRecord, mine bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p, ok := w.records[r.ID]; ok {
		return p, false
	}
	if w.records == nil {
		w.records = make(map[schemas.ControlID]*pendingRecord)
	}
	if len(w.records) >= maxWrites {
		for id := range w.records {
			if _, ok := b.Records.Find(id); ok {
				delete(w.records, id)
			}
		}
		if len(w.records) >= maxWrites {
			return nil, false
		}
	}
	p = &pendingRecord{record: Record{Control: *r}, done: make(chan struct{})}
	w.records[r.ID] = p
	return p, true
}

// end notes where a record is, or that it could not be written.
func (w *pendingRecords) end(p *pendingRecord, offset int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.record.Offset, p.err = offset, err
	if err != nil {
		delete(w.records, p.record.ID)
	}
	close(p.done)
}

// appendRecord appends a record and answers. A request that ends early does not end the append.
func (c *call) appendRecord(r *schemas.Control) error {
	p, mine := c.server.pending.begin(c.backend, r)
	if p == nil {
		return problem(http.StatusServiceUnavailable, "%d records wait for the control topic", maxWrites)
	}
	if !mine {
		return c.answerAgain(r, p)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), appendTimeout)
	defer cancel()
	offset, err := c.backend.Writer.Append(ctx, r)
	c.server.pending.end(p, offset, err)
	if err != nil {
		c.server.logger.Error("cannot write to the control topic", "id", r.ID.String(), "error", err)
		return notWritten(r.ID, err)
	}
	return c.acknowledge(&p.record)
}

// notWritten returns the problem of a record of which nobody knows whether the topic has it.
func notWritten(id schemas.ControlID, err error) error {
	why := "Kafka did not confirm the record"
	switch {
	case errors.Is(err, kafkaio.ErrNoTopic):
		why = "the control topic does not exist"
	case errors.Is(err, kafkaio.ErrUnauthorized):
		why = "Kafka does not allow this analyzer to write to the control topic"
	}
	return problem(http.StatusServiceUnavailable, "%s: send the request again with Idempotency-Key: %s, "+
		"which acts once, whether this record is in the log or not", why, id)
}

// answerAgain answers a request whose record was written before, with what is known of it now. It writes nothing.
func (c *call) answerAgain(r *schemas.Control, p *pendingRecord) error {
	if !sameRequest(&p.record.Control, r) {
		return keyTaken(r.ID)
	}
	select {
	case <-p.done:
	case <-c.Context().Done():
		return c.Context().Err()
	}
	if p.err != nil {
		return notWritten(r.ID, p.err)
	}
	return c.acknowledge(&p.record)
}

// sameRequest reports whether two records with one id are of one request.
func sameRequest(a, b *schemas.Control) bool {
	return a.Author == b.Author && a.Action == b.Action && a.Caller == b.Caller && a.Rule == b.Rule && a.Limit == b.Limit &&
		a.Reason == b.Reason && a.Until == b.Until && a.Target == b.Target
}

// keyTaken returns the problem of a key that belongs to another request.
func keyTaken(id schemas.ControlID) error {
	return wrong(http.StatusConflict, "Idempotency-Key", id.String(), "another key: a record with this one is there, with another content or author")
}

// acknowledge waits until the owners concerned have applied a record, and answers 200. If that takes too long it answers 202.
func (c *call) acknowledge(r *Record) error {
	ctx, cancel := context.WithTimeout(c.Context(), c.server.config.Acknowledge)
	defer cancel()
	var waiting []int
	for _, p := range c.recordPartitions(&r.Control) {
		if _, err := c.backend.Board.AwaitHeartbeat(ctx, p, func(h *schemas.Heartbeat) bool { return h.Control > r.Offset }); err != nil {
			waiting = append(waiting, p)
		}
	}
	// An undo that comes next must find the record. If another analyzer has written a record with this id before, that one counts.
	first, found := Record{}, false
	if c.backend.Records.Await(ctx, r.Offset) == nil {
		first, found = c.backend.Records.Find(r.ID)
	}
	switch {
	case !found: // the topic may be a new one, in which this offset means another record
		waiting = c.recordPartitions(&r.Control)
	case first.Offset != r.Offset:
		if !sameRequest(&first.Control, &r.Control) {
			return keyTaken(r.ID)
		}
		r = &first
	}
	if len(waiting) == 0 && c.refusedByOwner(r) {
		return problem(http.StatusConflict, "the owner has refused the record, as too many are in force: undo some, or write rules instead; "+
			"or as its until is over by the time of the log")
	}
	status := http.StatusOK
	if len(waiting) > 0 {
		status = http.StatusAccepted
	}
	c.note("offset", r.Offset, "applied", len(waiting) == 0)
	return c.answer(status, apiv1.ActionAnswer{Applied: len(waiting) == 0, Waiting: waiting, Action: c.record(r, len(waiting) > 0)})
}

// refusedByOwner reports whether this analyzer owns the caller's partition and has refused a record that should be in force.
func (c *call) refusedByOwner(r *Record) bool {
	if r.Global() || r.Until <= c.now().UnixNano() {
		return false
	}
	held := false
	err := c.ask(c.backend.partition(r.Caller), func(f *fold.Fold, _ analyzer.At) {
		for first := range f.View().Records().All(r.Offset) {
			held = first.Offset == r.Offset
			break
		}
	})
	return err == nil && !held
}

// recordPartitions returns the partitions whose owners apply a record.
func (c *call) recordPartitions(r *schemas.Control) []int {
	if !r.Global() {
		return []int{c.backend.partition(r.Caller)}
	}
	all := make([]int, c.backend.Partitions)
	for p := range all {
		all[p] = p
	}
	return all
}

func (s *Server) postClose(c *call) error {
	var q apiv1.CloseRequest
	if err := c.decode(&q); err != nil {
		return err
	}
	r := schemas.Control{Action: schemas.ControlClose}
	return c.writeRecord(&r, &q.Caller, &q.Until, q.Reason)
}

func (s *Server) postOpen(c *call) error {
	var q apiv1.OpenRequest
	if err := c.decode(&q); err != nil {
		return err
	}
	r := schemas.Control{Action: schemas.ControlOpen, Rule: q.Rule}
	return c.writeRecord(&r, &q.Caller, &q.Until, q.Reason)
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
	return c.writeRecord(&r, &q.Caller, &q.Until, q.Reason)
}

func (s *Server) postReset(c *call) error {
	var q apiv1.ResetRequest
	if err := c.decode(&q); err != nil {
		return err
	}
	r := schemas.Control{Action: schemas.ControlReset, Rule: q.Rule}
	return c.writeRecord(&r, &q.Caller, nil, q.Reason)
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
	return c.writeRecord(&r, nil, &q.Until, q.Reason)
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
	return c.writeRecord(&r, nil, nil, q.Reason)
}

// writeRecord completes a record, writes it, and answers when the owners have applied it. caller and until are nil for records that have
// none.
func (c *call) writeRecord(r *schemas.Control, caller *apiv1.Caller, until *time.Time, reason string) (err error) {
	now := c.now()
	r.Time, r.Author, r.Reason = now.UnixNano(), c.identity.name, reason
	if r.ID, err = c.recordID(); err != nil {
		return err
	}
	c.w.Header().Set("Idempotency-Key", r.ID.String())
	c.noteRecord(r)
	if err := checkReason(reason); err != nil {
		return err
	}
	if caller != nil {
		if r.Caller, err = c.server.callerParser.body("/caller", caller, true); err != nil {
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
	if old, ok := c.server.pending.find(c.backend, r.ID); ok {
		return c.answerAgain(r, old)
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
	return c.appendRecord(r)
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

// checkReason refuses a reason that is empty, too long, or not readable in a table.
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

// checkRule refuses a rule that never counts the caller. Otherwise a mistake in the rule's name would look like success.
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
		if c.identity.role < roleAdmin {
			return problem(http.StatusForbidden, "the token of %s may %s, and to undo a mode needs %s", c.identity.name, c.identity.role, roleAdmin)
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
