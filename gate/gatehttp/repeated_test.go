package gatehttp_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gatetest"
)

// A client that sends its key twice, or joined with another as proxies join them, is rejected where the server says so. It
// counts all the same, and a closed gate refuses it first.
func TestAFieldThatIsThereTwiceIsRejected(t *testing.T) {
	for _, test := range []struct {
		name   string
		header http.Header
		once   []string
		status int
		key    string // that counts
	}{
		{"once", http.Header{"X-Api-Key": {"abc"}}, []string{"x-api-key"}, 200, "abc"},
		{"never", nil, []string{"x-api-key"}, 200, ""},
		{"twice", http.Header{"X-Api-Key": {"abc", "other"}}, []string{"x-api-key"}, 400, "abc"},
		{"twice the same", http.Header{"X-Api-Key": {"abc", "abc"}}, []string{"x-api-key"}, 400, "abc"},
		{"twice, and empty", http.Header{"X-Api-Key": {"abc", ""}}, []string{"x-api-key"}, 400, "abc"},
		{"joined by a proxy", http.Header{"X-Api-Key": {"abc, other"}}, []string{"x-api-key"}, 400, "abc, other"},
		{"another field twice", http.Header{"X-Api-Key": {"abc"}, "X-Forwarded-For": {"1.1.1.1", "2.2.2.2"}}, []string{"x-api-key"}, 200, "abc"},
		{"one of two fields twice", http.Header{"X-Api-Key": {"abc"}, "X-Tenant": {"a", "b"}}, []string{"x-api-key", "x-tenant"}, 400, "abc"},
		{"twice without RejectRepeated", http.Header{"X-Api-Key": {"abc", "other"}}, nil, 200, "abc"},
		{"twice and closed", http.Header{"X-Api-Key": {"spent", "other"}}, []string{"x-api-key"}, 429, "spent"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var rec gatetest.Recorder
			handled := false
			h := gatehttp.New(gatehttp.Options{
				Set: gatetest.Set(t, gatetest.Close("key:spent", time.Minute)), Recorder: &rec,
				Callers: []gatehttp.CallerFunc{gatehttp.Header("key", "X-Api-Key")}, RejectRepeated: test.once,
			})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled = true }))
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
			r.Header = test.header
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != test.status || handled != (test.status == 200) {
				t.Errorf("got %d, handled %t, want %d", w.Code, handled, test.status)
			}
			events := rec.Events()
			if test.key == "" {
				if len(events) > 0 {
					t.Errorf("got %+v, want no request counted", events)
				}
				return
			}
			if len(events) == 0 || events[0].Caller.ID != test.key {
				t.Fatalf("got %+v, want key:%s counted", events, test.key)
			}
			ended := slices.IndexFunc(events, func(e gatetest.Event) bool { return e.Response })
			if (ended < 0) != (test.status == 429) || ended >= 0 && events[ended].Status != test.status {
				t.Errorf("got %+v, want an end with status %d", events, test.status)
			}
		})
	}
}
