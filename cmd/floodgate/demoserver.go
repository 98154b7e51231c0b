package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// keyHeader names the caller of a request to a demo server.
const keyHeader = "X-Api-Key"

// demoServer is a web server with a gate, as a user would embed it.
type demoServer struct {
	set      *gate.Set
	rec      *record.Recorder
	link     *kafkalink.Link
	listener net.Listener
	http     *http.Server
}

func newDemoServer(brokers []string, logger *slog.Logger, closes *closeWatch) (*demoServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	s := &demoServer{set: gate.New(gate.Options{Logger: logger}), rec: record.New(record.Options{}), listener: listener}
	s.link = kafkalink.New(s.set, s.rec, kafkalink.Config{
		Brokers: brokers, Logger: logger, Canary: 250 * time.Millisecond, Drain: 10 * time.Second, Observe: closes.applied,
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	s.http = &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: gatehttp.New(gatehttp.Options{
		Set: s.set, Recorder: s.rec, Callers: []gatehttp.CallerFunc{gatehttp.Header("key", keyHeader)},
	})(mux)}
	return s, nil
}

func (s *demoServer) url() string { return "http://" + s.listener.Addr().String() + "/hello" }

// run serves until ctx ends; then the link sends what was recorded.
func (s *demoServer) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.link.Run(ctx) })
	g.Go(func() error {
		defer context.AfterFunc(ctx, func() { _ = s.http.Close() })()
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	return g.Wait()
}

// fresh reports whether the gates hear the owners of all partitions.
func (s *demoServer) fresh() bool {
	status := s.set.Status()
	for _, p := range status.Partitions {
		if p.Freshness != gate.Fresh {
			return false
		}
	}
	return len(status.Partitions) > 0
}

// closeWatch is what the demo knows of closes: as counted by the analyzer, and as applied at the gates.
// Its methods may be called from any goroutine.
type closeWatch struct {
	mu     sync.Mutex
	until  map[string]int64         // guarded by mu: by caller, the newest close
	closes map[string]int           // guarded by mu
	worst  map[string]float64       // guarded by mu: largest overshoot of closes that have ended
	lags   []time.Duration          // guarded by mu: of closes, at each gate
	seen   map[schemas.Caller]int64 // guarded by mu: the newest close_at that was applied anywhere
}

func newCloseWatch() *closeWatch {
	return &closeWatch{
		until: make(map[string]int64), closes: make(map[string]int), worst: make(map[string]float64),
		seen: make(map[schemas.Caller]int64),
	}
}

// counted is told of each close that an owner publishes.
func (w *closeWatch) counted(c analyzer.Change, _ int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	caller := c.Caller.String()
	w.until[caller] = c.Closure.Until
	w.closes[caller]++
	w.worst[caller] = max(w.worst[caller], c.Before.Overshoot(c.Rule, c.Limit))
}

// applied is told of each decision in force at a gate. Its lag counts once per gate and close, not for repeats.
func (w *closeWatch) applied(d schemas.Decision, at time.Time) {
	if d.CloseAt != d.Evidence.AsOfTime || d.Until <= d.CloseAt {
		return // not a close, but a move or an end
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if lag := at.Sub(time.Unix(0, d.CloseAt)); lag < time.Minute {
		w.lags = append(w.lags, lag)
	}
	w.until[d.Caller.String()] = d.Until
}

// closedCaller is a caller that is closed now.
type closedCaller struct {
	caller string
	until  time.Time
}

// closed returns who is closed now, by name, so that lines of output can be compared.
func (w *closeWatch) closed(now time.Time) []closedCaller {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []closedCaller
	for caller, until := range w.until {
		if now.UnixNano() < until {
			list = append(list, closedCaller{caller, time.Unix(0, until)})
		}
	}
	slices.SortFunc(list, func(a, b closedCaller) int { return strings.Compare(a.caller, b.caller) })
	return list
}

// lag returns what was measured from the request that reached a limit to its caller being closed at a gate.
func (w *closeWatch) lag() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]time.Duration(nil), w.lags...)
}
