package gatehttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gatetest"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// The Recorder that servers use must fit.
var _ gatehttp.Recorder = (*record.Recorder)(nil)

// arrivals is a Recorder that wants no responses.
type arrivals struct{ gatetest.Recorder }

func (*arrivals) Responses() bool { return false }

// shop is a mux with a few routes.
func shop() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("item " + r.PathValue("id") + " by " + r.Pattern))
	})
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	mux.HandleFunc("/panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	return mux
}

func byKey() []gatehttp.CallerFunc {
	return []gatehttp.CallerFunc{gatehttp.ClientIP(nil), gatehttp.Header("key", "x-api-key")}
}

// get asks h for a path with an API key, from 192.0.2.1.
func get(h http.Handler, method, path, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func event(caller string, e gatetest.Event) gatetest.Event {
	e.Caller, _ = schemas.ParseCaller(caller)
	return e
}

func TestOpenAndClosedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec arrivals
		set := gatetest.Set(t, gatetest.Close("key:noisy", 12*time.Second))
		h := gatehttp.New(gatehttp.Options{Set: set, Recorder: &rec, Callers: byKey()})(shop())

		w := get(h, "GET", "/items/7", "quiet")
		if w.Code != 200 || w.Body.String() != "item 7 by GET /items/{id}" || w.Header().Get("Ratelimit") != "" ||
			w.Header().Get("Retry-After") != "" {
			t.Errorf("quiet: got %d %q %v, want the item and no fields", w.Code, w.Body, w.Header())
		}
		<-time.After(300 * time.Millisecond)
		w = get(h, "GET", "/items/7", "noisy")
		if w.Code != http.StatusTooManyRequests || w.Body.String() != "Too Many Requests\n" {
			t.Errorf("noisy: got %d %q, want 429", w.Code, w.Body)
		}
		for field, want := range map[string]string{
			"Retry-After": "12", "RateLimit": `"gatetest";r=0;t=12`, "RateLimit-Policy": `"gatetest";q=100;w=60`,
		} {
			if got := w.Header().Get(field); got != want {
				t.Errorf("%s: got %q, want %q", field, got, want)
			}
		}
		// The address's own gate is open: the refused request is not charged to it.
		want := []gatetest.Event{
			event("ip:192.0.2.1", gatetest.Event{Resource: "GET /items/{id}"}),
			event("key:quiet", gatetest.Event{Resource: "GET /items/{id}"}),
			event("key:noisy", gatetest.Event{Resource: "GET /items/{id}", Blocked: true}),
		}
		if got := rec.Events(); !reflect.DeepEqual(got, want) {
			t.Errorf("recorded: got %+v, want %+v", got, want)
		}
		<-time.After(11*time.Second + 700*time.Millisecond)
		if w := get(h, "GET", "/items/7", "noisy"); w.Code != 200 {
			t.Errorf("at the time that Retry-After said: got %d, want 200", w.Code)
		}
	})
}

func TestResourceIsThePatternThatWillMatch(t *testing.T) {
	set := gatetest.Set(t)
	outer := func(h http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/items/", h)
		return mux
	}
	hide := func(h http.Handler) http.Handler { return http.HandlerFunc(h.ServeHTTP) } // no longer a mux
	for _, p := range []struct {
		name string
		h    func(func(http.Handler) http.Handler) http.Handler
		path string
		own  func(*http.Request) string
		want string
	}{
		{"around a mux", func(m func(http.Handler) http.Handler) http.Handler { return m(shop()) }, "/items/7", nil, "GET /items/{id}"},
		{"around a mux that has no such route", func(m func(http.Handler) http.Handler) http.Handler { return m(shop()) }, "/x", nil, ""},
		{"inside a mux", func(m func(http.Handler) http.Handler) http.Handler { return outer(m(hide(shop()))) }, "/items/7", nil, "GET /items/"},
		{"between two", func(m func(http.Handler) http.Handler) http.Handler { return outer(m(shop())) }, "/items/7", nil, "GET /items/{id}"},
		{"around what is no mux", func(m func(http.Handler) http.Handler) http.Handler { return m(hide(shop())) }, "/items/7", nil, ""},
		{"as the server says", func(m func(http.Handler) http.Handler) http.Handler { return m(hide(shop())) }, "/items/7",
			func(r *http.Request) string { return r.URL.Path }, "/items/7"},
	} {
		t.Run(p.name, func(t *testing.T) {
			var rec arrivals
			get(p.h(gatehttp.New(gatehttp.Options{Set: set, Recorder: &rec, Callers: byKey(), Resource: p.own})), "GET", p.path, "")
			if got := rec.Events(); len(got) != 1 || got[0].Resource != p.want {
				t.Errorf("got %+v, want one event with resource %q", got, p.want)
			}
		})
	}
}

func TestSkippedRequestsAreNeitherGatedNorRecorded(t *testing.T) {
	var rec gatetest.Recorder
	set := gatetest.Set(t, gatetest.Close("ip:192.0.2.1", time.Minute))
	h := gatehttp.New(gatehttp.Options{
		Set: set, Recorder: &rec, Callers: byKey(), Skip: func(r *http.Request) bool { return r.Method == http.MethodPost },
	})(shop())
	if w := get(h, "POST", "/orders", ""); w.Code != http.StatusCreated || len(rec.Events()) != 0 {
		t.Errorf("got %d and %+v recorded, want 201 and nothing", w.Code, rec.Events())
	}
	if w := get(h, "GET", "/items/1", ""); w.Code != http.StatusTooManyRequests {
		t.Errorf("got %d for a request that is not skipped, want 429", w.Code)
	}
}

func TestOnClosedAnswersAsItLikes(t *testing.T) {
	set := gatetest.Set(t, gatetest.Close("ip:192.0.2.1", time.Minute))
	h := gatehttp.New(gatehttp.Options{Set: set, Callers: byKey(),
		OnClosed: func(w http.ResponseWriter, _ *http.Request, v gate.Verdict) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(v.Caller.String() + " by " + v.Rule))
		},
	})(shop())
	w := get(h, "GET", "/items/1", "")
	if w.Code != 503 || w.Body.String() != "ip:192.0.2.1 by gatetest" || w.Header().Get("Retry-After") != "60" {
		t.Errorf("got %d %q %v, want OnClosed's answer with the fields", w.Code, w.Body, w.Header())
	}
}

func TestShadowAdmitsAndTells(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T) *gate.Set{
		"a shadow closure": func(t *testing.T) *gate.Set {
			t.Helper()
			return gatetest.Set(t, gatetest.Shadow("key:k", time.Minute))
		},
		"a Set in shadow": func(t *testing.T) *gate.Set {
			t.Helper()
			s := gatetest.Set(t, gatetest.Close("key:k", time.Minute))
			s.SetMode(gate.Shadow)
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			var rec arrivals
			var shadowed []gate.Verdict
			h := gatehttp.New(gatehttp.Options{Set: prepare(t), Recorder: &rec, Callers: byKey(),
				OnShadow: func(_ *http.Request, v gate.Verdict) { shadowed = append(shadowed, v) },
			})(shop())
			w := get(h, "GET", "/items/1", "k")
			if w.Code != 200 || w.Header().Get("Retry-After") != "" {
				t.Errorf("got %d %v, want 200 and no fields", w.Code, w.Header())
			}
			get(h, "GET", "/items/1", "other")
			if len(shadowed) != 1 || !shadowed[0].Shadow || shadowed[0].Caller.String() != "key:k" {
				t.Errorf("shadowed %+v, want the one request", shadowed)
			}
			for _, e := range rec.Events() {
				if e.Blocked {
					t.Errorf("got %+v, want no request recorded as blocked", e)
				}
			}
		})
	}
}

func TestNewPanicsOnMistakes(t *testing.T) {
	set := gatetest.Set(t)
	for name, o := range map[string]gatehttp.Options{
		"no Set":     {Callers: byKey()},
		"no callers": {Set: set},
		"too many":   {Set: set, Callers: make([]gatehttp.CallerFunc, gate.MaxCallers+1)},
		"bad kind":   {Set: set, Callers: []gatehttp.CallerFunc{gatehttp.Header("API Key", "X-Api-Key")}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("got a middleware, want a panic")
				}
			}()
			gatehttp.New(o)
		})
	}
}

func TestCallerFunctions(t *testing.T) {
	set := gatetest.Set(t)
	long := strings.Repeat("k", schemas.MaxCallerID+1)
	for _, p := range []struct {
		name   string
		f      gatehttp.CallerFunc
		header http.Header
		want   string
	}{
		{"address", gatehttp.ClientIP(nil), nil, "ip:192.0.2.1"},
		{"header", gatehttp.Header("key", "x-api-key"), http.Header{"X-Api-Key": {" abc\t", "second"}}, "key:abc"},
		{"no header", gatehttp.Header("key", "x-api-key"), nil, ""},
		{"empty header", gatehttp.Header("key", "x-api-key"), http.Header{"X-Api-Key": {""}}, ""},
		{"blank header", gatehttp.Header("key", "x-api-key"), http.Header{"X-Api-Key": {" \t "}}, ""},
		{"long header", gatehttp.Header("key", "x-api-key"), http.Header{"X-Api-Key": {long}}, "key:" + schemas.ID(long)},
		{"bytes that are no text", gatehttp.Header("key", "x-api-key"), http.Header{"X-Api-Key": {"\xff\x00\x1b[0m"}}, "key:\xff\x00\x1b[0m"},
		{"custom", gatehttp.Custom("host", func(r *http.Request) string { return r.Host }), nil, "host:example.com"},
		{"composite", gatehttp.Composite("ip_route", gatehttp.IP(set, nil), gatehttp.Route), nil, "ip_route:192.0.2.1|GET /items/{id}"},
		{"composite without a part", gatehttp.Composite("ip_key", gatehttp.IP(set, nil), gatehttp.HeaderValue("X-Api-Key")), nil, ""},
		{"composite that could be another's",
			gatehttp.Composite("key_route", gatehttp.HeaderValue("X-Api-Key"), gatehttp.Route), http.Header{"X-Api-Key": {"a|b"}},
			"key_route:~0eab8a0a3380abf4c7d1fb0b43b66aaf|GET /items/{id}"},
		{"separator in the last part",
			gatehttp.Composite("ip_key", gatehttp.IP(set, nil), gatehttp.HeaderValue("X-Api-Key")), http.Header{"X-Api-Key": {"a|b"}}, "ip_key:192.0.2.1|a|b"},
	} {
		t.Run(p.name, func(t *testing.T) {
			var rec arrivals
			h := gatehttp.New(gatehttp.Options{Set: set, Recorder: &rec, Callers: []gatehttp.CallerFunc{p.f}})(shop())
			r := httptest.NewRequest(http.MethodGet, "http://example.com/items/1", nil)
			r.Header = p.header
			h.ServeHTTP(httptest.NewRecorder(), r)
			got := ""
			for _, e := range rec.Events() {
				got += e.Caller.String()
			}
			if got != p.want {
				t.Errorf("got %q, want %q", got, p.want)
			}
		})
	}
}

func TestMiddlewareAddsNoAllocation(t *testing.T) {
	set := gatetest.Set(t, gatetest.Close("key:other", time.Hour))
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	h := gatehttp.New(gatehttp.Options{Set: set, Recorder: record.New(record.Options{}), Callers: byKey()})(next)
	r := httptest.NewRequest(http.MethodGet, "/items/1", nil)
	r.Header.Set("X-Api-Key", "abc")
	w := httptest.NewRecorder()
	if n := testing.AllocsPerRun(1000, func() { h.ServeHTTP(w, r) }); n > 0.5 { // the pool may be emptied meanwhile
		t.Errorf("got %v allocations a request, want 0", n)
	}
}

func BenchmarkMiddleware(b *testing.B) {
	set := gatetest.Set(b, gatetest.Close("key:other", time.Hour))
	ctx, cancel := context.WithCancel(b.Context())
	var clock sync.WaitGroup
	clock.Go(func() { set.RunClock(ctx) })
	defer clock.Wait()
	defer cancel()
	mux := shop()
	plain := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	mux.Handle("GET /plain", plain)
	gated := gatehttp.New(gatehttp.Options{Set: set, Recorder: record.New(record.Options{}), Callers: byKey()})
	for _, p := range []struct {
		name, key string
		h         http.Handler
	}{
		{"bare handler", "abc", plain},
		{"gated handler", "abc", gated(plain)},
		{"gated handler, closed", "other", gated(plain)},
		{"bare mux", "abc", mux},
		{"gated mux", "abc", gated(mux)},
	} {
		b.Run(p.name, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodGet, "/plain", nil)
			r.Header.Set("X-Api-Key", p.key)
			w := nowhere{make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				p.h.ServeHTTP(w, r)
			}
		})
	}
}

// nowhere is a ResponseWriter that keeps nothing but the header.
type nowhere struct{ header http.Header }

func (w nowhere) Header() http.Header         { return w.header }
func (w nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (w nowhere) WriteHeader(int)             {}
