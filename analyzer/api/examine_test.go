package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
)

// operation is a route with a request to it that is right.
type operation struct {
	method, path, query, body string
	role                      Role
	ok                        int
}

// operations returns a right request for each route.
func rightRequests() []operation {
	key, until := callerBody("key", "k"), inAnHour()
	return []operation{
		{"GET", "/v1/openapi.yaml", "", "", roleRead, 200},
		{"GET", "/v1/status", "", "", roleRead, 200},
		{"GET", "/v1/caller", "caller=key:k", "", roleRead, 200},
		{"GET", "/v1/explain", "caller=key:k", "", roleRead, 200},
		{"GET", "/v1/callers", "sort=count&limit=3", "", roleRead, 200},
		{"GET", "/v1/series", "seconds=3", "", roleRead, 200},
		{"POST", "/v1/try", "", body("callers", []any{key}), roleRead, 200},
		{"GET", "/v1/decisions", "limit=3", "", roleRead, 200},
		{"GET", "/v1/decisions/stream", "rule=per-key", "", roleRead, 200},
		{"GET", "/v1/actions", "limit=3", "", roleRead, 200},
		{"GET", "/v1/rules", "", "", roleRead, 200},
		{"GET", "/v1/rules/versions", "", "", roleRead, 200},
		{"GET", "/v1/rules/diff", "", "", roleRead, 200},
		{"POST", "/v1/rules/check", "", body("rules", worldRules), roleRead, 200},
		{"POST", "/v1/close", "", body("caller", key, "until", until, "reason", "r"), roleOperate, 200},
		{"POST", "/v1/open", "", body("caller", key, "until", until, "reason", "r"), roleOperate, 200},
		{"POST", "/v1/limit", "", body("caller", key, "rule", "slow", "limit", 7, "until", until, "reason", "r"), roleOperate, 200},
		{"POST", "/v1/reset", "", body("caller", key, "reason", "r"), roleOperate, 200},
		{"POST", "/v1/mode", "", body("mode", "shadow", "until", until, "reason", "r"), roleAdmin, 200},
		{"POST", "/v1/undo", "", body("id", testKey, "reason", "r"), roleOperate, 404},
	}
}

// url returns the path with its query, and more of it.
func (o *operation) url(more ...string) string {
	parts := append([]string{o.query}, more...)
	return o.path + "?" + strings.Trim(strings.Join(parts, "&"), "&")
}

// send sends the request, unless it is a right one of the stream, which has no end.
func (o *operation) send(n *node, url, text string, header ...string) *answer {
	return n.do(o.method, url, text, header...)
}

// TestTheExaminerKnowsEachRoute: what the tests of this file ask is all that there is.
func TestTheExaminerKnowsEachRoute(t *testing.T) {
	s, err := New(Config{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, r := range s.routeTable() {
		want = append(want, fmt.Sprint(r.method, r.path, r.role))
	}
	for _, o := range rightRequests() {
		got = append(got, fmt.Sprint(o.method, o.path, o.role))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%v, want\n%v", got, want)
	}
}

// TestEachRouteForEachToken: without a token, with a wrong one, with a role below, with the role, and with ids hidden. A refusal comes
// before anything else is looked at: it is the same for a request that is right, and for one that is not.
func TestEachRouteForEachToken(t *testing.T) {
	w := newWorld(t)
	for p := range w.partitions {
		w.board.beat(p, "")
	}
	path, toks := tokens(t, "anna:read", "bert:operate", "cleo:admin")
	n := w.node(w.analyzer(0, 1, 2, 3), func(c *Config) { c.TokenFile, c.Redact = path, true })
	stranger, _ := NewToken()
	records := 0
	for _, o := range rightRequests() {
		for _, text := range []string{o.body, "{", ""} {
			for _, query := range []string{"", "x=y"} {
				n.token = ""
				o.send(n, o.url(query), text).want(t, http.StatusUnauthorized, "has no token")
				n.token = stranger
				o.send(n, o.url(query), text).want(t, http.StatusUnauthorized, "not known")
				for role := roleRead; role < o.role; role++ {
					n.token = toks[role-1]
					a := o.send(n, o.url(query), text)
					if p := a.problem(t); a.status != http.StatusForbidden || p.Got != role.String() || p.Want != o.role.String() {
						t.Errorf("%s %s as %s: got %d %s, want 403 with both roles", o.method, o.path, role, a.status, a.body)
					}
				}
			}
		}
		if w.topic.len() != records {
			t.Errorf("%s: got a record of somebody who may not", o.path)
		}
		if o.path == "/v1/decisions/stream" {
			continue // stream_test.go
		}
		for role := o.role; role <= roleAdmin; role++ {
			n.token = toks[role-1]
			o.send(n, o.url(), o.body).want(t, o.ok, "")
		}
		records = w.topic.len()
	}
}

// TestEachRouteWithEachMethod: only its own, and the answer says which. HEAD has no body.
func TestEachRouteWithEachMethod(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), acting)
	for _, o := range rightRequests() {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"} {
			if method == o.method {
				continue
			}
			a := n.do(method, o.url(), o.body)
			if a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != o.method || (method == "HEAD") != (len(a.body) == 0) {
				t.Errorf("%s %s: got %d %q %s, want 405 and Allow: %s", method, o.path, a.status, a.header.Get("Allow"), a.body, o.method)
			}
		}
	}
	if w.topic.len() != 0 {
		t.Errorf("got %d records, want none", w.topic.len())
	}
}

// TestEachParameterIsThereOnceAndKnown: an unknown one, one that comes twice, and one that is no percent-encoding.
func TestEachParameterIsThereOnceAndKnown(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), acting)
	values := map[string]string{
		"caller": "key:k", "sort": "share", "rule": "per-key", "kind": "key", "prefix": "k", "network": "203.0.113.0/24", "min_share": "0.5", "limit": "3", "cursor": "x", "mode": "enforce",
		"action": "close", "state": "done", "version": "0123456789abcdef", "from": "0123456789abcdef", "to": "0123456789abcdef",
	}
	for _, o := range rightRequests() {
		n.do(o.method, o.url("colour=red"), o.body).want(t, http.StatusBadRequest, `"pointer":"colour"`)
		n.do(o.method, o.url("Caller=key:k"), o.body).want(t, http.StatusBadRequest, `"pointer":"Caller"`)
		n.do(o.method, o.url("%zz"), o.body).want(t, http.StatusBadRequest, "percent-encoded")
		n.do(o.method, o.url("a;b"), o.body).want(t, http.StatusBadRequest, "percent-encoded")
		for _, name := range n.server.routes[o.path][o.method].params {
			if name == "partition" {
				continue // may come more than once
			}
			twice := o.path + "?" + name + "=" + values[name] + "&" + name + "=" + values[name]
			if name != "caller" && strings.Contains(o.query, "caller") {
				twice += "&" + o.query
			}
			a := n.do(o.method, twice, o.body)
			if p := a.problem(t); a.status != http.StatusBadRequest || p.Pointer != name || p.Want != "one value" {
				t.Errorf("%s twice in %s: got %d %s, want 400", name, o.path, a.status, a.body)
			}
		}
	}
}

// TestTwoCallersAreNotAll: a query that names a caller twice is refused, and lists nobody.
func TestTwoCallersAreNotAll(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), acting)
	n.post("/v1/reset", body("caller", callerBody("key", "secret-1"), "reason", "r"))
	w.board.close(closing("secret-1", 0))
	for _, path := range []string{"/v1/actions", "/v1/decisions"} {
		a := n.get(path + "?caller=key:a&caller=key:b")
		a.want(t, http.StatusBadRequest, "one value")
		if strings.Contains(string(a.body), "secret-1") {
			t.Errorf("%s: got %s, want nobody", path, a.body)
		}
		n.get(path+"?caller=").want(t, http.StatusBadRequest, "kind:id")
		n.get(path+"?caller=key:other").want(t, http.StatusOK, ":[]")
	}
}

// TestEachBodyIsOneObjectOfJSON, of known fields, each once, under its own name, and not too long.
func TestEachBodyIsOneObjectOfJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), acting)
	for _, o := range rightRequests() {
		if o.method != http.MethodPost {
			continue
		}
		inner := strings.TrimSuffix(o.body, "}")
		field := strings.SplitN(o.body, `"`, 3)[1]
		for name, c := range map[string]struct {
			text   string
			status int
			want   string
		}{
			"nothing":        {" ", 400, "a JSON object"},
			"null":           {"null", 400, "a JSON object"},
			"list":           {"[" + o.body + "]", 400, "a JSON object"},
			"string":         {`"x"`, 400, "a JSON object"},
			"half":           {inner, 400, "JSON"},
			"two":            {o.body + o.body, 400, "one JSON object"},
			"garbage behind": {o.body + "x", 400, "one JSON object"},
			"comment":        {"{/**/" + o.body[1:], 400, "JSON"},
			"trailing comma": {inner + ",}", 400, "JSON"},
			"wrong byte":     {strings.Replace(o.body, `"r"`, "\"\xff\"", 1) + "\xff", 400, "UTF-8"},
			"BOM":            {"\xef\xbb\xbf" + o.body, 400, "a JSON object"},
			"unknown field":  {inner + `,"colour":"red"}`, 422, `"pointer":"/colour"`},
			"other capitals": {strings.Replace(o.body, `"`+field, `"`+strings.ToUpper(field[:1])+field[1:], 1), 422, "no other field"},
			"twice":          {inner + `,` + o.body[1:], 422, "the field twice"},
			"deep":           {inner + `,"` + field + `x":` + strings.Repeat("[", 20000), 400, ""},
			"long":           {inner + strings.Repeat(" ", maxBody) + "}", 413, "more than 1048576 bytes"},
		} {
			a := n.post(o.path, c.text)
			if a.status != c.status || !strings.Contains(string(a.body), c.want) {
				t.Errorf("%s: %s: got %d %s, want %d with %q", o.path, name, a.status, a.body, c.status, c.want)
			}
		}
		for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/json-patch+json", "application/jsonx", "json", ";"} {
			n.post(o.path, o.body, "Content-Type", kind).want(t, http.StatusUnsupportedMediaType, "application/json")
		}
		n.post(o.path, o.body, "Content-Type", "Application/JSON ; charset=UTF-8").want(t, o.ok+2*boolInt(o.role > roleRead && o.ok == 200), "")
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestAnIdIsWrittenInOneWay: a body that has an id in clear and another one in base64 means nobody. An answer has both, and comes back.
func TestAnIdIsWrittenInOneWay(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), acting)
	reset := func(id string, b []byte) *answer {
		return n.post("/v1/reset", body("caller", map[string]any{"kind": "key", "id": id, "id_base64": b}, "reason", "r"))
	}
	reset("alice", []byte("bob")).want(t, http.StatusUnprocessableEntity, "id_base64 has another one")
	if w.topic.len() != 0 {
		t.Fatalf("got %d records, want none", w.topic.len())
	}
	reset("bob", []byte("bob")).want(t, http.StatusAccepted, "")
	for _, id := range []string{"\xff", "a\xc3(b", "\xff\uFFFD", "\xf0\x9f\x98", "\xed\xa0\x80"} {
		before := w.topic.len()
		reset("", []byte(id)).want(t, http.StatusAccepted, "")
		var list apiv1.ActionList
		n.get("/v1/actions?limit=1").into(t, &list)
		again := body("caller", list.Actions[0].Caller, "reason", "r")
		n.post("/v1/reset", again).want(t, http.StatusAccepted, "")
		if a, b := w.topic.records[before].Caller, w.topic.records[before+1].Caller; a != b || a.ID != id {
			t.Errorf("%q: got %q, and %q when the answer came back", id, a.ID, b.ID)
		}
	}
}
