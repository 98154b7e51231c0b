package gatehttp_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gatetest"
)

// TestWhatARequestHolds: one request of key k that declares 500. Whatever becomes of it, its response names the arrival, and gives back
// what the arrival declared.
func TestWhatARequestHolds(t *testing.T) {
	const took = 3 * time.Second
	type recorded struct {
		arrivals, responses int // of the key
		status              int
		cost                int64
	}
	for name, test := range map[string]struct {
		closures []gatetest.Closure
		handler  http.HandlerFunc
		cost     func(*http.Request, int, int64) int64
		skip     bool
		plain    bool // the Recorder does not hold
		want     recorded
		declares int // how often Declared is called
	}{
		"a request": {want: recorded{1, 1, 200, 7}, declares: 1},
		"the handler panics": {
			handler: func(http.ResponseWriter, *http.Request) { <-time.After(took); panic(http.ErrAbortHandler) },
			want:    recorded{1, 1, 500, 7}, declares: 1,
		},
		"the handler panics in its stream": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "data: 1\n\n")
				<-time.After(took)
				panic(http.ErrAbortHandler)
			},
			want: recorded{1, 1, 200, 7}, declares: 1,
		},
		"the cost panics":               {cost: func(*http.Request, int, int64) int64 { panic(http.ErrAbortHandler) }, want: recorded{1, 1, 200, 0}, declares: 1},
		"nothing is known of the cost":  {cost: func(*http.Request, int, int64) int64 { return 0 }, want: recorded{1, 1, 200, 0}, declares: 1},
		"refused":                       {closures: []gatetest.Closure{gatetest.Close("key:k", time.Hour)}, want: recorded{arrivals: 1}},
		"refused for another caller":    {closures: []gatetest.Closure{gatetest.Close("ip:192.0.2.1", time.Hour)}},
		"refused in shadow":             {closures: []gatetest.Closure{gatetest.Shadow("key:k", time.Hour)}, want: recorded{1, 1, 200, 7}, declares: 1},
		"skipped":                       {skip: true},
		"by a Recorder that holds none": {plain: true, want: recorded{1, 1, 200, 7}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec, began, declares := gatetest.Recorder{Hold: !test.plain}, time.Now(), 0
				if test.handler == nil {
					test.handler = func(http.ResponseWriter, *http.Request) { <-time.After(took) }
				}
				if test.cost == nil {
					test.cost = func(*http.Request, int, int64) int64 { return 7 }
				}
				h := gatehttp.New(gatehttp.Options{
					Set: gatetest.Set(t, test.closures...), Recorder: &rec, Callers: byKey(), Cost: test.cost,
					Skip:     func(*http.Request) bool { return test.skip },
					Declared: func(*http.Request) int64 { declares++; return 500 },
				})(test.handler)
				func() {
					defer func() { _ = recover() }()
					get(h, http.MethodPost, "/v1/chat", "k")
				}()
				var got recorded
				for _, e := range rec.Events() {
					want := gatetest.Event{Declared: 500}
					if test.plain || e.Blocked {
						want.Declared = 0
					}
					if !test.plain && !e.Blocked {
						want.Arrived = began
					}
					if e.Declared != want.Declared || !e.Arrived.Equal(want.Arrived) {
						t.Errorf("got %+v, want declared %d, arrived %v", e, want.Declared, want.Arrived)
					}
					switch {
					case e.Caller.Kind != "key":
					case e.Response:
						got.responses, got.status, got.cost = got.responses+1, e.Status, e.Cost
					default:
						got.arrivals++
					}
				}
				if got != test.want || declares != test.declares {
					t.Errorf("got %+v and %d calls of Declared, want %+v and %d", got, declares, test.want, test.declares)
				}
			})
		})
	}
}

// TestAClientGoesAwayHalfWay: the response of a stream that its client leaves is recorded when the handler notices, with the cost that
// is known by then.
func TestAClientGoesAwayHalfWay(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		rec := gatetest.Recorder{Hold: true}
		srv := serve(t, &rec, http2, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, "data: 1\n\n")
				_ = http.NewResponseController(w).Flush()
				<-time.After(time.Millisecond)
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil)
		before := time.Now()
		resp, err := srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(resp.Body).ReadString('\n'); line != "data: 1\n" {
			t.Errorf("got %q and %v, want the first event", line, err)
		}
		cancel()
		_ = resp.Body.Close()
		if e := responded(t, &rec); e.Status != 200 || e.Cost < 9 || e.Arrived.Before(before) || e.Arrived.After(time.Now()) {
			t.Errorf("got %+v, want what was streamed, and when it arrived", e)
		}
	}
}

// TestAHijackedConnectionEndsWithItsHandler, which waits until the client has closed it.
func TestAHijackedConnectionEndsWithItsHandler(t *testing.T) {
	rec := gatetest.Recorder{Hold: true}
	srv := serve(t, &rec, false, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(io.Discard, rw)
	})
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, strings.NewReader(""))
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	resp, err := srv.Client().Do(r)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v and %v, want 101", resp, err)
	}
	if got := rec.Events(); len(got) != 1 || got[0].Response {
		t.Errorf("got %+v while the connection is open, want its arrival alone", got)
	}
	_ = resp.Body.Close()
	if e := responded(t, &rec); e.Status != http.StatusSwitchingProtocols || e.Arrived.IsZero() {
		t.Errorf("got %+v, want status 101 and when it arrived", e)
	}
}
