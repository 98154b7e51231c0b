package httpd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// begin runs a server on loopback. Stop ends it, and returns what Run returned; it is called at the latest when the test ends.
func begin(t *testing.T, s *Server) (url string, stop func() error) {
	t.Helper()
	if err := s.Listen("listen", "127.0.0.1:0", slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running errgroup.Group
	running.Go(func() error { return s.Run(ctx) })
	stop = func() error { cancel(); return running.Wait() }
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("got %v from Run, want nil", err)
		}
	})
	return "http://" + s.Address(), stop
}

// get returns status and body.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// TestTheServerIsBounded: large headers, slow readers and other methods get nowhere.
func TestTheServerIsBounded(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	url, _ := begin(t, s)
	for _, c := range []struct {
		method, path string
		header       int
		want         int
	}{
		{http.MethodGet, "/healthz", 0, 200}, {http.MethodHead, "/healthz", 0, 200}, {http.MethodGet, "/metrics", 0, 200}, {http.MethodGet, "/readyz", 0, 503},
		{http.MethodPost, "/healthz", 0, 405}, {http.MethodDelete, "/metrics", 0, 405}, {http.MethodGet, "/", 0, 404}, {http.MethodGet, "/debug/pprof/", 0, 404},
		{http.MethodGet, "/healthz", 64 << 10, 431},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, url+c.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Large", strings.Repeat("x", c.header))
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Errorf("%s %s: got %v, want %d", c.method, c.path, err, c.want)
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s %s: got %d, want %d", c.method, c.path, resp.StatusCode, c.want)
		}
	}
	for name, timeout := range map[string]time.Duration{
		"headers": s.http.ReadHeaderTimeout, "reading": s.http.ReadTimeout, "writing": s.http.WriteTimeout, "idling": s.http.IdleTimeout,
	} {
		if timeout <= 0 || timeout > time.Minute {
			t.Errorf("%s: got a timeout of %v, want one", name, timeout)
		}
	}
}

// TestBoundsAreThoseOfTheConfig, where it names some.
func TestBoundsAreThoseOfTheConfig(t *testing.T) {
	s := New(Config{WriteTimeout: 7 * time.Second, IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 64 << 10})
	if got := fmt.Sprint(s.http.WriteTimeout, s.http.IdleTimeout, s.http.MaxHeaderBytes); got != "7s 5m0s 65536" {
		t.Errorf("got %s, want what the config says", got)
	}
}

// TestARouteIsOneLine: a daemon adds routes beside those that every daemon has, and can't take those away by mistake.
func TestARouteIsOneLine(t *testing.T) {
	s := New(Config{})
	s.Handle("GET /callers/{id}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "caller ", r.PathValue("id")) }))
	url, _ := begin(t, s)
	if status, body := get(t, url+"/callers/7"); status != http.StatusOK || body != "caller 7" {
		t.Errorf("got %d %q, want the route's answer", status, body)
	}
	if status, body := get(t, url+"/healthz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("healthz: got %d %q, want ok", status, body)
	}
	defer func() {
		if recover() == nil {
			t.Error("a second /metrics: got no panic, want one")
		}
	}()
	s.Handle("GET /metrics", http.NotFoundHandler())
}

// TestReportTakesThePlaceOfTheOneBefore: an analyzer that starts anew shows its own metrics, and waits anew.
func TestReportTakesThePlaceOfTheOneBefore(t *testing.T) {
	gauge := func(name string) prometheus.Collector {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "A test."})
	}
	s := New(Config{})
	url, _ := begin(t, s)
	if status, body := get(t, url+"/readyz"); status != http.StatusServiceUnavailable || body != "not ready: waiting for Kafka\n" {
		t.Errorf("before: got %d %q", status, body)
	}
	for life, want := range []string{"", "see first", ""} {
		s.Report(func(time.Time) string { return want }, gauge(fmt.Sprint("life_", life)), gauge("same"))
		status, body := get(t, url+"/readyz")
		if want == "" && (status != http.StatusOK || body != "ok\n") || want != "" && (status != http.StatusServiceUnavailable || body != "not ready: "+want+"\n") {
			t.Errorf("life %d: got %d %q", life, status, body)
		}
		_, metrics := get(t, url+"/metrics")
		if strings.Count(metrics, "\nlife_") != 1 || !strings.Contains(metrics, fmt.Sprintf("\nlife_%d 0", life)) || !strings.Contains(metrics, "\nsame 0") {
			t.Errorf("life %d: got\n%s\nwant its own metrics and no others", life, metrics)
		}
		if !strings.Contains(metrics, "\ngo_goroutines ") {
			t.Errorf("life %d: got no metrics of the runtime", life)
		}
	}
}

// TestMetricsOfTheConfigStay, whatever is reported later.
func TestMetricsOfTheConfigStay(t *testing.T) {
	metric := func(name string) prometheus.Collector { return prometheus.NewGauge(prometheus.GaugeOpts{Name: name}) }
	s := New(Config{Metrics: []prometheus.Collector{metric("always"), metric("always_too")}})
	url, _ := begin(t, s)
	for _, reported := range []string{"", "first", "second"} {
		if reported != "" {
			s.Report(func(time.Time) string { return "" }, metric(reported))
		}
		_, body := get(t, url+"/metrics")
		for name, want := range map[string]bool{"always": true, "always_too": true, "first": reported == "first", "second": reported == "second"} {
			if got := strings.Contains(body, "\n"+name+" 0\n"); got != want {
				t.Errorf("after the report of %q: got %s %t, want %t", reported, name, got, want)
			}
		}
	}
}

// TestARunningRequestHasItsAnswer although the server was asked to stop meanwhile; Run returns after it.
func TestARunningRequestHasItsAnswer(t *testing.T) {
	s := New(Config{})
	arrived, goOn := make(chan struct{}), make(chan struct{})
	s.Handle("GET /slow", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-goOn
		fmt.Fprint(w, "done")
	}))
	url, stop := begin(t, s)
	answer, stopped := make(chan string, 1), make(chan error, 1)
	go func() {
		_, body := get(t, url+"/slow")
		answer <- body
	}()
	<-arrived
	closed := make(chan struct{})
	s.http.RegisterOnShutdown(func() { close(closed) })
	go func() { stopped <- stop() }()
	<-closed // it no longer listens; another program may have its port by now
	select {
	case err := <-stopped:
		t.Fatalf("got %v from Run before the answer", err)
	default:
	}
	close(goOn)
	if body := <-answer; body != "done" {
		t.Errorf("got %q, want the answer", body)
	}
	if err := <-stopped; err != nil {
		t.Errorf("got %v from Run, want nil", err)
	}
}

// TestARequestThatNeverEndsIsCutOff: the server stops nevertheless.
func TestARequestThatNeverEndsIsCutOff(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	arrived := make(chan struct{})
	s.Handle("GET /endless", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done() // the connection's end
	}))
	url, stop := begin(t, s)
	failed := make(chan error, 1)
	go func() {
		resp, err := http.Get(url + "/endless")
		if err == nil {
			_ = resp.Body.Close()
		}
		failed <- err
	}()
	<-arrived
	if err := stop(); err != nil {
		t.Errorf("got %v from Run, want nil", err)
	}
	if err := <-failed; err == nil {
		t.Error("got an answer, want the connection cut")
	}
}

// TestAServerThatCannotListen says why, and where.
func TestAServerThatCannotListen(t *testing.T) {
	s := New(Config{})
	begin(t, s)
	err := New(Config{}).Listen("listen", s.Address(), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), s.Address()) {
		t.Errorf("got %v, want the address that is in use", err)
	}
	closed := New(Config{})
	if err := closed.Listen("listen", "127.0.0.1:0", slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	_ = closed.listener.Close()
	if err := closed.Run(t.Context()); err == nil {
		t.Error("Run of a closed listener: got nil, want an error")
	}
}
