package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/printable"
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
	st := stream{call: c, sub: sub, out: c.w, rc: http.NewResponseController(c.w), quiet: c.now()}
	if acceptsGzip(c.Header.Values("Accept-Encoding")) {
		c.w.Header().Set("Content-Encoding", "gzip")
		if st.out, err = gzip.NewWriterLevel(c.w, gzip.StatelessCompression); err != nil {
			return err
		}
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
	call  *call
	sub   Subscription
	out   io.Writer // what is written arrives compressed, if the client takes that. No memory is kept between two writes
	rc    *http.ResponseController
	quiet time.Time    // since when nothing was sent
	text  bytes.Buffer // events that are not sent yet
}

// run sends events until the client leaves, its token is revoked, another backend is attached, or the server stops.
func (st *stream) run(keep func(*Event) bool) error {
	c := st.call
	if err := st.flush(); err != nil { // the header, which says that the stream has begun
		return err
	}
	for {
		ctx, cancel := context.WithTimeout(c.Context(), streamCheck)
		e, err := st.sub.Next(ctx)
		cancel()
		select {
		case <-c.server.ending:
			return nil
		default:
		}
		switch {
		case c.Context().Err() != nil || c.server.backend.Load() != c.backend:
			return nil //nolint:nilerr // whatever Next says: nobody reads it
		case !c.stillAllowed():
			return st.end("revoked")
		case errors.Is(err, context.DeadlineExceeded):
			if st.text.Len() == 0 && c.now().Sub(st.quiet) < keepAlive {
				continue
			}
			err = st.send([]byte(stillHere))
		case err != nil:
			return nil //nolint:nilerr // the subscription is over: the client comes again
		case keep(&e):
			err = st.event(&e)
		case c.now().Sub(st.quiet) >= keepAlive: // all that happens is about what the client did not ask for
			err = st.send([]byte(stillHere))
		}
		if err != nil {
			return err
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
	v := apiv1.DecisionEvent{Kind: e.Kind, Number: e.Number, At: e.At.UTC(), Missed: e.Missed}
	if e.At.IsZero() {
		v.At = time.Time{}
	}
	if e.Decision.Rule != "" {
		d := st.call.decision(&e.Decision)
		v.Decision = &d
	}
	fmt.Fprintf(&st.text, "event: %s\nid: %d\ndata: ", e.Kind, e.Number)
	if err := printable.JSON(&st.text).Encode(v); err != nil { // ends the line
		return err
	}
	st.text.WriteByte('\n')
	if e.Kind == "in_force" && st.text.Len() < streamPiece {
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

// flush sends all that is not sent yet. The time that an answer has begins anew.
func (st *stream) flush() error {
	if err := st.rc.SetWriteDeadline(time.Now().Add(streamWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := st.out.Write(st.text.Bytes()); err != nil {
		return err
	}
	st.text.Reset()
	st.quiet = st.call.now()
	return st.rc.Flush()
}
