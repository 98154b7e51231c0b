package main

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/509da70d/floodgate/gate/peerbench/report"
)

func TestGatesRefuseClosedCallers(t *testing.T) {
	closed, others := crowd(few, few)
	wrap, stop := gates(closed)
	defer stop()
	served := 0
	h := wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	for i, p := range []struct {
		key  string
		want int
	}{{closed[0], 429}, {others[0], 200}, {"", 200}, {closed[few-1], 429}} {
		r := httptest.NewRequest(http.MethodGet, "/v1/items/1", nil)
		if p.key != "" {
			r.Header.Set(keyField, p.key)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != p.want {
			t.Errorf("request %d: got status %d, want %d", i, w.Code, p.want)
		}
	}
	if served != 2 {
		t.Errorf("got %d requests served, want 2", served)
	}
}

// who is who a request is from.
type who struct{ key, addr string }

func TestServingIsARequestOfEachCaller(t *testing.T) {
	_, callers := crowd(1, 100)
	var mu sync.Mutex
	seen := map[who]map[*http.Request]bool{}
	work := serving(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		k := who{r.Header.Get(keyField), r.RemoteAddr}
		if seen[k] == nil {
			seen[k] = map[*http.Request]bool{}
		}
		seen[k][r] = true
		w.Header().Set("X", "y")
		w.WriteHeader(http.StatusOK)
		if n, err := w.Write([]byte("hello")); n != 5 || err != nil {
			t.Errorf("got %d, %v, want all of it written", n, err)
		}
	}), callers)
	for range 2 {
		for w := range maxWorkers {
			if got := work(w); got != 100 {
				t.Errorf("got %d operations, want 100", got)
			}
		}
	}
	if len(seen) != 100 {
		t.Errorf("got %d callers, want 100 with a key and an address each", len(seen))
	}
	for k, requests := range seen {
		if len(requests) != maxWorkers {
			t.Errorf("%v: got %d requests, want one for each worker: they are changed while they are served", k, len(requests))
		}
	}
}

func TestMiddlewareIsOverTheBareHandler(t *testing.T) {
	b := &bench{settings: tiny(), report: &report.Report{}}
	if err := b.middleware(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows := b.report.Rows
	if len(rows) != 2 || rows[0].Bar != (report.Bar{AtMost: 300, Allocs: 1}) {
		t.Fatalf("got %+v, want a handler and a mux", rows)
	}
	for _, row := range rows {
		for _, f := range row.Figures {
			if f.Value <= 0 || f.Value > 1e6 {
				t.Errorf("%s: got %+v", row.Case, f)
			}
		}
	}
}
