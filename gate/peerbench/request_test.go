package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/509da70d/floodgate/gate/peerbench/meter"
	"github.com/509da70d/floodgate/gate/peerbench/report"
)

// hello is the handler that whole requests are measured with; it calls seen with each key.
func hello(seen func(key string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen(r.Header.Get(keyField))
		_, _ = io.WriteString(w, "hello\n")
	})
}

func TestSiteServesItsKeysInOrder(t *testing.T) {
	_, asked := crowd(1, 100)
	var mu sync.Mutex
	var seen []string
	s, err := newSite(hello(func(key string) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, key)
	}), asked)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for range 2 {
		if got := s.work(0); got != s.keys.step {
			t.Errorf("got %d requests, want %d", got, s.keys.step)
		}
	}
	if err := s.failure(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(seen, asked[:2*s.keys.step]) {
		t.Errorf("got keys %q, want the first %d in order", seen, 2*s.keys.step)
	}
	s.work(1)
	if err := s.failure(); err != nil || len(seen) != 3*s.keys.step {
		t.Errorf("got %d requests and error %v, want a second worker's too", len(seen), err)
	}
}

// A server that refuses or breaks off would be quick: that must not go unseen.
func TestSiteReportsFailures(t *testing.T) {
	_, asked := crowd(1, 100)
	for name, p := range map[string]struct {
		h    http.Handler
		want string
	}{
		"refused": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }), "429"},
		"broken":  {http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), "EOF"},
	} {
		s, err := newSite(p.h, asked)
		if err != nil {
			t.Fatal(err)
		}
		s.work(0)
		s.work(0)
		if err := s.failure(); err == nil || !strings.Contains(err.Error(), p.want) {
			t.Errorf("%s: got error %v, want one with %q", name, err, p.want)
		}
		s.close()
	}
}

// answering is a client whose server says what is given, whatever it is asked.
func answering(t *testing.T, response string) *client {
	t.Helper()
	here, there := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() {
		defer there.Close()
		if _, err := http.ReadRequest(bufio.NewReader(there)); err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(there, response)
	})
	t.Cleanup(func() {
		_ = here.Close()
		serving.Wait()
	})
	return &client{conn: here, response: bufio.NewReader(here)}
}

func TestLimitedLimitsEachKeyAndKnowsSome(t *testing.T) {
	served := 0
	h := limited(hello(func(string) { served++ }), []string{"known"})
	for _, key := range []string{"known", "new", "new", "", "known"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set(keyField, key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK || w.Body.String() != "hello\n" {
			t.Errorf("%q: got status %d and %q", key, w.Code, w.Body)
		}
	}
	if served != 5 {
		t.Errorf("got %d served, want 5", served)
	}
}

func TestRequestRowsAreSharesOfTheBareRequest(t *testing.T) {
	b := &bench{settings: settings{cpus: []int{1, 2}}, report: &report.Report{}}
	one := []meter.Series{took(20_000), took(25_000), took(20_400), took(21_000)}
	two := []meter.Series{took(20_000), took(20_000), took(19_000), took(20_000)}
	b.requestRows([][]meter.Series{one, two})
	usual, flooded := b.report.Rows[0], b.report.Rows[1]
	if f := usual.Figures[0]; f.CPUs != 1 || f.Value < 1.99 || f.Value > 2.01 || f.Rival.Value < 24.9 || f.Rival.Value > 25.1 {
		t.Errorf("got %+v, want 2 %% more, and 25 %% for the rival", f)
	}
	if f := usual.Figures[1]; f.CPUs != 2 || f.Value > -4.9 || f.Rival.Value != 0 {
		t.Errorf("got %+v, want 5 %% less, as measured", f)
	}
	if !usual.Met() || !strings.Contains(usual.Note, "20.0 µs on 1 CPU") {
		t.Errorf("got %+v, want it met, and what a bare request takes", usual)
	}
	if f := flooded.Figures[0]; f.Value < 4.99 || f.Value > 5.01 || flooded.Barred() {
		t.Errorf("got %+v, want 5 %% more, and no bar", f)
	}
}

func TestRequestsMeasuresBareGatedAndLimited(t *testing.T) {
	b := &bench{settings: tiny(), report: &report.Report{}}
	if err := b.requests(t.Context()); err != nil {
		t.Fatal(err)
	}
	row := b.report.Rows[0]
	if len(row.Figures) != 2 || row.Unit != "%" || row.Bar.AtMost != 4 || row.Figures[0].Rival.Name == "" {
		t.Errorf("got %+v, want percents at 1 and 2 CPUs, and a limiter's beside", row)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.requests(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}
