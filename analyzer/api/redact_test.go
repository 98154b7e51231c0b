package api

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/lister"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// Each text that a reader must not see contains "needle" or the network of needleRules. An id that is not UTF-8 is in answers in base64.
const (
	needle        = "needle"
	needleNetwork = "198.51.100."
	needleBytes   = "\xffneedle"
	needleRules   = `
version: 1
rules:
  - {name: per-key, callers: "key", limit: 10, window: 1m, overrides: {needle-id: 7, needle-free: unlimited}}
  - {name: per-ip, callers: "ip", limit: 100, window: 1m, overrides: {198.51.100.0/24: 5}}
  - {name: narrow, callers: "key:needle-pattern", limit: 7, window: 1m}
  - {name: shared, callers: "key", capacity: 9000, window: 1s, weights: {needle-id: 2}}
  - {name: slow, callers: "key", limit: 1000, window: 1h}
`
	needlessRules = `
version: 1
rules:
  - {name: narrow, callers: "key:needle-old", limit: 7, window: 1m, overrides: {needle-old: 5}}
`
)

// holdsNeedle reports whether an answer has what a reader must not see.
func holdsNeedle(a *answer) bool {
	text := strings.ToLower(fmt.Sprint(a.header, string(a.body)))
	return strings.Contains(text, needle) || strings.Contains(text, needleNetwork) ||
		strings.Contains(string(a.body), base64.StdEncoding.EncodeToString([]byte(needleBytes)))
}

// needleAnalyzer has a rules file that cannot be used, and a rule without effect. What it says of them has an id and a path.
type needleAnalyzer struct{ *fakeAnalyzer }

func (a needleAnalyzer) RulesStatus(now time.Time) analyzer.RulesStatus {
	s := a.fakeAnalyzer.RulesStatus(now)
	s.Refused = errors.New("/etc/needle/rules.yaml:7: got override needle-id")
	s.Unused = []fold.UnusedRule{{Rule: s.Set.Rules[0], Requests: 7, Patterns: []string{"/items/*"}, Sample: "/people/needle-id"}}
	return s
}

// needleEvents are events with callers and reasons.
func needleEvents() *fakeEvents {
	at := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	f := &fakeEvents{}
	for _, id := range []string{"needle-id", needleBytes} {
		f.events = append(f.events, event.Event{Type: event.Closed, Time: at, Caller: event.CallerOf(schemas.Caller{Kind: "key", ID: id}), Rule: "per-key", Mode: "enforce", CloseAt: at, Until: at})
	}
	for _, action := range []string{"close", "mode", "undo"} { // only the first has a caller
		e := event.Event{Type: event.Control, Time: at, Action: action, Author: "ann", Reason: "needle-id asked", Record: strings.Repeat("0", 32)}
		if action == "close" {
			e.Caller = f.events[0].Caller
		}
		f.events = append(f.events, e)
	}
	f.events = append(f.events, event.Event{Type: event.Warned, Time: at, Caller: event.CallerOf(schemas.Caller{Kind: "key", ID: fold.AllCallers}), Rule: "shared", Mode: "enforce", Share: 0.8, Together: true})
	for i := range f.events {
		f.events[i].Identify()
	}
	return f
}

// hiding returns two nodes of one cluster that hide ids from role read, with callers, decisions, records and events that have needles,
// and the tokens of the roles read and admin.
func hiding(t *testing.T) (nodes []*node, reads, admin string) {
	t.Helper()
	w := newWorld(t)
	w.set, w.events = parsed(t, needleRules), needleEvents()
	path, toks := tokens(t, "anna:read", "cleo:admin")
	hidden := func(c *Config) { clustered(c); c.TokenFile, c.Redact = path, true }
	for _, owns := range [][]int{{0, 1}, {2, 3}} {
		a := w.analyzer(owns...)
		n := w.node(a, hidden)
		lists := lister.New(a)
		t.Cleanup(lists.Close)
		n.server.Attach(&Backend{
			Lists: lists, Series: w.series, Analyzer: needleAnalyzer{a}, Board: w.board, Writer: w.topic, Records: w.topic, Events: w.events,
			Partitions: w.partitions, Key: w.key,
		})
		for _, p := range owns {
			w.board.beat(p, n.host())
		}
		for _, id := range []string{"needle-id", "needle-free", needleBytes} {
			for range 64 { // the list of the busiest callers is of a sample, which has at least one of 64 entries
				a.count(schemas.Caller{Kind: "key", ID: id}, 20)
			}
		}
		n.token = toks[1]
		nodes = append(nodes, n)
	}
	w.board.close(closing("needle-id", 0))
	w.board.close(closing(needleBytes, 0))
	w.note(parsed(t, needlessRules).ID(), needlessRules)
	w.note(5, "rules: [needle")
	w.topic.records[0].Reason = "/etc/needle/rules.yaml"
	key, until := callerBody("key", "needle-id"), inAnHour()
	n := nodes[0]
	for path, text := range map[string]string{
		"/v1/limit": body("caller", key, "rule", "slow", "limit", 7, "until", until, "reason", "like needle-friend"),
		"/v1/open":  body("caller", key, "rule", "per-key", "until", until, "reason", "needle"),
		"/v1/mode":  body("mode", "shadow", "rule", "slow", "until", until, "reason", "needle-id asked"),
	} {
		n.post(path, text).want(t, http.StatusOK, "needle")
	}
	n.post("/v1/close", body("caller", callerBody("key", "other"), "until", until, "reason", "same person as needle-id"), "Idempotency-Key", testKey)
	n.post("/v1/undo", body("id", testKey, "reason", "it was needle-id")).want(t, http.StatusOK, "needle")
	n.post("/v1/close", body("caller", callerBody("key", "other"), "until", until, "reason", "same person as needle-id")).want(t, http.StatusOK, "needle")
	breakTokens(t, path, nodes)
	return nodes, toks[0], toks[1]
}

// breakTokens makes the file of tokens wrong for all nodes. Its path has the name of the test.
func breakTokens(t *testing.T, path string, nodes []*node) {
	t.Helper()
	if err := os.WriteFile(path, []byte("needle\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if n.server.tokens.refused(time.Now().Add(-time.Hour)) == "" { // a clock that was set back has the file read at once
			t.Fatalf("%s has the tokens of before, want them refused", n.host())
		}
	}
}

// readerAsks is a request that role read may send, and whether its answer has a needle for role admin.
type readerAsks struct {
	method, path, query, body string
	shows                     bool
}

func allThatReadersAsk(t *testing.T) []readerAsks {
	t.Helper()
	const get, post = http.MethodGet, http.MethodPost
	callers := []any{callerBody("key", "needle-id"), callerBody("key", "needle-free"), map[string]any{"kind": "key", "id": "", "id_base64": []byte(needleBytes)}}
	return []readerAsks{
		{get, "/v1/openapi.yaml", "", "", false},
		{get, "/v1/status", "", "", true},
		{get, "/v1/caller", "caller=key:needle-id", "", true},
		{get, "/v1/caller", "caller=key:needle-free", "", true},
		{get, "/v1/caller", "caller=key:other", "", true}, // a reason with the id of somebody else
		{get, "/v1/caller", "caller=key:%ffneedle", "", true},
		{get, "/v1/caller", "caller=ip:198.51.100.7", "", true},
		{get, "/v1/explain", "caller=key:needle-id", "", true},
		{get, "/v1/explain", "caller=key:needle-free", "", true},
		{get, "/v1/explain", "caller=key:other", "", true},
		{get, "/v1/explain", "caller=key:k", "", true}, // the pattern of rule narrow
		{get, "/v1/explain", "caller=key:%ffneedle", "", true},
		{get, "/v1/explain", "caller=ip:198.51.100.7", "", true},
		{get, "/v1/callers", "", "", true},
		{get, "/v1/callers", "limit=1", "", true},
		{get, "/v1/callers", "sort=rate", "", true},
		{get, "/v1/series", "seconds=3", "", false},
		{post, "/v1/try", "", body("callers", callers), true},
		{post, "/v1/try", "", body("callers", callers, "count", 2000), true},
		{get, "/v1/decisions", "", "", true},
		{get, "/v1/decisions", "limit=1", "", true},
		{get, "/v1/decisions", "caller=key:needle-id", "", true},
		{get, "/v1/decisions", "since=2026-03-02T12:00:00Z", "", true},
		{get, "/v1/actions", "", "", true},
		{get, "/v1/actions", "action=undo", "", true},
		{get, "/v1/actions", "action=mode", "", true},
		{get, "/v1/actions", "caller=key:other", "", true},
		{get, "/v1/rules", "", "", true},
		{get, "/v1/rules", "version=" + hexID(parsed(t, needlessRules).ID()), "", true},
		{get, "/v1/rules", "version=" + hexID(5), "", true},
		{get, "/v1/rules/versions", "", "", true},
		{get, "/v1/rules/diff", "from=" + hexID(parsed(t, needlessRules).ID()), "", true},
		{get, "/v1/rules/diff", "from=" + hexID(5), "", false},
		{post, "/v1/rules/check", "", body("rules", worldRules), false},
	}
}

// TestNoRouteShowsAReaderANeedle: with ids hidden, no answer of any route has an id, a reason, the pattern of an id, or a path. The same
// answer has them for another role, so that each request is one that could show them.
func TestNoRouteShowsAReaderANeedle(t *testing.T) {
	t.Parallel()
	nodes, reads, admin := hiding(t)
	asked := map[string]bool{"/v1/decisions/stream": true} // the test below
	for _, n := range nodes {
		for _, q := range allThatReadersAsk(t) {
			asked[q.path] = true
			for _, accept := range []string{"", contentLines} {
				n.token = admin
				if a := n.do(q.method, q.path+"?"+q.query, q.body, "Accept", accept); holdsNeedle(a) != q.shows {
					t.Errorf("%s?%s for an admin: got %d %s, want needles: %t", q.path, q.query, a.status, a.body, q.shows)
				}
				n.token = reads
				if a := n.do(q.method, q.path+"?"+q.query, q.body, "Accept", accept); holdsNeedle(a) || a.status >= http.StatusInternalServerError {
					t.Errorf("%s?%s for a reader: got %d %s, want no needle", q.path, q.query, a.status, a.body)
				}
			}
		}
	}
	for _, r := range nodes[0].server.routeTable() {
		if r.role == roleRead && !asked[r.path] {
			t.Errorf("%s: the test does not ask it", r.path)
		}
	}
}

// TestNoRouteShowsAReaderANeedleWithoutOwners: nobody can be asked, so that answers are problems, or what gates hold.
func TestNoRouteShowsAReaderANeedleWithoutOwners(t *testing.T) {
	t.Parallel()
	nodes, reads, _ := hiding(t)
	n := nodes[0]
	for _, a := range n.world.analyzers {
		a.mu.Lock()
		a.fails = &analyzer.NotRunningError{State: analyzer.Idle}
		a.mu.Unlock()
	}
	n.token = reads
	for _, q := range allThatReadersAsk(t) {
		if a := n.do(q.method, q.path+"?"+q.query, q.body); holdsNeedle(a) {
			t.Errorf("%s?%s: got %d %s, want no needle", q.path, q.query, a.status, a.body)
		}
	}
	n.get("/v1/explain?caller=key:needle-id").want(t, http.StatusOK, `"verdict":"unknown"`)
}

// TestNoStreamShowsAReaderANeedle: a change has the hash of the caller.
func TestNoStreamShowsAReaderANeedle(t *testing.T) {
	t.Parallel()
	nodes, reads, admin := hiding(t)
	for _, token := range []string{reads, admin} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, nodes[0].url+"/v1/decisions/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Last-Event-ID", "1")
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(resp.Body)
		text := ""
		for lines.Scan() && !strings.HasPrefix(text, "data: ") {
			text = lines.Text()
		}
		_ = resp.Body.Close()
		a := &answer{header: resp.Header, body: []byte(text)}
		if !strings.Contains(text, `"kind":"closed"`) || holdsNeedle(a) != (token == admin) {
			t.Errorf("got %q, want a change, with the id for the admin alone", text)
		}
	}
}

// TestTheIdOfAnEventTellsNoCaller: the id is a hash without a key, from which a caller's address could be found by trying all. A reader
// gets another one, which is the same at all analyzers.
func TestTheIdOfAnEventTellsNoCaller(t *testing.T) {
	t.Parallel()
	nodes, reads, admin := hiding(t)
	ids := make(map[string][]string) // by token
	for _, n := range nodes {
		for _, token := range []string{reads, admin} {
			var list apiv1.DecisionList
			n.token = token
			n.get("/v1/decisions?since=2026-03-02T12:00:00Z").into(t, &list)
			for i := range list.Events {
				ids[token] = append(ids[token], list.Events[i].ID)
			}
		}
	}
	half := len(ids[reads]) / 2
	for i, id := range ids[reads] {
		if id == ids[admin][i] || len(id) != len(ids[admin][i]) || id != ids[reads][i%half] {
			t.Errorf("got id %s for a reader and %s for an admin, want another one, the same at both analyzers", id, ids[admin][i])
		}
	}
	if half != 6 || ids[reads][0] == ids[reads][1] {
		t.Errorf("got ids %v, want one for each event", ids[reads])
	}
}

// TestAReaderStillLearnsWhatHappens: only ids, reasons and paths are hidden.
func TestAReaderStillLearnsWhatHappens(t *testing.T) {
	t.Parallel()
	nodes, reads, _ := hiding(t)
	n := nodes[0]
	n.token = reads
	for path, wants := range map[string][]string{
		"/v1/status":                       {`"refused":"the newest version`, `matches /items/*: one is \"redacted\"`, `"tokens_refused":"redacted"`},
		"/v1/caller?caller=key:needle-id":  {`"author":"cleo"`, `"reason":"redacted"`, `"source":"by_hand"`},
		"/v1/explain?caller=key:needle-id": {`because \"redacted\"`, `"sentence":"key:redacted:`, `Rule narrow counts only key:redacted, so it does not count key:redacted:`},
		"/v1/explain?caller=key:needle-free": {
			`has no limit under rule per-key: the override for redacted says unlimited`, `"source":"override_id"`, `"override":"redacted"`,
		},
		"/v1/decisions?since=2026-03-02T12:00:00Z": {`"caller":{"kind":"key","id":"*"},"rule":"shared"`},
		"/v1/actions":        {`"action":"undo"`, `"undone_by":`, `"author":"cleo"`},
		"/v1/rules":          {`"callers":"key:redacted"`, `"callers":"key"`, `"limit":7`},
		"/v1/rules/versions": {`"author":"host/1"`, `"reason":"redacted"`},
		"/v1/rules/diff?from=" + hexID(parsed(t, needlessRules).ID()): {`"field":"callers","before":"key:redacted","after":"key:redacted"`},
	} {
		a := n.get(path)
		for _, want := range wants {
			a.want(t, http.StatusOK, want)
		}
	}
}
