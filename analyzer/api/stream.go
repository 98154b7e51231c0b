package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/klauspost/compress/flate"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
)

// Bounds of streams.
const (
	maxStreams  = 1024             // in all
	maxOwn      = 64               // with one token, or without tokens from one address
	streamPiece = 32 << 10         // what is in force is sent in pieces of about so many bytes; a change is sent at once
	keepAlive   = 10 * time.Second // a comment is sent so often when nothing happens
	streamCheck = time.Second      // a token that was revoked ends its streams so soon
	streamWrite = 10 * time.Second // a client that reads nothing for so long is cut off
)

// inForce is the Kind of an Event that tells a new subscriber what is in force.
const inForce = "in_force"

// getStream sends all decisions in force, and then each change, as server-sent events.
func (s *Server) getStream(c *call) error {
	after, err := c.lastEvent()
	if err != nil {
		return err
	}
	keep, err := c.decisionFilter()
	if err != nil {
		return err
	}
	done, err := s.streams.open(c.streamOwner())
	if err != nil {
		return err
	}
	defer done()
	sub, err := c.backend.Board.Subscribe(after)
	if err != nil {
		return problem(http.StatusServiceUnavailable, "%v", err)
	}
	defer sub.Close()
	c.status = http.StatusOK
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.w.Header().Set("Vary", "Accept-Encoding")
	st := stream{call: c, sub: sub, rc: http.NewResponseController(c.w), quiet: c.now(), changes: s.changes.Load()}
	if st.changes == nil || st.changes.of != c.backend {
		st.changes = new(changeTexts) // another backend was attached meanwhile: this stream ends soon
	}
	if c.who.redact {
		st.redact = c.redact
	}
	if st.packed = acceptsGzip(c.Header.Values("Accept-Encoding")); st.packed {
		c.w.Header().Set("Content-Encoding", "gzip")
	}
	c.w.WriteHeader(http.StatusOK)
	return st.run(func(e *Event) bool { return e.Decision.Rule == "" || keep(&e.Decision) })
}

// lastEvent returns behind which change a client wants to go on.
func (c *call) lastEvent() (uint64, error) {
	text := c.Header.Get("Last-Event-ID")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, wrong(http.StatusBadRequest, "Last-Event-ID", text, "the id of an event of this stream")
	}
	return n, nil
}

// stillHere is a comment: it says only that the stream goes on.
const stillHere = ": still here\n\n"

// stream is one client of getStream.
type stream struct {
	call    *call
	sub     Subscription
	changes *changeTexts
	redact  func(*apiv1.Caller) // nil: the client may see ids
	packed  bool                // what is written is compressed, piece by piece. No memory is kept between two writes
	rc      *http.ResponseController
	quiet   time.Time    // since when nothing was sent
	text    bytes.Buffer // events that are not sent yet
}

// gzipHeader begins a file of gzip without name and time (RFC 1952, section 2.3). A stream is broken off, so no trailer follows.
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// run sends events until the client leaves, its token is revoked, another backend is attached, or the server stops.
func (st *stream) run(keep func(*Event) bool) error {
	if err := st.begin(); err != nil {
		return err
	}
	for {
		if over, err := st.forSecond(keep); over || err != nil {
			return err
		}
	}
}

// forSecond sends the events of about a second. It reports whether the stream is over.
func (st *stream) forSecond(keep func(*Event) bool) (over bool, err error) {
	c := st.call
	ctx, cancel := context.WithTimeout(c.Context(), streamCheck) // one timer a second, not one for each event
	defer cancel()
	for {
		e, failed := st.sub.Next(ctx)
		select {
		case <-c.server.ending:
			return true, nil
		default:
		}
		switch {
		case c.Context().Err() != nil || c.server.backend.Load() != c.backend:
			return true, nil // whatever Next says: nobody reads it
		case !c.stillAllowed():
			return true, st.end("revoked")
		case errors.Is(failed, context.DeadlineExceeded):
			if st.text.Len() > 0 || c.now().Sub(st.quiet) >= keepAlive {
				err = st.send([]byte(stillHere))
			}
		case failed != nil:
			return true, nil // the subscription is over: the client comes again
		case keep(&e):
			err = st.event(&e)
		case c.now().Sub(st.quiet) >= keepAlive: // all that happens is about what the client did not ask for
			err = st.send([]byte(stillHere))
		}
		if err != nil || ctx.Err() != nil {
			return false, err
		}
	}
}

// stillAllowed reports whether the token of the call still has the role for it.
func (c *call) stillAllowed() bool {
	if !c.who.token {
		return true
	}
	t, ok := c.server.findSum(c.who.sum, c.now())
	return ok && t.role >= c.route.role && t.role >= c.who.role
}

// event sends one event.
func (st *stream) event(e *Event) error {
	v := eventOf(e, st.call.now())
	if v.Decision != nil && e.Kind != inForce && st.text.Len() == 0 {
		text, err := st.changes.get(&v, st.redact, st.packed)
		if err != nil {
			return err
		}
		return st.write(text)
	}
	if err := writeEvent(&st.text, &v, st.redact); err != nil {
		return err
	}
	if e.Kind == inForce && st.text.Len() < streamPiece {
		return nil // current follows, or a second without events
	}
	return st.flush()
}

// end sends why the stream ends.
func (st *stream) end(why string) error {
	return st.send([]byte("event: end\ndata: {\"why\":\"" + why + "\"}\n\n"))
}

// send sends a text behind what is not sent yet.
func (st *stream) send(b []byte) error {
	st.text.Write(b)
	return st.flush()
}

// begin sends the header, which says that the stream has begun.
func (st *stream) begin() error {
	if st.packed {
		return st.write([]byte(gzipHeader))
	}
	return st.write(nil)
}

// flush sends all that is not sent yet.
func (st *stream) flush() error {
	text := st.text.Bytes()
	if st.packed {
		var b bytes.Buffer
		if err := flate.StatelessDeflate(&b, text, false, nil); err != nil {
			return err
		}
		text = b.Bytes()
	}
	if err := st.write(text); err != nil {
		return err
	}
	st.text.Reset()
	return nil
}

// write sends bytes as they are. The time that an answer has begins anew.
func (st *stream) write(b []byte) error {
	if err := st.rc.SetWriteDeadline(time.Now().Add(streamWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := st.call.w.Write(b); err != nil {
		return err
	}
	st.quiet = st.call.now()
	return st.rc.Flush()
}
