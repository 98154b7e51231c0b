package gatehttp_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// A server whose requests are counted, and refused when a gate is closed, by address and by API key.
func Example() {
	set := gate.New(gate.Options{})
	rec := record.New(record.Options{})
	// link, err := kafkalink.Open(set, rec, kafkalink.Config{Brokers: brokers}) brings decisions and takes records.

	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "item", r.PathValue("id"))
	})
	srv := httptest.NewServer(gatehttp.New(gatehttp.Options{
		Set: set, Recorder: rec,
		Callers: []gatehttp.CallerFunc{gatehttp.ClientIP(nil), gatehttp.Header("key", "X-Api-Key")},
	})(mux))
	defer srv.Close()

	ask := func(key string) {
		req, _ := http.NewRequest(http.MethodGet, srv.URL+"/items/7", nil)
		req.Header.Set("X-Api-Key", key)
		resp, err := srv.Client().Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer resp.Body.Close()
		fmt.Printf("%s %d %q\n", key, resp.StatusCode, resp.Header.Get("RateLimit-Policy"))
	}
	ask("abc")
	now := time.Now()
	set.Apply([]schemas.Decision{{ // as the link does
		Rule: "per-key", Caller: schemas.Caller{Kind: "key", ID: "abc"}, Mode: schemas.ModeEnforce,
		CloseAt: now.UnixNano(), Until: now.Add(time.Minute).UnixNano(),
		Evidence: schemas.Evidence{Limit: 100, Window: int64(time.Minute)},
	}})
	ask("abc")
	ask("def")
	// Output:
	// abc 200 ""
	// abc 429 "\"per-key\";q=100;w=60"
	// def 200 ""
}

// Behind proxies, name them: the address is then the last one that they did not write about themselves.
func ExampleClientAddr() {
	addr := gatehttp.ClientAddr([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	r := &http.Request{RemoteAddr: "10.1.2.3:80", Header: http.Header{
		"X-Forwarded-For": {"127.0.0.1, 203.0.113.9, 10.4.5.6"}, // the client wrote 127.0.0.1
	}}
	fmt.Println(addr(r))
	// Output: 203.0.113.9
}

// One route for one address, by a composite caller; and a key that is not sent to Kafka as it is: it is hashed with a secret.
func ExampleComposite() {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", func(http.ResponseWriter, *http.Request) {})
	hash, err := schemas.NewIDHasher([]string{"key"}, []byte("of a file: 32 random bytes or more"))
	if err != nil {
		fmt.Println(err)
		return
	}
	set := gate.New(gate.Options{IDs: schemas.IDs{Hash: hash}})
	h := gatehttp.New(gatehttp.Options{Set: set, Callers: []gatehttp.CallerFunc{
		gatehttp.Composite("ip_route", gatehttp.IP(set, nil), gatehttp.Route),
		gatehttp.Header("key", "X-Api-Key"),
	}})(mux)

	now := time.Now()
	set.Apply([]schemas.Decision{{
		Rule: "logins", Caller: schemas.Caller{Kind: "ip_route", ID: "192.0.2.1|POST /login"}, Mode: schemas.ModeEnforce,
		CloseAt: now.UnixNano(), Until: now.Add(time.Minute).UnixNano(),
	}})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/login", nil))
	fmt.Println(w.Code)
	// Output: 429
}

// Try rules on real traffic first: in mode Shadow nothing is refused.
func ExampleOptions_shadow() {
	logger := slog.New(slog.DiscardHandler)
	set := gate.New(gate.Options{Mode: gate.Shadow, Logger: logger})
	wouldBlock := 0
	h := gatehttp.New(gatehttp.Options{
		Set: set, Callers: []gatehttp.CallerFunc{gatehttp.ClientIP(nil)},
		OnShadow: func(r *http.Request, v gate.Verdict) {
			wouldBlock++
			logger.InfoContext(r.Context(), "would have been refused", "caller", v.Caller, "rule", v.Rule)
		},
	})(http.NotFoundHandler())

	now := time.Now()
	set.Apply([]schemas.Decision{{
		Rule: "per-ip", Caller: schemas.Caller{Kind: "ip", ID: "192.0.2.1"}, Mode: schemas.ModeEnforce,
		CloseAt: now.UnixNano(), Until: now.Add(time.Minute).UnixNano(),
	}})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Code, wouldBlock)
	// Output: 404 1
}

// costKey is the key of a request's cost in its context.
type costKey struct{}

// Costs that are known after the response, such as the tokens of a language model: a middleware in front of the gates makes a place
// for them in the context of the request, the handler fills it, and Options.Cost reads it. The Recorder must want responses.
func ExampleOptions_cost() {
	set, rec := gate.New(gate.Options{}), record.New(record.Options{Responses: true})
	gates := gatehttp.New(gatehttp.Options{
		Set: set, Recorder: rec, Callers: []gatehttp.CallerFunc{gatehttp.Header("key", "X-Api-Key")},
		Cost: func(r *http.Request, _ int, _ int64) int64 {
			cost, _ := r.Context().Value(costKey{}).(*int64)
			if cost == nil {
				return 0
			}
			return *cost
		},
	})
	place := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), costKey{}, new(int64))))
		})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /complete", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "an answer of 812 tokens")
		if cost, ok := r.Context().Value(costKey{}).(*int64); ok {
			*cost = 812
		}
	})

	r := httptest.NewRequest(http.MethodPost, "/complete", nil)
	r.Header.Set("X-Api-Key", "abc")
	place(gates(mux)).ServeHTTP(httptest.NewRecorder(), r)
	rec.Drain(func(_ uint64, e *schemas.Entry) { // as the link does
		fmt.Println(e.Caller(), e.Resource, "response:", e.Response, "cost:", e.Cost)
	})
	// Unordered output:
	// key:abc POST /complete response: false cost: 0
	// key:abc POST /complete response: true cost: 812
}
