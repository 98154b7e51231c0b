package sidecar_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gatetest"
	"github.com/509da70d/floodgate/gate/sidecar"
	"github.com/509da70d/floodgate/schemas/gateview"
)

// askCaller asks a sidecar what it holds about a caller.
func askCaller(t *testing.T, s *sidecar.Sidecar, caller string) (gateview.Caller, *httptest.ResponseRecorder) {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, sidecar.PathCaller+"?caller="+url.QueryEscape(caller), nil))
	var v gateview.Caller
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
			t.Fatalf("%s: got %q: %v", caller, w.Body, err)
		}
	}
	return v, w
}

func TestASidecarSaysWhatItBelieves(t *testing.T) {
	set := gatetest.Set(t, gatetest.Close("key:noisy", time.Minute), gatetest.Close("ip:2001:db8:0:1::", time.Minute))
	s := sidecar.New(sidecar.Options{Set: set, Callers: []gatehttp.CallerFunc{gatehttp.ClientIP(nil)}})
	v, w := askCaller(t, s, "key:noisy")
	if !v.Refused || v.Kind != "key" || v.ID != "noisy" || v.Mode != "enforce" || len(v.Decisions) != 1 || !v.Decisions[0].InForce ||
		v.Decisions[0].Mode != "enforce" || !v.Decisions[0].Until.After(v.Now) || v.Policy != "hold" {
		t.Errorf("got %+v, want closed", v)
	}
	if got := w.Header().Get("Content-Type") + " " + w.Header().Get("Cache-Control"); got != "application/json no-store" {
		t.Errorf("got header %q", got)
	}
	if v, _ := askCaller(t, s, "key:quiet"); v.Refused || v.Decisions == nil || len(v.Decisions) != 0 {
		t.Errorf("got %+v, want no decisions", v)
	}
	if v, _ := askCaller(t, s, "ip:2001:db8:0:1:2:3:4:5"); v.ID != "2001:db8:0:1::" || !v.Refused {
		t.Errorf("got %+v, want the network of the address", v)
	}
	if v, _ := askCaller(t, s, "net:203.0.113.9"); v.ID != "203.0.113.0/24" {
		t.Errorf("got %+v, want the network of the address", v)
	}
	set.SetMode(gate.Shadow)
	if v, _ := askCaller(t, s, "key:noisy"); v.Refused || v.Mode != "shadow" || len(v.Decisions) != 1 {
		t.Errorf("in mode shadow: got %+v", v)
	}
	if st := set.Status(); len(st.Refusals) > 0 && (st.Refusals[0].Refused != 0 || st.Refusals[0].Shadow != 0) {
		t.Errorf("who asks is counted: %+v", st.Refusals)
	}
}

// Ids are bytes, and may hold anything: nothing breaks the answer, and what is no caller is refused.
func TestASidecarIsAskedAboutAnything(t *testing.T) {
	set := gatetest.Set(t, gatetest.Close("key:\xff\x00../%2f\n", time.Minute))
	s := sidecar.New(sidecar.Options{Set: set, Callers: []gatehttp.CallerFunc{gatehttp.ClientIP(nil)}})
	v, _ := askCaller(t, s, "key:\xff\x00../%2f\n")
	if !v.Refused || string(v.IDBase64) != "\xff\x00../%2f\n" {
		t.Errorf("got %+v, want closed, and the id in base64", v)
	}
	for _, bad := range []string{"", "key", "key:", ":x", "KEY:x", "key:" + string(make([]byte, 300))} {
		if _, w := askCaller(t, s, bad); w.Code != http.StatusBadRequest {
			t.Errorf("%.20q: got status %d, want 400", bad, w.Code)
		}
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, sidecar.PathCaller+"?caller=key:a", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: got status %d, want 405", w.Code)
	}
}
