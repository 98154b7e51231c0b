package api

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas"
)

// pipes is a listener whose connections are in memory, so that a bubble of synctest has time and network to itself.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	gone  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), gone: make(chan struct{})} }

// pipeConn has addresses as a connection on loopback has.
type pipeConn struct{ net.Conn }

func (pipeConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711} }
func (pipeConn) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9096} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return pipeConn{c}, nil
	case <-p.gone:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.gone) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9096} }

// dial returns the client's end of a new connection, on which text was sent.
func (p *pipes) dial(t *testing.T, text string) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	p.conns <- theirs
	if _, err := io.WriteString(ours, text); err != nil {
		t.Fatal(err)
	}
	return ours
}

// inBubble runs a server on pipes in a bubble. The bubble ends when f returns.
func inBubble(t *testing.T, change func(*Config), f func(w *world, s *Server, p *pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := Config{Address: "127.0.0.1:9096", Logger: slog.New(slog.NewTextHandler(w.log, nil))}
		if change != nil {
			change(&c)
		}
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		s.Attach(&Backend{Analyzer: w.analyzer(0, 1, 2, 3), Board: w.board, Writer: w.topic, Records: w.topic, Partitions: w.partitions, Key: w.key})
		p := newPipes()
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- s.Serve(ctx, p) }()
		f(w, s, p)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: got %v, want nil", err)
		}
		synctest.Wait()
		if n := s.streams.count(); n != 0 || w.board.subs != 0 {
			t.Errorf("got %d streams and %d subscriptions at the end, want none", n, w.board.subs)
		}
	})
}

func streamRequest(headers ...string) string {
	return "GET /v1/decisions/stream HTTP/1.1\r\nHost: localhost\r\n" + strings.Join(append(headers, ""), "\r\n") + "\r\n"
}

// events reads server-sent events: their types, and the data of each.
type events struct {
	t *testing.T
	r *bufio.Reader
}

func open(t *testing.T, c net.Conn) *events {
	t.Helper()
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("got %d %v, want a stream", resp.StatusCode, resp.Header)
	}
	return &events{t, bufio.NewReader(resp.Body)}
}

// next returns the next event, without comments; an error at the stream's end.
func (e *events) next() (kind, id string, data []byte, err error) {
	for {
		text, err := e.r.ReadString('\n')
		if err != nil {
			return kind, id, data, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(text, "\n"), ": ")
		switch name {
		case "event":
			kind = value
		case "id":
			id = value
		case "data":
			data = []byte(value)
		case "":
			if kind != "" {
				return kind, id, data, nil
			}
		}
	}
}

// want reads an event of a type, and its decision's caller.
func (e *events) want(kind, caller string) (id string) {
	e.t.Helper()
	got, id, data, err := e.next()
	var v apiv1.DecisionEvent
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil || got != kind || v.Kind != kind || (caller != "") != (v.Decision != nil) || v.Decision != nil && v.Decision.Caller.ID != caller {
		e.t.Fatalf("got %s %s and %v, want %s of %q", got, data, err, kind, caller)
	}
	return id
}

func closing(id string, partition int) schemas.Decision {
	return schemas.Decision{
		Rule: "per-key", Caller: schemas.Caller{Kind: "key", ID: id}, Mode: schemas.ModeEnforce, CloseAt: time.Now().UnixNano(), Until: time.Now().Add(time.Hour).UnixNano(),
		Partition: int32(partition),
	}
}

// TestAStreamOutlivesAllTimeouts: after an hour of silence a change still comes.
func TestAStreamOutlivesAllTimeouts(t *testing.T) {
	inBubble(t, nil, func(w *world, _ *Server, p *pipes) {
		t := w.t
		c := p.dial(t, streamRequest())
		defer c.Close()
		e := open(t, c)
		e.want("current", "")
		go func() {
			time.Sleep(time.Hour)
			w.board.close(closing("a\nb", 1))
			w.board.close(schemas.Decision{Rule: "per-key", Caller: schemas.Caller{Kind: "key", ID: "c"}, Mode: schemas.ModeShadow})
		}()
		began := time.Now()
		id := e.want("closed", "a\nb")
		if time.Since(began) < time.Hour || id != "1" {
			t.Errorf("got event %s after %v, want the first, after an hour", id, time.Since(began))
		}
		e.want("closed", "c")
		again := p.dial(t, streamRequest("Last-Event-ID: 1"))
		defer again.Close()
		open(t, again).want("closed", "c")
	})
}

// TestAStreamEndsWithItsToken: a second after the line was taken from the file.
func TestAStreamEndsWithItsToken(t *testing.T) {
	for name, after := range map[string]string{"revoked": "", "of lower role": "bert:read"} {
		path, toks := tokens(t, "anna:operate", "bert:admin")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		inBubble(t, func(c *Config) { c.TokenFile = path }, func(w *world, _ *Server, p *pipes) {
			t := w.t
			anna, bert := p.dial(t, streamRequest("Authorization: Bearer "+toks[0])), p.dial(t, streamRequest("Authorization: Bearer "+toks[1]))
			defer bert.Close()
			defer anna.Close()
			a, b := open(t, anna), open(t, bert)
			a.want("current", "")
			b.want("current", "")
			lines := strings.SplitAfter(string(text), "\n")
			left := lines[1]
			if after != "" {
				left = strings.Replace(lines[0], "operate", "read", 1) + lines[1]
			}
			if err := os.WriteFile(path, []byte(left), 0o600); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			kind, _, data, err := a.next()
			if err != nil || kind != "end" || !strings.Contains(string(data), "revoked") || time.Since(began) > 3*time.Second {
				t.Errorf("%s: got %s %s and %v after %v, want the end within seconds", name, kind, data, err, time.Since(began))
			}
			if _, _, _, err := a.next(); !errors.Is(err, io.EOF) {
				t.Errorf("%s: got %v, want the end of the connection's answer", name, err)
			}
			// The other token's stream goes on: its next line is a comment.
			if text, err := b.r.ReadString('\n'); err != nil || !strings.HasPrefix(text, ":") {
				t.Errorf("%s: the other: got %q and %v, want a sign of life", name, text, err)
			}
		})
	}
}

// TestAThousandStreams, and no more than there may be. All end when the server does. Nobody has all of them: one more than a token may
// have is refused, and the streams of other tokens are not touched.
func TestAThousandStreams(t *testing.T) {
	var names []string
	for i := range maxStreams/maxOwnStreams + 1 {
		names = append(names, fmt.Sprintf("user-%d:read", i))
	}
	path, toks := tokens(t, names...)
	inBubble(t, func(c *Config) { c.TokenFile = path }, func(w *world, s *Server, p *pipes) {
		t := w.t
		dial := func(user int) net.Conn { return p.dial(t, streamRequest("Authorization: Bearer "+toks[user])) }
		refused := func(user, status int, text string) {
			t.Helper()
			c := dial(user)
			defer c.Close()
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != status || !strings.Contains(string(body), text) || resp.Header.Get("Retry-After") == "" {
				t.Errorf("one more: got %d %s and %v, want %d with %q", resp.StatusCode, body, err, status, text)
			}
		}
		var all []*events
		for i := range maxStreams {
			c := dial(i / maxOwnStreams)
			defer c.Close()
			e := open(t, c)
			e.want("current", "")
			all = append(all, e)
			if i == maxOwnStreams-1 {
				refused(0, http.StatusTooManyRequests, "64 streams are open already with this token")
			}
		}
		refused(maxStreams/maxOwnStreams, http.StatusServiceUnavailable, "1024 streams are open already")
		w.board.close(closing("k", 0))
		for _, e := range all {
			e.want("closed", "k")
		}
		if n := s.streams.count(); n != maxStreams {
			t.Errorf("got %d streams, want %d", n, maxStreams)
		}
	})
}

// TestWithoutTokensAnAddressHasSoManyStreams, and one that ends makes room for another.
func TestWithoutTokensAnAddressHasSoManyStreams(t *testing.T) {
	inBubble(t, nil, func(w *world, s *Server, p *pipes) {
		t := w.t
		var first net.Conn
		for range maxOwnStreams {
			c := p.dial(t, streamRequest())
			defer c.Close()
			first = c
			open(t, c).want("current", "")
		}
		more := p.dial(t, streamRequest())
		resp, err := http.ReadResponse(bufio.NewReader(more), nil)
		if err != nil || resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("one more: got %v and %v, want 429", resp, err)
		}
		_ = more.Close()
		_ = first.Close()
		time.Sleep(2 * streamCheck)
		if n := s.streams.count(); n != maxOwnStreams-1 {
			t.Errorf("got %d streams, want one to have ended", n)
		}
		c := p.dial(t, streamRequest())
		defer c.Close()
		open(t, c).want("current", "")
	})
}

// TestAClientThatReadsNothingIsCutOff, and holds nobody up.
func TestAClientThatReadsNothingIsCutOff(t *testing.T) {
	inBubble(t, nil, func(w *world, s *Server, p *pipes) {
		t := w.t
		slow, good := p.dial(t, streamRequest()), p.dial(t, streamRequest())
		defer good.Close()
		defer slow.Close()
		e := open(t, good)
		e.want("current", "")
		for i := range 100 {
			w.board.close(closing(fmt.Sprint(i), 0))
			e.want("closed", fmt.Sprint(i))
		}
		go func() { _, _ = io.Copy(io.Discard, e.r) }()
		time.Sleep(2 * streamWrite)
		synctest.Wait()
		if n := s.streams.count(); n != 1 {
			t.Errorf("got %d streams, want only that of the client that reads", n)
		}
	})
}

// TestSlowClientsHoldNothing: a header or a body that never ends is cut off.
func TestSlowClientsHoldNothing(t *testing.T) {
	inBubble(t, acting, func(w *world, _ *Server, p *pipes) {
		t := w.t
		for name, text := range map[string]string{
			"header": "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nX: y",
			"body":   "POST /v1/reset HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
			"idle":   "GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n",
		} {
			c := p.dial(t, text)
			began := time.Now()
			_, _ = io.Copy(io.Discard, c)
			if d := time.Since(began); d > idleTimeout+time.Second {
				t.Errorf("%s: the connection was open for %v, want %v at most", name, d, idleTimeout)
			}
			_ = c.Close()
		}
		if w.topic.len() != 0 {
			t.Errorf("got %d records, want none", w.topic.len())
		}
	})
}

// TestAStreamEndsWithItsBackend: an analyzer that starts anew in the process has another board.
func TestAStreamEndsWithItsBackend(t *testing.T) {
	inBubble(t, nil, func(w *world, s *Server, p *pipes) {
		t := w.t
		c := p.dial(t, streamRequest())
		defer c.Close()
		e := open(t, c)
		e.want("current", "")
		s.Attach(nil)
		if kind, _, _, err := e.next(); !errors.Is(err, io.EOF) {
			t.Errorf("got %s and %v, want the end", kind, err)
		}
	})
}

// unpack lets the events be read out of a compressed stream.
func unpack(e *events) {
	e.t.Helper()
	r, err := gzip.NewReader(e.r)
	if err != nil {
		e.t.Fatal(err)
	}
	e.r = bufio.NewReader(r)
}

// TestChangesThatComeTogetherAreSentTogether: a change after a silence is sent at once. Of those that follow, none waits longer than
// streamGap, and a stream is not written to more often than that. None is lost, and their order stays.
func TestChangesThatComeTogetherAreSentTogether(t *testing.T) {
	const changes, every = 400, time.Millisecond
	const silence = time.Minute + streamCheck/2 // does not end where a sign of life is sent
	for _, packed := range []bool{false, true} {
		inBubble(t, nil, func(w *world, _ *Server, p *pipes) {
			t := w.t
			var header []string
			if packed {
				header = append(header, "Accept-Encoding: gzip")
			}
			c := p.dial(t, streamRequest(header...))
			defer c.Close()
			e := open(t, c)
			if packed {
				unpack(e)
			}
			e.want("current", "")
			go func() {
				for i := range changes {
					if i <= 1 {
						time.Sleep(silence)
					}
					w.board.close(closing(fmt.Sprint(i), 0))
					time.Sleep(every)
				}
			}()
			began := time.Now()
			e.want("closed", "0")
			if took := time.Since(began); took != silence {
				t.Errorf("packed %v: the change after a silence came after %v, want %v", packed, took, silence)
			}
			began = began.Add(2*silence + every)
			times := make(map[time.Time]bool)
			for i := range changes - 1 {
				e.want("closed", fmt.Sprint(i+1))
				if late := time.Since(began.Add(time.Duration(i) * every)); late < 0 || late > streamGap {
					t.Errorf("packed %v: change %d came after %v, want %v at most", packed, i+1, late, streamGap)
				}
				times[time.Now()] = true
			}
			if most := int(changes*every/streamGap) + 1; len(times) > most {
				t.Errorf("packed %v: changes came at %d different times, want %d at most", packed, len(times), most)
			}
		})
	}
}

// TestAWaitingChangeIsSentBeforeTheReasonOfTheEnd: what was ready is not lost when the token goes.
func TestAWaitingChangeIsSentBeforeTheReasonOfTheEnd(t *testing.T) {
	const seen = 7 // changes before the token goes
	path, toks := tokens(t, "anna:operate", "bert:read")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, func(c *Config) { c.TokenFile = path }, func(w *world, _ *Server, p *pipes) {
		t := w.t
		c := p.dial(t, streamRequest("Authorization: Bearer "+toks[0]))
		defer c.Close()
		e := open(t, c)
		e.want("current", "")
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			for i := 0; ; i++ {
				if i == seen {
					if err := os.WriteFile(path, []byte(strings.SplitAfter(string(text), "\n")[1]), 0o600); err != nil {
						t.Error(err)
					}
				}
				select {
				case <-stop:
					return
				case <-time.After(streamGap / 5):
					w.board.close(closing(fmt.Sprint(i), 0))
				}
			}
		}()
		for n := 0; ; n++ {
			kind, id, data, err := e.next()
			if err != nil {
				t.Fatalf("after %d changes: got %v, want why the stream ends", n, err)
			}
			if kind == "end" {
				if n < seen || string(data) != `{"why":"revoked"}` {
					t.Errorf("got the end %s after %d changes, want %d or more, and that the token was revoked", data, n, seen)
				}
				return
			}
			if id != fmt.Sprint(n+1) {
				t.Fatalf("got change %s, want %d", id, n+1)
			}
		}
	})
}

// TestAFilteredStreamGivesSignsOfLife: all that happens is about other rules than the client asked for. The client still hears something every
// ten seconds, or it would take the connection for lost.
func TestAFilteredStreamGivesSignsOfLife(t *testing.T) {
	inBubble(t, nil, func(w *world, _ *Server, p *pipes) {
		t := w.t
		c := p.dial(t, strings.Replace(streamRequest(), "/stream", "/stream?rule=quiet", 1))
		defer c.Close()
		e := open(t, c)
		e.want("current", "")
		if line, err := e.r.ReadString('\n'); err != nil || line != ": still here\n" {
			t.Fatalf("while nothing happens: got %q and %v, want a sign of life", line, err)
		}
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(streamCheck / 2):
					w.board.close(schemas.Decision{Rule: "per-key", Caller: schemas.Caller{Kind: "key", ID: fmt.Sprint(i)}})
				}
			}
		}()
		for i := range 10 {
			_ = c.SetReadDeadline(time.Now().Add(keepAlive + 2*streamCheck)) // a pipe can
			line, err := e.r.ReadString('\n')
			if err == nil && line == "\n" {
				line, err = e.r.ReadString('\n')
			}
			if err != nil || line != ": still here\n" {
				t.Errorf("sign %d: got %q and %v, want one every %v", i, line, err, keepAlive)
				return
			}
		}
	})
}
