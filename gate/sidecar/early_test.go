package sidecar_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gatetest"
	"github.com/509da70d/floodgate/gate/sidecar"
)

// What a sidecar refuses on an early closure, it records as blocked early.
func TestEarlyClosuresRefuse(t *testing.T) {
	var rec gatetest.Recorder
	s := sidecar.New(sidecar.Options{
		Set: gatetest.Set(t, gatetest.Early("key:fast", time.Minute)), Recorder: &rec,
		Callers: []gatehttp.CallerFunc{gatehttp.ClientIP(loopback()), gatehttp.Header("key", "X-Api-Key")},
	})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/auth", http.NoBody)
	r.RemoteAddr = "127.0.0.1:5"
	r.Header.Set("X-Api-Key", "fast")
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusTooManyRequests || s.Stats().HTTP.Refused != 1 {
		t.Errorf("got %d, %+v, want 429, counted as refused", w.Code, s.Stats().HTTP)
	}
	events := rec.Events()
	if len(events) != 1 || events[0].Caller.String() != "key:fast" || !events[0].Blocked || !events[0].Early {
		t.Errorf("got %+v recorded, want the key's request, blocked early", events)
	}
}
