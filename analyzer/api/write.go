package api

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// maxWrites bounds the records that were written and have not come back from the topic yet.
const maxWrites = 4096

// appendTimeout is how long a POST tries to reach Kafka.
const appendTimeout = 5 * time.Second

// writes knows the records of this server that the follower of the control topic does not know yet, so that a request that comes
// twice at once writes one record. The zero value knows none.
type writes struct {
	mu      sync.Mutex
	records map[schemas.ControlID]*pending // guarded by mu
}

// pending is a record that is being written.
type pending struct {
	record Record        // Offset is known when done is closed
	done   chan struct{} // closed when it is in the topic, or failed
	err    error         // why it could not be written; set when done is closed
}

// find returns the record with an id, if there is one.
func (w *writes) find(b *Backend, id schemas.ControlID) (*pending, bool) {
	if r, ok := b.Records.Find(id); ok {
		p := &pending{record: r, done: make(chan struct{})}
		close(p.done)
		return p, true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.records[id]
	return p, ok
}

// begin makes room for a record, unless it is there already: then it returns that one.
func (w *writes) begin(b *Backend, r *schemas.Control) (p *pending, mine bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p, ok := w.records[r.ID]; ok {
		return p, false
	}
	if w.records == nil {
		w.records = make(map[schemas.ControlID]*pending)
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
	p = &pending{record: Record{Control: *r}, done: make(chan struct{})}
	w.records[r.ID] = p
	return p, true
}

// end notes where a record is, or that it could not be written.
func (w *writes) end(p *pending, offset int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.record.Offset, p.err = offset, err
	if err != nil {
		delete(w.records, p.record.ID)
	}
	close(p.done)
}

// write appends a record and answers. A request that ends early does not end the append.
func (c *call) write(r *schemas.Control) error {
	p, mine := c.server.writes.begin(c.backend, r)
	if p == nil {
		return problem(http.StatusServiceUnavailable, "%d records wait for the control topic", maxWrites)
	}
	if !mine {
		return c.again(r, p)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), appendTimeout)
	defer cancel()
	offset, err := c.backend.Writer.Append(ctx, r)
	c.server.writes.end(p, offset, err)
	if err != nil {
		c.server.logger.Error("cannot write to the control topic", "id", r.ID.String(), "error", err)
		return notWritten(r.ID, err)
	}
	return c.acknowledge(&p.record)
}

// notWritten is the problem of a record that may be in the topic or not.
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

// again answers a request whose record was written before, with what is known of it now. It writes nothing.
func (c *call) again(r *schemas.Control, p *pending) error {
	if !equal(&p.record.Control, r) {
		return otherContent(r.ID)
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

// equal reports whether two records with one id are of one request.
func equal(a, b *schemas.Control) bool {
	return a.Author == b.Author && a.Action == b.Action && a.Caller == b.Caller && a.Rule == b.Rule && a.Limit == b.Limit &&
		a.Reason == b.Reason && a.Until == b.Until && a.Target == b.Target
}

// otherContent is the problem of a key that belongs to another request.
func otherContent(id schemas.ControlID) error {
	return wrong(http.StatusConflict, "Idempotency-Key", id.String(), "another key: a record with this one is there, with another content or author")
}

// acknowledge waits until the owners concerned have applied a record, and answers 200. If that takes too long it answers 202.
func (c *call) acknowledge(r *Record) error {
	ctx, cancel := context.WithTimeout(c.Context(), c.server.config.Acknowledge)
	defer cancel()
	var waiting []int
	for _, p := range c.partitions(&r.Control) {
		if _, err := c.backend.Board.AwaitHeartbeat(ctx, p, func(h *schemas.Heartbeat) bool { return h.Control > r.Offset }); err != nil {
			waiting = append(waiting, p)
		}
	}
	// An undo that comes next must find the record. And another analyzer may have written one with this id before: then that counts.
	first, found := Record{}, false
	if c.backend.Records.Await(ctx, r.Offset) == nil {
		first, found = c.backend.Records.Find(r.ID)
	}
	switch {
	case !found: // where the topic was made anew, this offset of the old one says nothing
		waiting = c.partitions(&r.Control)
	case first.Offset != r.Offset:
		if !equal(&first.Control, &r.Control) {
			return otherContent(r.ID)
		}
		r = &first
	}
	if len(waiting) == 0 && c.notHeld(r) {
		return problem(http.StatusConflict, "the owner has refused the record, as too many are in force: undo some, or write rules instead; "+
			"or as its until is over by the time of the log")
	}
	status := http.StatusOK
	if len(waiting) > 0 {
		status = http.StatusAccepted
	}
	c.note("offset", r.Offset, "applied", len(waiting) == 0)
	return c.answer(status, apiv1.ActionAnswer{Applied: len(waiting) == 0, Waiting: waiting, Action: c.action(r, len(waiting) > 0)})
}

// notHeld reports whether the owner of a caller, if it is here, has refused a record that should be in force.
func (c *call) notHeld(r *Record) bool {
	if r.Global() || r.Until <= c.now().UnixNano() {
		return false
	}
	held := false
	err := c.ask(c.backend.partition(r.Caller), func(f *fold.Fold, _ analyzer.At) {
		f.ManualFrom(r.Offset, func(m fold.Manual) bool {
			held = m.Offset == r.Offset
			return false
		})
	})
	return err == nil && !held
}

// partitions returns those whose owners apply a record.
func (c *call) partitions(r *schemas.Control) []int {
	if !r.Global() {
		return []int{c.backend.partition(r.Caller)}
	}
	all := make([]int, c.backend.Partitions)
	for p := range all {
		all[p] = p
	}
	return all
}
