package gatetest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gatetest"
)

// How a server's own test closes a caller, and looks at what was recorded.
func Example() {
	noisyCallersAreRefused := func(t testing.TB) { // in your test: func TestNoisyCallersAreRefused(t *testing.T)
		t.Helper()
		set := gatetest.Set(t, gatetest.Close("ip:192.0.2.1", time.Minute))
		var rec gatetest.Recorder
		h := gatehttp.New(gatehttp.Options{
			Set: set, Recorder: &rec, Callers: []gatehttp.CallerFunc{gatehttp.ClientIP(nil)},
		})(http.NotFoundHandler())

		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil)) // from 192.0.2.1
		fmt.Println(w.Code, rec.Events()[0].Caller, rec.Events()[0].Blocked)
	}
	noisyCallersAreRefused(&testing.B{})
	// Output: 429 ip:192.0.2.1 true
}
