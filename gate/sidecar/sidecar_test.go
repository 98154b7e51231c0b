package sidecar_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gatetest"
	"github.com/509da70d/floodgate/gate/sidecar"
	"github.com/509da70d/floodgate/schemas"
)

// loopback is what a sidecar usually trusts: the proxy beside it.
func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// newSidecar returns a sidecar for addresses and API keys, in which these callers are closed for a minute.
func newSidecar(t testing.TB, rec gatehttp.Recorder, closed ...string) *sidecar.Sidecar {
	t.Helper()
	var closures []gatetest.Closure
	for _, c := range closed {
		closures = append(closures, gatetest.Close(c, time.Minute))
	}
	return sidecar.New(sidecar.Options{
		Set: gatetest.Set(t, closures...), Recorder: rec,
		Callers: []gatehttp.CallerFunc{gatehttp.ClientIP(loopback()), gatehttp.Header("key", "X-Api-Key")},
	})
}

// dial serves the sidecar over gRPC in memory.
func dial(t testing.TB, s *sidecar.Sidecar) *grpc.ClientConn {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	s.Register(server)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	conn, err := grpc.NewClient("passthrough:memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(); server.Stop(); serving.Wait() })
	return conn
}

func TestProxiesAsk(t *testing.T) {
	const closedIP, closedKey = "203.0.113.9", "spent"
	tests := []struct {
		name, path, method, peer string
		header                   map[string]string
		status                   int
	}{
		{"Traefik about a closed address", "/auth", "GET", "127.0.0.1:5", map[string]string{"X-Forwarded-For": closedIP, "X-Forwarded-Uri": "/"}, 429},
		{"Traefik about another", "/auth", "GET", "127.0.0.1:5", map[string]string{"X-Forwarded-For": "203.0.113.10"}, 200},
		{"nginx about a closed address", "/auth_request", "GET", "127.0.0.1:5", map[string]string{"X-Forwarded-For": closedIP}, 403},
		{"nginx about another", "/auth_request", "POST", "127.0.0.1:5", map[string]string{"X-Forwarded-For": "203.0.113.10"}, 200},
		{"a proxy on a Unix socket", "/auth", "GET", "@", map[string]string{"X-Forwarded-For": closedIP}, 429},
		{"a closed key from an open address", "/auth", "DELETE", "127.0.0.1:5", map[string]string{"X-Forwarded-For": "192.0.2.1", "X-Api-Key": closedKey}, 429},
		{"the client's forgery before what the proxy wrote", "/auth", "GET", "127.0.0.1:5", map[string]string{"X-Forwarded-For": closedIP + ", 192.0.2.1"}, 200},
		{"a client that is no proxy and sends X-Forwarded-For", "/auth", "GET", "192.0.2.7:5", map[string]string{"X-Forwarded-For": closedIP}, 200},
		{"the same address in IPv6's words", "/auth", "GET", "127.0.0.1:5", map[string]string{"X-Forwarded-For": "::ffff:203.0.113.9"}, 429},
		{"a peer that is no address", "/auth", "GET", "nonsense", nil, 200},
		{"elsewhere", "/", "GET", "127.0.0.1:5", map[string]string{"X-Forwarded-For": closedIP}, 404},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newSidecar(t, nil, "ip:"+closedIP, "key:"+closedKey)
			r := httptest.NewRequestWithContext(t.Context(), test.method, test.path, http.NoBody)
			r.RemoteAddr = test.peer
			for name, value := range test.header {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			if w.Code != test.status {
				t.Fatalf("got %d, want %d", w.Code, test.status)
			}
			refused := test.status == 429 || test.status == 403
			if got := w.Header().Get("Retry-After"); (got == "60") != refused {
				t.Errorf("got Retry-After %q, want it on refusals alone", got)
			}
			var want sidecar.Answers
			if test.status != 404 {
				want.Asked = 1
			}
			if refused {
				want.Refused = 1
			}
			if got := s.Stats().HTTP; got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// With a recorder, each request that the sidecar is asked about is recorded, as blocked for callers whose own gate was closed.
func TestASidecarRecordsIfTheOptionSaysSo(t *testing.T) {
	var rec gatetest.Recorder
	s := newSidecar(t, &rec, "key:spent")
	for _, key := range []string{"fresh", "spent"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/auth?secret", http.NoBody)
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("X-Forwarded-For", "192.0.2.1")
		r.Header.Set("X-Api-Key", key)
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
	want := []gatetest.Event{
		{Caller: schemas.Caller{Kind: "ip", ID: "192.0.2.1"}},
		{Caller: schemas.Caller{Kind: "key", ID: "fresh"}},
		{Caller: schemas.Caller{Kind: "key", ID: "spent"}, Blocked: true},
	}
	if got := rec.Events(); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTheResourceIsWhatTheOptionSays(t *testing.T) {
	var rec gatetest.Recorder
	s := sidecar.New(sidecar.Options{
		Set: gate.New(gate.Options{}), Recorder: &rec, Callers: []gatehttp.CallerFunc{gatehttp.ClientIP(nil)},
		Resource: gatehttp.HeaderValue("X-Route"),
	})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/auth", http.NoBody)
	r.Header.Set("X-Route", "/v1/users/{id}")
	s.Handler().ServeHTTP(httptest.NewRecorder(), r)
	if got := rec.Events(); len(got) != 1 || got[0].Resource != "/v1/users/{id}" {
		t.Errorf("got %+v, want the route", got)
	}
}

func TestMistakesShowAtTheFirstStart(t *testing.T) {
	for name, o := range map[string]sidecar.Options{
		"no set":     {Callers: []gatehttp.CallerFunc{gatehttp.ClientIP(nil)}},
		"no callers": {Set: gate.New(gate.Options{})},
		"a bad kind": {Set: gate.New(gate.Options{}), Callers: []gatehttp.CallerFunc{gatehttp.Header("API key", "X")}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("got a sidecar, want a panic")
				}
			}()
			sidecar.New(o)
		})
	}
}

// BenchmarkAuth is one question over HTTP, without the network.
func BenchmarkAuth(b *testing.B) {
	h := newSidecar(b, nil, "ip:203.0.113.9").Handler()
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/auth", http.NoBody)
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}
