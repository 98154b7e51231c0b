package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/flate"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
)

// Bounds of streams.
const (
	maxStreams    = 1024                  // in all
	maxOwnStreams = 64                    // with one token, or without tokens from one address
	streamPiece   = 32 << 10              // what is sent together has about so many bytes at most
	streamGap     = 50 * time.Millisecond // after a change was sent, the changes of this time are collected and sent together
	keepAlive     = 10 * time.Second      // between two comments while nothing happens
	streamCheck   = time.Second           // the longest time until a revoked token ends its streams
	streamWrite   = 10 * time.Second      // a client that reads nothing for this time is cut off
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
	st := stream{call: c, sub: sub, rc: http.NewResponseController(c.w), lastSent: c.now(), changes: s.changes.Load()}
	if st.changes == nil || st.changes.of != c.backend {
		st.changes = new(changeTexts) // another backend was attached meanwhile: this stream ends soon
	}
	if c.redactor.on {
		st.redact = c.redactor.replace
	}
	if st.packed = acceptsGzip(c.Header.Values("Accept-Encoding")); st.packed {
		c.w.Header().Set("Content-Encoding", "gzip")
	}
	c.w.WriteHeader(http.StatusOK)
	return st.run(func(e *Event) bool { return e.Decision.Rule == "" || keep(&e.Decision) })
}

// lastEvent returns the number of the last change that the client has seen, or 0.
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

// keepAliveComment is a comment: it says only that the stream goes on.
const keepAliveComment = ": still here\n\n"

// stream is one client of getStream.
type stream struct {
	call     *call
	sub      Subscription
	changes  *changeTexts
	redact   func(*apiv1.Caller) // nil: the client may see ids
	packed   bool                // what is written is compressed, piece by piece
	rc       *http.ResponseController
	lastSent time.Time    // when something was sent last
	text     bytes.Buffer // events that are in force, which are not sent yet
	out      bytes.Buffer // changes that are not sent yet, as they are sent
}

// gzipHeader begins a file of gzip without name and time (RFC 1952, section 2.3). A stream is broken off, so no trailer follows.
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// run sends events until the client leaves, its token is revoked, another backend is attached, or the server stops.
func (st *stream) run(keep func(*Event) bool) error {
	if err := st.begin(); err != nil {
		return err
	}
	for {
		wait := streamCheck
		if st.out.Len() > 0 {
			wait = min(streamGap, streamGap-st.call.now().Sub(st.lastSent)) // a clock may be set back
		}
		if over, err := st.listen(wait, keep); over || err != nil {
			return err
		}
	}
}

// listen takes events for at most wait, and sends what is due. It returns early when something begins to wait in st.out, or when nothing
// waits there any more. It reports whether the stream is over. It makes one timer for all its events.
func (st *stream) listen(wait time.Duration, keep func(*Event) bool) (over bool, err error) {
	c, waiting := st.call, st.out.Len() > 0
	ctx, cancel := context.WithTimeout(c.Context(), wait)
	defer cancel()
	for {
		e, failed := st.sub.Next(ctx)
		select {
		case <-c.server.shutdown:
			return true, nil
		default:
		}
		switch {
		case c.Context().Err() != nil || c.server.backend.Load() != c.backend:
			return true, nil // whatever Next says: nobody reads it
		case !c.stillAllowed():
			return true, st.end("revoked")
		case failed != nil && !errors.Is(failed, context.DeadlineExceeded):
			return true, nil // the subscription is over: the client comes again
		case failed == nil && keep(&e):
			err = st.event(&e)
		case waiting && ctx.Err() != nil:
			err = st.write()
		case st.text.Len() > 0 && failed != nil, c.now().Sub(st.lastSent) >= keepAlive: // keep may have filtered out all events for a while
			err = st.send(keepAliveComment)
		}
		if err != nil || ctx.Err() != nil || st.out.Len() > 0 != waiting {
			return false, err
		}
	}
}

// stillAllowed reports whether the token of the call still has the role for it.
func (c *call) stillAllowed() bool {
	if !c.identity.token {
		return true
	}
	t, ok := c.server.findSum(c.identity.sum, c.now())
	return ok && t.role >= c.route.role && t.role >= c.identity.role
}

// event sends one event. If another one was sent a moment ago, it only prepares the event.
func (st *stream) event(e *Event) error {
	v := eventOf(e, st.call.now())
	if v.Decision != nil && e.Kind != inForce && st.text.Len() == 0 {
		text, err := st.changes.get(&v, st.redact, st.packed)
		if err != nil {
			return err
		}
		st.out.Write(text)
		if st.call.now().Sub(st.lastSent) < streamGap && st.out.Len() < streamPiece {
			return nil
		}
		return st.write()
	}
	if err := writeEvent(&st.text, &v, st.redact); err != nil {
		return err
	}
	if e.Kind == inForce && st.text.Len() < streamPiece {
		return nil // current follows, or a second without events
	}
	return st.flush()
}

// end sends the reason for which the stream ends.
func (st *stream) end(why string) error {
	return st.send("event: end\ndata: {\"why\":\"" + why + "\"}\n\n")
}

// send sends a text behind what is not sent yet.
func (st *stream) send(text string) error {
	st.text.WriteString(text)
	return st.flush()
}

// begin sends the header, which says that the stream has begun.
func (st *stream) begin() error {
	if st.packed {
		st.out.WriteString(gzipHeader)
	}
	return st.write()
}

// flush sends all that is not sent yet.
func (st *stream) flush() error {
	if st.packed {
		if err := flate.StatelessDeflate(&st.out, st.text.Bytes(), false, nil); err != nil {
			return err
		}
	} else {
		st.out.Write(st.text.Bytes())
	}
	st.text.Reset()
	return st.write()
}

// write sends what is ready, and extends the write deadline.
func (st *stream) write() error {
	if err := st.rc.SetWriteDeadline(time.Now().Add(streamWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := st.call.w.Write(st.out.Bytes()); err != nil {
		return err
	}
	st.out.Reset()
	st.lastSent = st.call.now()
	return st.rc.Flush()
}

// streams counts the open streams. The zero value has none. Any goroutine may use it.
type streams struct {
	mu  sync.Mutex
	all int            // guarded by mu
	of  map[string]int // guarded by mu: by who opened them; none is 0
}

// open counts another stream, until done is called. It refuses one more than its owner may have, and one more than there may be.
func (s *streams) open(owner string) (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.of[owner] >= maxOwnStreams:
		return nil, problem(http.StatusTooManyRequests, "%d streams are open already with this token, or from this address: close one first", maxOwnStreams)
	case s.all >= maxStreams:
		return nil, problem(http.StatusServiceUnavailable, "%d streams are open already", maxStreams)
	}
	if s.of == nil {
		s.of = make(map[string]int)
	}
	s.all++
	s.of[owner]++
	return func() { s.close(owner) }, nil
}

func (s *streams) close(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.of[owner]--; s.of[owner] == 0 {
		delete(s.of, owner)
	}
}

// count returns how many streams are open.
func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// streamOwner returns under which name the streams of a client are counted: its token, or without tokens its address.
func (c *call) streamOwner() string {
	if c.identity.token {
		return "token " + string(c.identity.sum[:])
	}
	return "address " + c.server.client(c.Request)
}

// acceptsGzip reports whether Accept-Encoding names gzip, and not only to refuse it with q=0 (RFC 9110, section 12.5.3).
func acceptsGzip(values []string) bool {
	for one := range strings.SplitSeq(strings.Join(values, ","), ",") {
		name, weight, _ := strings.Cut(one, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q := strings.TrimPrefix(strings.ReplaceAll(strings.ToLower(weight), " ", ""), "q=")
			return q == "" || strings.Trim(q, "0.") != ""
		}
	}
	return false
}
