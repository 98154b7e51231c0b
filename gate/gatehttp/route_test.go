package gatehttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gatetest"
	"github.com/509da70d/floodgate/gate/record"
)

// recorded returns the resource that a middleware inside of a mux records for a request, where the mux has one pattern.
func recorded(t *testing.T, pattern, method string) string {
	t.Helper()
	var rec arrivals
	h := gatehttp.New(gatehttp.Options{Set: gatetest.Set(t), Recorder: &rec, Callers: byKey()})(http.NotFoundHandler())
	mux := http.NewServeMux()
	mux.Handle(pattern, h)
	for range 2 { // the second one is remembered
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, "/search", nil))
	}
	events := rec.Events()
	if len(events) != 2 || events[0].Resource != events[1].Resource {
		t.Fatalf("%s %s: got %+v, want two events of one resource", method, pattern, events)
	}
	return events[0].Resource
}

// TestAResourceHasItsMethod: a pattern without a method gives the same resources as an access log, so that one rule is for both.
func TestAResourceHasItsMethod(t *testing.T) {
	for _, p := range []struct{ pattern, method, want string }{
		{"/search", "GET", "GET /search"},
		{"/search", "POST", "POST /search"},
		{"/search", "X-MINE", "OTHER /search"},
		{"/search", "X-YOURS", "OTHER /search"},
		{"GET /search", "GET", "GET /search"},
		{"GET /search", "HEAD", "GET /search"}, // what the mux matched, and what the server's author wrote
		{"GET example.com/search", "GET", "GET example.com/search"},
	} {
		if got := recorded(t, p.pattern, p.method); got != p.want {
			t.Errorf("%s %s: got %q, want %q", p.method, p.pattern, got, p.want)
		}
	}
}

// TestAClientsPatternsFillNoMemory: where another router takes the pattern from the client, no more than a bound is remembered, and
// each request has its own resource all the same.
func TestAClientsPatternsFillNoMemory(t *testing.T) {
	var rec arrivals
	h := gatehttp.New(gatehttp.Options{Set: gatetest.Set(t), Recorder: &rec, Callers: byKey()})(http.NotFoundHandler())
	for i := range 5000 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Pattern = fmt.Sprintf("/chosen/%d", i)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	for i, e := range rec.Events() {
		if want := fmt.Sprintf("GET /chosen/%d", i); e.Resource != want {
			t.Fatalf("got %q, want %q", e.Resource, want)
		}
	}
}

func TestAResourceWithItsMethodAddsNoAllocation(t *testing.T) {
	h := gatehttp.New(gatehttp.Options{Set: gatetest.Set(t), Recorder: record.New(record.Options{}), Callers: byKey()})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := httptest.NewRequest(http.MethodGet, "/items/1", nil)
	r.Header.Set("X-Api-Key", "abc")
	r.Pattern = "/items/{id}"
	w := httptest.NewRecorder()
	if n := testing.AllocsPerRun(1000, func() { h.ServeHTTP(w, r) }); n > 0.5 {
		t.Errorf("got %v allocations a request, want 0", n)
	}
}
