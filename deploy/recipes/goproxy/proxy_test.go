package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/gate/gatetest"
)

// world is a model that a test has made, and a proxy before it.
type world struct {
	t     *testing.T
	proxy *httptest.Server
	rec   gatetest.Recorder
	asked chan string // the body of each request that reaches the model
}

// newWorld starts both. answer is the model.
func newWorld(t *testing.T, answer http.HandlerFunc, closures ...gatetest.Closure) *world {
	t.Helper()
	w := &world{t: t, rec: gatetest.Recorder{Hold: true}, asked: make(chan string, 10)}
	model := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.ContentLength != int64(len(body)) || r.Header.Get("Accept-Encoding") == "br" {
			t.Errorf("got %v, %d bytes of %d, header %v", err, len(body), r.ContentLength, r.Header)
		}
		w.asked <- string(body)
		answer(rw, r)
	}))
	t.Cleanup(model.Close)
	w.serve(model.URL, closures...)
	return w
}

func (w *world) serve(model string, closures ...gatetest.Closure) {
	w.t.Helper()
	at, err := url.Parse(model)
	if err != nil {
		w.t.Fatal(err)
	}
	w.proxy = httptest.NewUnstartedServer(newProxy(at, gatetest.Set(w.t, closures...), &w.rec))
	w.proxy.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // what becomes of clients that go away
	w.proxy.Start()
	w.t.Cleanup(w.proxy.Close)
}

// ask sends a request for a completion with key k.
func (w *world) ask(ctx context.Context, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.proxy.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer k")
	r.Header.Set("Accept-Encoding", "br")
	return w.proxy.Client().Do(r)
}

// answer returns the status and the body of the whole answer.
func (w *world) answer(body string) (status int, text string) {
	w.t.Helper()
	resp, err := w.ask(w.t.Context(), body)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(all)
}

// recorded waits for the response of one request, and returns it and the arrival.
func (w *world) recorded() (arrival, response gatetest.Event) {
	w.t.Helper()
	tick, late := time.NewTicker(time.Millisecond), time.After(20*time.Second)
	defer tick.Stop()
	for {
		if got := w.rec.Events(); len(got) == 2 {
			if got[0].Response || !got[1].Response || got[0].Caller.String() != "key:k" || got[1].Caller != got[0].Caller {
				w.t.Fatalf("got %+v, want an arrival and a response of key k", got)
			}
			return got[0], got[1]
		}
		select {
		case <-tick.C:
		case <-late:
			w.t.Fatalf("got %+v, want an arrival and a response", w.rec.Events())
		}
	}
}

// streamed answers with n events of a token each, and then with these lines.
func streamed(w http.ResponseWriter, n int, last ...string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for i := range n {
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word %d\"}}],\"usage\":null}\n\n", i)
	}
	for _, line := range last {
		fmt.Fprintf(w, "data: %s\n\n", line)
	}
	_ = http.NewResponseController(w).Flush()
}

// failing answers with an error, which says something of usage.
func failing(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, usageOf812, status) }
}

const (
	usageOf812 = `{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":800,"total_tokens":812}}`
	asks500    = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":500,"messages":[]}` // 99 bytes, 25 tokens
	prompt     = 25
)

// TestWhatARequestCosts: what a client asks, what the model answers, and what is recorded.
func TestWhatARequestCosts(t *testing.T) {
	for name, test := range map[string]struct {
		body           string
		model          http.HandlerFunc
		declared, cost int64
		status         int
	}{
		"a stream": {asks500, func(w http.ResponseWriter, _ *http.Request) { streamed(w, 7, usageOf812, "[DONE]") }, 500, 812, 200},
		"a stream without usage": {
			asks500, func(w http.ResponseWriter, _ *http.Request) { streamed(w, 7, "[DONE]") }, 500, prompt + 7, 200,
		},
		"usage with each event": {asks500, func(w http.ResponseWriter, _ *http.Request) {
			streamed(w, 0, `{"usage":{"total_tokens":13}}`, `{"usage":{"total_tokens":14}}`, "[DONE]")
		}, 500, 14, 200},
		"a stream that speaks of usage": {asks500, func(w http.ResponseWriter, _ *http.Request) {
			streamed(w, 0, `{"choices":[{"delta":{"content":"\"usage\":{\"total_tokens\":9999999}"}}]}`, "[DONE]")
		}, 500, prompt + 1, 200},
		"no max_tokens":         {`{"stream":true}`, func(w http.ResponseWriter, _ *http.Request) { streamed(w, 1, usageOf812) }, 0, 812, 200},
		"max_completion_tokens": {`{"max_completion_tokens":70}`, func(w http.ResponseWriter, _ *http.Request) { streamed(w, 1, usageOf812) }, 70, 812, 200},
		"the larger of two":     {`{"max_tokens":500,"max_completion_tokens":70}`, failing(http.StatusBadRequest), 500, 0, 400},
		"of the responses API": {`{"max_output_tokens":90}`, func(w http.ResponseWriter, _ *http.Request) {
			streamed(w, 1, `{"type":"response.completed","response":{"usage":{"total_tokens":77}}}`)
		}, 90, 77, 200},
		"one answer": {asks500, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, usageOf812)
		}, 500, 812, 200},
		"the model fails":         {asks500, failing(500), 500, 0, 500},
		"the model is busy":       {asks500, failing(429), 500, 0, 429},
		"a negative max_tokens":   {`{"max_tokens":-5}`, failing(400), 0, 0, 400},
		"max_tokens is no number": {`{"max_tokens":"9","max_completion_tokens":1.5}`, failing(400), 0, 0, 400},
		"max_tokens beyond all":   {`{"max_tokens":9223372036854775807}`, failing(400), 1 << 40, 0, 400},
		"no JSON":                 {`max_tokens=500`, failing(400), 0, 0, 400},
	} {
		t.Run(name, func(t *testing.T) {
			w, before := newWorld(t, test.model), time.Now()
			status, _ := w.answer(test.body)
			if got := <-w.asked; got != test.body || status != test.status {
				t.Errorf("got status %d, and the model was asked %q; want %d and %q", status, got, test.status, test.body)
			}
			a, r := w.recorded()
			if a.Declared != test.declared || r.Declared != test.declared || a.Resource != "POST /v1/chat/completions" || r.Resource != a.Resource {
				t.Errorf("got %+v and %+v, want declared %d", a, r, test.declared)
			}
			if r.Cost != test.cost || r.Status != test.status || r.Arrived.Before(before) || r.Arrived.After(time.Now()) {
				t.Errorf("got %+v, want cost %d, status %d, and the time of the arrival", r, test.cost, test.status)
			}
		})
	}
}

// TestEventsComeAsTheyAreMade: the second event is made when the client has read the first.
func TestEventsComeAsTheyAreMade(t *testing.T) {
	read := make(chan struct{})
	w := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) {
		streamed(rw, 1)
		<-read
		streamed(rw, 1, usageOf812, "[DONE]")
	})
	resp, err := w.ask(t.Context(), asks500)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	if line, err := lines.ReadString('\n'); !strings.HasPrefix(line, "data: ") {
		t.Fatalf("got %q and %v, want the first event", line, err)
	}
	if got := w.rec.Events(); len(got) != 1 || got[0].Declared != 500 {
		t.Errorf("got %+v while the stream runs, want its arrival, which declares 500", got)
	}
	close(read)
	if rest, err := io.ReadAll(lines); err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("got %q and %v, want the rest of the stream", rest, err)
	}
	if _, r := w.recorded(); r.Cost != 812 {
		t.Errorf("got %+v, want cost 812", r)
	}
}

// TestAClientGoesAway: the model hears of it, and what it has done by then is paid for.
func TestAClientGoesAway(t *testing.T) {
	for name, test := range map[string]struct {
		events int // that the client has read by then; 0: it has no answer yet
		cost   int64
		status int
	}{
		"half way":                  {3, prompt + 3, 200},
		"before there is an answer": {0, prompt, statusClientGone},
	} {
		t.Run(name, func(t *testing.T) {
			heard := make(chan struct{})
			w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
				if test.events > 0 {
					streamed(rw, test.events)
				}
				<-r.Context().Done()
				close(heard)
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.events == 0 {
				go func() { <-w.asked; cancel() }()
			}
			resp, err := w.ask(ctx, asks500)
			if (err == nil) != (test.events > 0) {
				t.Fatalf("got %v and %v", resp, err)
			}
			if err == nil {
				lines := bufio.NewReader(resp.Body)
				for range 2 * test.events { // with the blank lines between them
					if _, err := lines.ReadString('\n'); err != nil {
						t.Fatal(err)
					}
				}
				cancel()
				_ = resp.Body.Close()
			}
			<-heard
			if a, r := w.recorded(); r.Cost != test.cost || r.Status != test.status || a.Declared != 500 || r.Declared != 500 || r.Arrived.IsZero() {
				t.Errorf("got %+v and %+v, want cost %d, status %d", a, r, test.cost, test.status)
			}
		})
	}
}

// TestTheModelGoesAway: what was streamed by then is paid for, and a model that is not there costs nothing.
func TestTheModelGoesAway(t *testing.T) {
	w := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) {
		streamed(rw, 4)
		panic(http.ErrAbortHandler)
	})
	resp, err := w.ask(t.Context(), asks500)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("got a whole answer, want one that is cut off")
	}
	_ = resp.Body.Close()
	if _, r := w.recorded(); r.Cost != prompt+4 || r.Status != 200 {
		t.Errorf("got %+v, want what was streamed", r)
	}

	away := &world{t: t, rec: gatetest.Recorder{Hold: true}}
	away.serve("http://" + testenv.FreeAddress(t))
	if status, _ := away.answer(asks500); status != http.StatusBadGateway {
		t.Errorf("got status %d, want 502", status)
	}
	if a, r := away.recorded(); r.Cost != 0 || r.Status != http.StatusBadGateway || a.Declared != 500 {
		t.Errorf("got %+v and %+v, want no cost", a, r)
	}
}

// TestWhatDoesNotReachTheModel: requests of a closed key, and bodies that are too large.
func TestWhatDoesNotReachTheModel(t *testing.T) {
	w := newWorld(t, func(http.ResponseWriter, *http.Request) { t.Error("got a request at the model") }, gatetest.Close("key:k", time.Hour))
	if status, _ := w.answer(asks500); status != http.StatusTooManyRequests {
		t.Errorf("a closed key: got status %d, want 429", status)
	}
	if got := w.rec.Events(); len(got) != 1 || !got[0].Blocked || got[0].Declared != 0 {
		t.Errorf("got %+v, want a blocked request that declares nothing", got)
	}
	w.rec.Reset()
	if status, _ := w.answer(strings.Repeat("x", maxBody+1)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: got status %d, want 413", status)
	}
	if got := w.rec.Events(); len(got) != 0 {
		t.Errorf("got %+v of a request that is not complete, want nothing", got)
	}
}

// deadlineWriter is a writer whose connection has a deadline for reading.
type deadlineWriter struct {
	*httptest.ResponseRecorder

	deadline time.Time
}

func (w *deadlineWriter) SetReadDeadline(at time.Time) error { w.deadline = at; return nil }

// slowBody is a body that does not end before the deadline.
type slowBody struct{ w *deadlineWriter }

func (b slowBody) Read([]byte) (int, error) {
	if d := time.Until(b.w.deadline); d <= 0 || d > bodyTimeout {
		return 0, fmt.Errorf("got a deadline in %v, want one within %v", d, bodyTimeout)
	}
	return 0, os.ErrDeadlineExceeded
}

// TestTheBodyHasADeadline, and the stream after it has none: the server would end it then.
func TestTheBodyHasADeadline(t *testing.T) {
	w, passed := &deadlineWriter{ResponseRecorder: httptest.NewRecorder()}, false
	h := readCall(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if passed = true; !w.deadline.IsZero() {
			t.Errorf("got a deadline at %v while the model answers, want none", w.deadline)
		}
	}))
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}")))
	if !passed {
		t.Error("got no request behind the body")
	}
	passed = false
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", slowBody{w}))
	if passed || w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), os.ErrDeadlineExceeded.Error()) {
		t.Errorf("got %d %q, want 400 that names the deadline", w.Code, w.Body)
	}
}

func TestCallersAndResources(t *testing.T) {
	for header, want := range map[string]string{"Bearer k": "k", "bearer  k ": "k", "Basic k": "", "k": "", "": "", "Bearer": "", "Bearer a b": "a b"} {
		r := &http.Request{Header: http.Header{"Authorization": {header}}}
		if got := apiKey(r); got != want {
			t.Errorf("%q: got key %q, want %q", header, got, want)
		}
	}
	for line, want := range map[string]string{
		"POST /v1/chat/completions": "POST /v1/chat/completions", "POST /v1/chat/completions/1234": "", "GET /v1/chat/completions": "", "GET /v1/models": "",
	} {
		method, path, _ := strings.Cut(line, " ")
		if got := resourceOf(httptest.NewRequest(method, path, nil)); got != want {
			t.Errorf("%s: got resource %q, want %q", line, got, want)
		}
	}
}

// FuzzMeter: what a meter reads depends on the answer, and not on the pieces in which it comes. It passes on what it was given.
func FuzzMeter(f *testing.F) {
	f.Add([]byte("data: {\"usage\":{\"total_tokens\":7}}\r\n\r\ndata: [DONE]\n\n"), uint8(3), true)
	f.Add([]byte(`{"usage":{"total_tokens":7}}`), uint8(1), false)
	f.Add([]byte("event: x\ndata:\ndata: {\ndata: {\"usage\":{\"total_tokens\":-7}}\n: comment\ndata: 1"), uint8(2), true)
	f.Add([]byte("data: {\"usage\":{\"total_tokens\":99999999999999999999}}\n"), uint8(200), true)
	f.Fuzz(func(t *testing.T, text []byte, size uint8, events bool) {
		read := func(r io.Reader) call {
			var c call
			m := newMeter(io.NopCloser(r), &c, events)
			got, err := io.ReadAll(m)
			if err != nil || !bytes.Equal(got, text) || m.Close() != nil {
				t.Fatalf("got %q and %v, want %q", got, err, text)
			}
			return c
		}
		whole, pieces := read(bytes.NewReader(text)), read(&inPieces{text, int(size%16) + 1})
		if whole != pieces || whole.usage < 0 || whole.streamed > int64(bytes.Count(text, []byte("data:"))) || !events && whole.streamed != 0 {
			t.Errorf("got %+v of the whole, and %+v of its pieces", whole, pieces)
		}
	})
}

// inPieces is a reader of a few bytes at a time.
type inPieces struct {
	left []byte
	size int
}

func (r *inPieces) Read(p []byte) (int, error) {
	n := copy(p[:min(len(p), r.size)], r.left)
	if r.left = r.left[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// A line that is longer than what a meter keeps counts as one event, and those behind it are read.
func TestALineThatIsTooLong(t *testing.T) {
	text := "data: " + strings.Repeat("x", maxLine) + "\ndata: {\"usage\":{\"total_tokens\":5}}\n"
	for _, size := range []int{1 << 16, len(text)} {
		var c call
		m := newMeter(io.NopCloser(&inPieces{[]byte(text), size}), &c, true)
		if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{m}, make([]byte, size)); err != nil || n != int64(len(text)) || c != (call{usage: 5, streamed: 1}) {
			t.Errorf("got %+v after %d bytes and %v, want one event and a usage of 5", c, n, err)
		}
		if cap(m.line) > 2*maxLine {
			t.Errorf("got %d bytes kept, want about %d at most", cap(m.line), maxLine)
		}
	}
}

// TestTheServerEndsWithItsStreams: a stop waits for the stream that runs, and its response is recorded before.
func TestTheServerEndsWithItsStreams(t *testing.T) {
	goOn := make(chan struct{})
	w := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) {
		streamed(rw, 1)
		<-goOn
		streamed(rw, 1, usageOf812)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l, w.proxy.Config.Handler) }()
	w.proxy.URL = "http://" + l.Addr().String()
	resp, err := w.ask(t.Context(), asks500)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	stop()
	for refused := false; !refused; { // until the server does not listen any more
		conn, err := net.Dial("tcp", l.Addr().String())
		if refused = err != nil; !refused {
			_ = conn.Close()
		}
	}
	select {
	case err := <-ended:
		t.Errorf("got the end (%v) while a stream runs", err)
	default:
	}
	close(goOn)
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("got %v, want the rest of the stream", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("got %v, want a clean end", err)
	}
	if got := w.rec.Events(); len(got) != 2 || got[1].Cost != 812 {
		t.Errorf("got %+v when the server has ended, want the response", got)
	}
}

// environment is the variables of a process.
type environment map[string]string

func (e environment) get(name string) string { return e[name] }

func TestWhatTheProxyNeeds(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for want, env := range map[string]environment{
		`MODEL: got "", want a URL`:         {},
		`MODEL: got "ftp://h", want a URL`:  {"MODEL": "ftp://h"},
		`MODEL: got "h:8000", want a URL`:   {"MODEL": "h:8000"},
		`MODEL: got "http://%", want a URL`: {"MODEL": "http://%"},
		"address already in use":            {"MODEL": "http://h", "LISTEN": taken.Addr().String()},
	} {
		if err := realMain(t.Context(), env.get); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", env, err, want)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	err = realMain(ctx, environment{"MODEL": "http://h", "LISTEN": "127.0.0.1:0", "FLOODGATE_BROKERS": testenv.FreeAddress(t)}.get)
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a proxy that is stopped at once: got %v, want a clean end", err)
	}
}
