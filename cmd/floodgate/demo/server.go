package demo

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

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// keyHeader names the caller of a request to a demo server.
const keyHeader = "X-Api-Key"

// server is a web server with a gate, as a user would embed it.
type server struct {
	set      *gate.Set
	rec      *record.Recorder
	link     *kafkalink.Link
	listener net.Listener
	http     *http.Server
}

func newServer(brokers []string, logger *slog.Logger, closes *closeWatch) (*server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	s := &server{set: gate.New(gate.Options{Logger: logger}), rec: record.New(record.Options{}), listener: listener}
	s.link, err = kafkalink.Open(s.set, s.rec, kafkalink.Config{
		Brokers: brokers, Logger: logger, Canary: 250 * time.Millisecond, Drain: 10 * time.Second, Observe: closes.gate(),
	})
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	s.http = &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: gatehttp.New(gatehttp.Options{
		Set: s.set, Recorder: s.rec, Callers: []gatehttp.CallerFunc{gatehttp.Header("key", keyHeader)},
	})(mux)}
	return s, nil
}

func (s *server) url() string { return "http://" + s.listener.Addr().String() + "/hello" }

// run serves until ctx ends; then the link sends what was recorded.
func (s *server) run(ctx context.Context) error {
	defer s.link.Close()
	defer context.AfterFunc(ctx, func() { _ = s.http.Close() })()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// fresh reports whether all partitions have a recent heartbeat.
func (s *server) fresh() bool {
	status := s.set.Status()
	for _, p := range status.Partitions {
		if p.Freshness != gate.Fresh {
			return false
		}
	}
	return len(status.Partitions) > 0
}

// closeWatch records closes twice: when the analyzer publishes them, and when gates apply them. Its methods may be called
// from any goroutine.
type closeWatch struct {
	mu     sync.Mutex
	until  map[string]int64   // guarded by mu: by caller, the newest close
	closes map[string]int     // guarded by mu
	worst  map[string]float64 // guarded by mu: largest overshoot of closes that have ended
	lags   []time.Duration    // guarded by mu: of closes, at each gate
	halves []half             // guarded by mu: in order
}

func newCloseWatch() *closeWatch {
	return &closeWatch{until: make(map[string]int64), closes: make(map[string]int), worst: make(map[string]float64)}
}

// counted is called for each close that an owner publishes.
func (w *closeWatch) counted(c fold.Change, _ int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	caller := c.Caller.String()
	w.until[caller] = c.Closure.Until
	w.closes[caller]++
	if c.Before.Nth > 0 {
		over := c.Before.Overshoot(c.Rule, c.Limit)
		w.worst[caller] = max(w.worst[caller], over)
		w.ended(c.Before.CloseAt, over)
	}
}

// gate returns a function that a gate calls for each decision that it has applied. The lag of a close is measured once at each gate, at
// the first decision that carries the close; that decision may have moved its end already. Repeats, moved ends and predictions are not
// measured.
func (w *closeWatch) gate() func(d schemas.Decision, at time.Time) {
	newest := make(map[schemas.Caller]int64) // guarded by w.mu: the newest CloseAt that this gate applied
	return func(d schemas.Decision, at time.Time) {
		if d.Early || d.Until <= d.CloseAt {
			return // the decision predicts or ends a closure
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if d.CloseAt <= newest[d.Caller] {
			return
		}
		newest[d.Caller] = d.CloseAt
		if lag := at.Sub(time.Unix(0, d.CloseAt)); lag < time.Minute {
			w.lags = append(w.lags, lag)
		}
		w.until[d.Caller.String()] = d.Until
	}
}

// closedCaller is a caller that is closed now.
type closedCaller struct {
	caller string
	until  time.Time
}

// closed returns the callers that are closed now, sorted by name, so that lines of output can be compared.
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

// lag returns the distribution of the time from the request that reaches a limit until its caller is closed at a gate.
func (w *closeWatch) lag() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]time.Duration(nil), w.lags...)
}
