package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas/gateview"
)

// fakeAPI answers as an analyzer does, always the same. It notes what it was asked.
type fakeAPI struct {
	*httptest.Server

	mu    sync.Mutex
	asked []string // method, path and query, and body
	keys  []string // Idempotency-Key of each POST
	fails int      // so many POSTs are answered with 503
}

var apiNoon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func apiAt(seconds float64) time.Time {
	return apiNoon.Add(time.Duration(seconds * float64(time.Second)))
}

// serveAPI starts one.
func serveAPI(t *testing.T) *fakeAPI {
	t.Helper()
	f := startAPI()
	t.Cleanup(f.Close)
	return f
}

func startAPI() *fakeAPI {
	f := &fakeAPI{}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	return f
}

func (f *fakeAPI) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.asked
	f.asked = nil
	return asked
}

func (f *fakeAPI) note(r *http.Request, body []byte) (fail bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body)))
	if r.Method == http.MethodPost {
		f.keys = append(f.keys, r.Header.Get("Idempotency-Key"))
		if f.fails > 0 {
			f.fails--
			return true
		}
	}
	return false
}

func (f *fakeAPI) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a test's own
	if f.note(r, body) {
		refuse(w, apiv1.Problem{Title: "Service Unavailable", Status: 503, Detail: "Kafka did not confirm the record"})
		return
	}
	answers := map[string]any{
		"/v1/status": apiStatus(), "/v1/explain": apiExplanation(), "/v1/decisions": apiDecisionsOf(r.URL.Query()),
		"/v1/actions": apiActions(r.URL.Query().Get("state")), "/v1/rules/versions": apiVersions(), "/v1/try": apiTry(),
	}
	switch path := r.URL.Path; {
	case path == "/v1/callers" && (r.URL.Query().Get("sort") == "rate" || r.URL.Query().Get("sort") == "blocked"):
		give(w, 200, apiBusy())
	case path == "/v1/callers" && r.Header.Get("Accept") == "application/x-ndjson":
		w.Header().Set("Content-Type", "application/x-ndjson")
		for _, piece := range apiAllCallers() {
			_ = json.NewEncoder(w).Encode(piece) // a test's own
		}
	case path == "/v1/callers":
		give(w, 200, apiCallers())
	case path == "/v1/rules":
		f.serveRules(w, r.URL.Query().Get("version"))
	case path == "/v1/rules/diff":
		give(w, 200, apiDiff(r.URL.Query().Get("from"), r.URL.Query().Get("to")))
	case path == "/v1/decisions/stream":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, apiStream(r.Header.Get("Last-Event-ID")))
	case path == "/caller":
		give(w, 200, gateview.Caller{Kind: "key", ID: "noisy-1", Now: apiNoon, Mode: "enforce", Policy: "hold", Fresh: 3, Stale: 1, AgeNS: 7e9})
	case answers[path] != nil:
		give(w, 200, answers[path])
	case r.Method == http.MethodPost:
		serveAction(w, strings.TrimPrefix(path, "/v1/"), body, r.Header.Get("Idempotency-Key"))
	default:
		refuse(w, apiv1.Problem{Title: "Not Found", Status: 404, Detail: "there is no such route"})
	}
}

// serveAction echoes what was decided by hand.
func serveAction(w http.ResponseWriter, action string, body []byte, id string) {
	var q struct {
		Caller       *apiv1.Caller
		Rule, Reason string
		ID           string
		Limit        int64
		Until        time.Time
	}
	if err := json.Unmarshal(body, &q); err != nil {
		refuse(w, apiv1.Problem{Title: "Bad Request", Status: 400, Detail: err.Error()})
		return
	}
	a := apiv1.Action{ID: id, Time: apiNoon, Author: "alice", Reason: q.Reason, Action: action, Caller: q.Caller, Rule: q.Rule, Limit: q.Limit, Until: q.Until, Target: q.ID}
	switch {
	case q.Caller != nil && q.Caller.ID == "slow":
		a.State = apiv1.StateWaiting
		give(w, 202, apiv1.ActionAnswer{Waiting: []int{3}, Action: a})
	case q.Caller != nil && strings.Contains(q.Caller.ID, "*"):
		refuse(w, apiv1.Problem{Title: "Unprocessable Entity", Status: 422, Pointer: "/caller", Got: q.Caller.ID, Want: "one whole id: gates compare whole ids, and know no patterns"})
	case action == "mode":
		refuse(w, apiv1.Problem{Title: "Forbidden", Status: 403, Detail: "the token of alice may operate, and this needs admin", Got: "operate", Want: "admin"})
	default:
		give(w, 200, apiv1.ActionAnswer{Applied: true, Action: a})
	}
}

func (f *fakeAPI) serveRules(w http.ResponseWriter, version string) {
	rules := apiv1.Rules{ID: "00000000000000bb", Text: "rules:\n  - name: per-key\n    limit: 500\n", Rules: []apiv1.Rule{
		{Name: "per-key", Callers: "key:*", Limit: 500, Measure: "requests", Window: "1m sliding"}, {Name: "per-ip", Callers: "ip", Limit: 500, Measure: "cost", Window: "month, UTC"}, {Name: "per-ip; rm -rf", Callers: "ip:*", Limit: 9, Measure: "requests"},
	}}
	switch version {
	case "", rules.ID:
		give(w, 200, rules)
	case "00000000000000aa":
		rules.ID, rules.Text = version, "rules:\n  - name: per-key\n    limit: 100\n"
		give(w, 200, rules)
	default:
		refuse(w, apiv1.Problem{Title: "Not Found", Status: 404, Pointer: "version", Got: version, Want: "the id of a version that an analyzer has noted"})
	}
}

func give(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a test's own
}

func refuse(w http.ResponseWriter, p apiv1.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // a test's own
}
