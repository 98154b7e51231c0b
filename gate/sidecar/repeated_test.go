package sidecar_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gatetest"
	"github.com/509da70d/floodgate/gate/sidecar"
)

// A client that sends its key twice is another caller for each key that it makes up. The sidecar rejects it if asked to, in
// the words of each proxy.
func TestAKeyThatIsThereTwiceIsRejected(t *testing.T) {
	for _, test := range []struct {
		name                     string
		keys                     []string
		auth, authRequest, envoy int // statuses; 200 passes
	}{
		{"once", []string{"abc"}, 200, 200, 200},
		{"twice", []string{"abc", "x1"}, 400, 403, 400},
		{"joined by a proxy", []string{"abc,x1"}, 400, 403, 400},
		{"closed", []string{"spent"}, 429, 403, 429},
	} {
		t.Run(test.name, func(t *testing.T) {
			var rec gatetest.Recorder
			s := sidecar.New(sidecar.Options{
				Set: gatetest.Set(t, gatetest.Close("key:spent", time.Minute)), Recorder: &rec,
				Callers: []gatehttp.CallerFunc{gatehttp.Header("key", "X-Api-Key")}, RejectRepeated: []string{"x-api-key"},
			})
			for path, want := range map[string]int{sidecar.PathAuth: test.auth, sidecar.PathAuthRequest: test.authRequest} {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
				r.Header["X-Api-Key"] = test.keys
				w := httptest.NewRecorder()
				s.Handler().ServeHTTP(w, r)
				if w.Code != want {
					t.Errorf("%s: got %d, want %d", path, w.Code, want)
				}
				if got := w.Header().Get("Retry-After"); (got != "") != (test.auth == 429) {
					t.Errorf("%s: got Retry-After %q, want it only where a gate is closed", path, got)
				}
			}
			joined := test.keys[0] // as Envoy joins them
			for _, k := range test.keys[1:] {
				joined += "," + k
			}
			got, err := authv3.NewAuthorizationClient(dial(t, s)).Check(t.Context(), checkRequest("192.0.2.1", map[string]string{"x-api-key": joined}))
			if err != nil {
				t.Fatal(err)
			}
			if denied := got.GetDeniedResponse(); (denied == nil) != (test.envoy == 200) || denied != nil && int(denied.GetStatus().GetCode()) != test.envoy {
				t.Errorf("Envoy: got %v, want %d", got, test.envoy)
			}
			want := map[int]sidecar.Answers{200: {Asked: 1}, 400: {Asked: 1, Rejected: 1}, 429: {Asked: 1, Refused: 1}}[test.auth]
			st := s.Stats()
			two := sidecar.Answers{Asked: 2, Refused: 2 * want.Refused, Rejected: 2 * want.Rejected}
			if st.Authz != want || st.HTTP != two {
				t.Errorf("got %+v, want %+v and twice that", st, want)
			}
			counts := make(map[string]int)
			for _, e := range rec.Events() {
				counts[e.Caller.ID]++
			}
			wantCounts := map[string]int{test.keys[0]: 3}
			if len(test.keys) > 1 {
				wantCounts = map[string]int{test.keys[0]: 2, joined: 1}
			}
			if !maps.Equal(counts, wantCounts) {
				t.Errorf("got %v counted, want %v", counts, wantCounts)
			}
		})
	}
}
