package gatehttp_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gatetest"
)

// serve starts a real server behind the middleware; it ends with the test.
func serve(t *testing.T, rec gatehttp.Recorder, http2 bool, handler http.HandlerFunc, closures ...gatetest.Closure) *httptest.Server {
	t.Helper()
	o := gatehttp.Options{
		Set: gatetest.Set(t, closures...), Recorder: rec, Callers: byKey(),
		Resource: func(r *http.Request) string { return r.URL.Path },
		Cost:     func(_ *http.Request, _ int, bodyBytes int64) int64 { return bodyBytes },
	}
	srv := httptest.NewUnstartedServer(gatehttp.New(o)(handler))
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.EnableHTTP2 = http2
	if http2 {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return srv
}

// responded waits for the end of a request to be recorded, which may be after the client has its answer.
func responded(t *testing.T, rec *gatetest.Recorder) gatetest.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		for _, e := range rec.Events() {
			if e.Response {
				return e
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("no response was recorded: %+v", rec.Events())
		}
	}
}

func TestHowRequestsEnd(t *testing.T) {
	for _, p := range []struct {
		name    string
		handler http.HandlerFunc
		status  int
		cost    int64
	}{
		{"nothing written", func(http.ResponseWriter, *http.Request) {}, 200, 0},
		{"a body", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }, 200, 5},
		{"a status and a body", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, "short and stout")
		}, 418, 15},
		{"hints before the status", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNotFound)
		}, 404, 0},
		{"a status too late", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "x")
			w.WriteHeader(http.StatusNotFound)
		}, 200, 1},
		{"flushed first", func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, 200, 0},
		{"a panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 500, 0},
		{"a panic after the status", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			panic(http.ErrAbortHandler)
		}, 202, 0},
	} {
		t.Run(p.name, func(t *testing.T) {
			var rec gatetest.Recorder
			srv := serve(t, &rec, false, p.handler)
			if resp, err := srv.Client().Get(srv.URL + "/path"); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			e := responded(t, &rec)
			if e.Status != p.status || e.Cost != p.cost || e.Resource != "/path" || e.Blocked || e.Caller.String() != "ip:127.0.0.1" {
				t.Errorf("got %+v, want status %d and cost %d", e, p.status, p.cost)
			}
		})
	}
}

func TestServerOverTheWire(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		var rec gatetest.Recorder
		srv := serve(t, &rec, http2, func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			if err := rc.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Errorf("SetWriteDeadline: %v", err)
			}
			if _, err := io.WriteString(w, "first\n"); err != nil {
				t.Errorf("write: %v", err)
			}
			if err := rc.Flush(); err != nil {
				t.Errorf("Flush: %v", err)
			}
			<-r.Context().Done() // until the client, which has read the first line, goes away
		}, gatetest.Close("key:noisy", time.Minute))

		ctx, cancel := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil)
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(resp.Body).ReadString('\n'); line != "first\n" || resp.ProtoAtLeast(2, 0) != http2 {
			t.Errorf("got %q, %v by %s, want the first line before the handler ends", line, err, resp.Proto)
		}
		cancel()
		_ = resp.Body.Close()
		if e := responded(t, &rec); e.Status != 200 || e.Cost != 6 {
			t.Errorf("got %+v, want status 200 and 6 bytes", e)
		}

		req, _ = http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
		req.Header.Set("X-Api-Key", "noisy")
		if resp, err = srv.Client().Do(req); err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusTooManyRequests || string(body) != "Too Many Requests\n" || resp.Header.Get("RateLimit") != `"gatetest";r=0;t=60` {
			t.Errorf("got %d %q %v, want 429 with its fields", resp.StatusCode, body, resp.Header)
		}
	}
}

func TestConnectionsCanBeHijacked(t *testing.T) {
	for _, responses := range []bool{true, false} {
		var rec gatetest.Recorder
		var r gatehttp.Recorder = &rec
		if !responses {
			r = &arrivals{}
		}
		srv := serve(t, r, false, func(w http.ResponseWriter, _ *http.Request) {
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Errorf("Hijack: %v", err)
				return
			}
			_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: test\r\nConnection: Upgrade\r\n\r\n")
			_ = rw.Flush()
			_ = conn.Close()
		})
		resp, err := srv.Client().Get(srv.URL)
		if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("got %v, %v, want 101", resp, err)
		}
		_ = resp.Body.Close()
		if responses {
			if e := responded(t, &rec); e.Status != http.StatusSwitchingProtocols {
				t.Errorf("got %+v, want status 101", e)
			}
		}
	}
}

func TestFilesAreStillHandedToTheKernel(t *testing.T) {
	name := filepath.Join(t.TempDir(), "large")
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	var rec gatetest.Recorder
	srv := serve(t, &rec, false, func(w http.ResponseWriter, r *http.Request) {
		if _, ok := w.(io.ReaderFrom); !ok {
			t.Error("the response is no io.ReaderFrom")
		}
		http.ServeFile(w, r, name)
	})
	resp, err := srv.Client().Get(srv.URL + "/large")
	if err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if !bytes.Equal(got, content) {
		t.Errorf("got %d bytes, want the %d of the file", len(got), len(content))
	}
	if e := responded(t, &rec); e.Cost != int64(len(content)) {
		t.Errorf("got %+v, want %d bytes written", e, len(content))
	}
}

// A response that can be neither flushed nor hijacked does not pretend to.
func TestPlainResponsesStayPlain(t *testing.T) {
	type plain struct{ http.ResponseWriter }
	var rec gatetest.Recorder
	var isFlusher, isHijacker bool
	h := gatehttp.New(gatehttp.Options{Set: gatetest.Set(t), Recorder: &rec, Callers: byKey()})(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, isFlusher = w.(http.Flusher)
			_, isHijacker = w.(http.Hijacker)
		}))
	r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(""))
	h.ServeHTTP(plain{httptest.NewRecorder()}, r)
	if isFlusher || isHijacker {
		t.Errorf("got flusher %v, hijacker %v, want neither", isFlusher, isHijacker)
	}
	h.ServeHTTP(httptest.NewRecorder(), r)
	if !isFlusher || isHijacker {
		t.Errorf("got flusher %v, hijacker %v, want a flusher", isFlusher, isHijacker)
	}
}
