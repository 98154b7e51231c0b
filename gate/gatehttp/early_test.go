package gatehttp_test

import (
	"net/http"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gatetest"
)

// A client that an early closure refuses is told the end of that closure, and its request is recorded as blocked early.
func TestEarlyClosuresRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec arrivals
		set := gatetest.Set(t, gatetest.Early("key:fast", 1500*time.Millisecond))
		h := gatehttp.New(gatehttp.Options{Set: set, Recorder: &rec, Callers: byKey()})(shop())
		w := get(h, "GET", "/items/7", "fast")
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "2" {
			t.Errorf("got %d, Retry-After %q, want 429 and 2, the whole seconds until the end", w.Code, w.Header().Get("Retry-After"))
		}
		want := []gatetest.Event{event("key:fast", gatetest.Event{Resource: "GET /items/{id}", Blocked: true, Early: true})}
		if got := rec.Events(); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v recorded, want %+v", got, want)
		}
		<-time.After(1500 * time.Millisecond)
		if w := get(h, "GET", "/items/7", "fast"); w.Code != http.StatusOK {
			t.Errorf("got %d at the end of the closure, want 200", w.Code)
		}
		if st := set.Status(); len(st.Refusals) != 1 || st.Refusals[0].Refused != 1 {
			t.Errorf("got refusals %+v, want one of the rule", st.Refusals)
		}
	})
}
