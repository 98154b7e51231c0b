package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gatetest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// goes runs f until the test ends, and expects that to be clean.
func goes(t *testing.T, what string, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: got %v, want a clean end", what, err)
			}
		case <-time.After(30 * time.Second):
			t.Errorf("%s goes on 30 s after it was to end", what)
		}
	})
}

// start serves until the test ends, and returns the URLs of the application and of its metrics.
func start(t *testing.T, broker string) (app, metrics string) {
	t.Helper()
	var ls [2]net.Listener
	for i := range ls {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ls[i] = l
	}
	goes(t, "serve", func(ctx context.Context) error { return serve(ctx, ls[0], ls[1], []string{broker}) })
	return "http://" + ls[0].Addr().String(), "http://" + ls[1].Addr().String()
}

// get returns the answer to one request with an API key.
func get(t *testing.T, url, key string) (status int, body string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

// eventually waits until done.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited too long for: %s", what)
		}
	}
}

// analyze runs a broker and an analyzer until the test ends, and returns the broker's address.
func analyze(t *testing.T, file string) string {
	t.Helper()
	broker, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Close() })
	c := kafkaio.New(kafkaio.Config{Brokers: []string{broker.Addr()}})
	t.Cleanup(c.Close)
	names := schemas.DefaultTopicNames()
	if _, err := c.EnsureTopics(t.Context(), kafkaio.Specs(names, 2)...); err != nil {
		t.Fatal(err)
	}
	set, err := rules.Parse("test", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	a := analyzer.New(c, analyzer.Config{
		Dir: t.TempDir(),
		Join: func() (analyzer.Membership, error) {
			return kafkaio.NewGroup(kafkaio.GroupConfig{Client: c, Group: "test", Topic: names.Requests})
		},
		Owner: analyzer.OwnerConfig{
			Fold:     fold.Options{Partitions: 2},
			Requests: names.Requests, Decisions: names.Decisions, Control: names.Control, Rules: set, Name: "test",
			Store: store.Options{Logger: quiet}, Logger: quiet,
		},
	})
	goes(t, "analyzer", a.Run)
	return broker.Addr()
}

// The whole of floodgate behind chi: the server's requests go through Kafka to an analyzer, and its decisions come back.
func TestALimitOfOneRouteIsKept(t *testing.T) {
	const limit = 20
	app, metrics := start(t, analyze(t, fmt.Sprintf(`
version: 1
rules:
  - {name: searches, callers: ip_route, limit: %d, window: 1h, match: {resource: "GET /v1/*"}}
`, limit)))
	sees := func(what string) bool {
		_, body, _ := get(t, metrics, "")
		return strings.Contains(body, what)
	}
	eventually(t, "decisions to be fresh", func() bool { return sees(`floodgate_gate_partitions{freshness="fresh"} 2`) })
	for i := range limit {
		if status, body, _ := get(t, app+"/v1/search", "k"); status != http.StatusOK || body != "found nothing\n" {
			t.Fatalf("request %d of %d: got %d %q, want 200", i+1, limit, status, body)
		}
	}
	eventually(t, "the route's gate to close", func() bool {
		status, _, header := get(t, app+"/v1/search", "k")
		return status == http.StatusTooManyRequests && header.Get("Retry-After") != "" &&
			strings.HasPrefix(header.Get("RateLimit-Policy"), `"searches";q=20`)
	})
	if status, body, _ := get(t, app+"/items/7", "k"); status != http.StatusOK || body != "an item\n" {
		t.Errorf("another route: got %d %q, want 200", status, body)
	}
	for _, want := range []string{
		`floodgate_gate_closed_callers{kind="ip_route",mode="enforce"} 1`, `floodgate_gate_closed_callers{kind="key",mode="enforce"} 0`,
		"floodgate_link_up 1",
	} {
		if !sees(want) {
			t.Errorf("metrics: want %s", want)
		}
	}
}

func TestServesWithoutKafka(t *testing.T) {
	app, metrics := start(t, "127.0.0.1:1")
	for range 100 {
		if status, _, _ := get(t, app+"/items/1", "k"); status != http.StatusOK {
			t.Fatalf("got status %d, want 200: gates are open until they hear otherwise", status)
		}
	}
	_, body, _ := get(t, metrics, "")
	for _, want := range []string{"floodgate_link_up 0", "floodgate_recorder_requests_accepted_total 300"} { // 3 callers
		if !strings.Contains(body, want) {
			t.Errorf("metrics: want %s in\n%s", want, body)
		}
	}
}

// What is recorded is the route, not what the client made up.
func TestRoutesAreNamedBeforeTheGates(t *testing.T) {
	set := gatetest.Set(t, gatetest.Close("ip_route:192.0.2.1|POST /v1/login", time.Minute))
	var rec gatetest.Recorder
	h := routes(gatehttp.New(gatehttp.Options{Set: set, Recorder: &rec, Callers: []gatehttp.CallerFunc{
		gatehttp.Header("key", "X-Api-Key"), gatehttp.Composite("ip_route", gatehttp.IP(set, nil), gatehttp.Route),
	}}))
	for _, p := range []struct {
		method, path string
		status       int
		resource     string
	}{
		{"GET", "/items/7", 200, "GET /items/{id}"},
		{"GET", "/items/a%2Fb", 200, "GET /items/{id}"},
		{"GET", "/v1/search", 200, "GET /v1/search"},
		{"POST", "/v1/login", 429, "POST /v1/login"},
		{"GET", "/v1/login", 405, ""},
		{"BREW", "/v1/search", 405, ""},
		{"GET", "/v1/made-up", 404, ""},
		{"GET", "/made/up", 404, ""},
		{"GET", "/", 404, ""},
	} {
		rec.Reset()
		r := httptest.NewRequest(p.method, p.path, nil)
		r.Header.Set("X-Api-Key", "k")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != p.status {
			t.Errorf("%s %s: got %d, want %d", p.method, p.path, w.Code, p.status)
		}
		if got := rec.Events()[0].Resource; got != p.resource {
			t.Errorf("%s %s: got resource %q, want %q", p.method, p.path, got, p.resource)
		}
	}
}

func TestAddressesThatAreTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, taken := range []string{"LISTEN", "METRICS"} {
		env := map[string]string{"LISTEN": "127.0.0.1:0", "METRICS": "127.0.0.1:0", taken: l.Addr().String()}
		if err := realMain(t.Context(), func(k string) string { return env[k] }); err == nil {
			t.Errorf("%s is taken: got no error", taken)
		}
	}
}
