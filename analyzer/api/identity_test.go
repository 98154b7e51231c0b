package api

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio/secure/securetest"
)

// TestWhatIsNotSafeDoesNotStart: New says what is missing.
func TestWhatIsNotSafeDoesNotStart(t *testing.T) {
	path, _ := tokens(t, "anna:read")
	cert, key := securetest.New(t).Issue("floodgate")
	for name, c := range map[string]struct {
		config Config
		want   error
	}{
		"loopback":                 {Config{Address: "127.0.0.1:0"}, nil},
		"localhost":                {Config{Address: "localhost:0"}, nil},
		"IPv6 loopback":            {Config{Address: "[::1]:0"}, nil},
		"all with both":            {Config{Address: ":0", TokenFile: path, CertFile: cert, KeyFile: key}, nil},
		"all":                      {Config{Address: ":9096"}, ErrExposed},
		"all IPv4":                 {Config{Address: "0.0.0.0:9096"}, ErrExposed},
		"a name":                   {Config{Address: "localhost.example.org:9096"}, ErrExposed},
		"tokens without TLS":       {Config{Address: "203.0.113.1:9096", TokenFile: path}, ErrExposed},
		"TLS without tokens":       {Config{Address: "203.0.113.1:9096", CertFile: cert, KeyFile: key}, ErrExposed},
		"demo for all":             {Config{Address: "0.0.0.0:9096", LoopbackActs: true}, ErrExposed},
		"demo with tokens":         {Config{Address: "127.0.0.1:0", LoopbackActs: true, TokenFile: path}, ErrConfig},
		"half a certificate":       {Config{Address: "127.0.0.1:0", CertFile: cert}, ErrConfig},
		"clients without a server": {Config{Address: "127.0.0.1:0", ClientCAFile: cert}, ErrConfig},
		"clients of no authority":  {Config{Address: "127.0.0.1:0", CertFile: cert, KeyFile: key, ClientCAFile: key}, ErrConfig},
		"no such certificate":      {Config{Address: "127.0.0.1:0", CertFile: cert + "x", KeyFile: key}, os.ErrNotExist},
		"short key of the cluster": {Config{Address: "127.0.0.1:0", ClusterKey: []byte("secret")}, ErrConfig},
		"no port":                  {Config{Address: "127.0.0.1"}, ErrConfig},
		"nowhere":                  {Config{}, ErrConfig},
		"advertised port 0":        {Config{Address: "127.0.0.1:0", Advertise: "10.0.0.1:0"}, ErrConfig},
		"advertised everywhere":    {Config{Address: "127.0.0.1:0", Advertise: "0.0.0.0:9096"}, ErrConfig},
		"advertised metadata":      {Config{Address: "127.0.0.1:0", Advertise: "169.254.169.254:80"}, ErrConfig},
		"advertised long":          {Config{Address: "127.0.0.1:0", Advertise: strings.Repeat("a", 260) + ":80"}, ErrConfig},
		"no file of tokens":        {Config{Address: "127.0.0.1:0", TokenFile: filepath.Join(t.TempDir(), "no")}, os.ErrNotExist},
		"wrong ids":                {Config{Address: "127.0.0.1:0", IDs: schemas.IDs{IPv6Prefix: 129}}, schemas.ErrIDs},
	} {
		if _, err := New(c.config); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// TestWithoutTokensLoopbackReads, and does nothing else unless the Config says so.
func TestWithoutTokensLoopbackReads(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), nil)
	n.get("/v1/status").want(t, http.StatusOK, `"role":"read"`)
	n.post("/v1/reset", body("caller", callerBody("key", "k"), "reason", "r")).want(t, http.StatusForbidden,
		"there are no tokens: only reading is allowed. floodgate token NAME operate --write NAME.token \u003e\u003e tokens makes one; analyze --api-tokens tokens takes it")
	w.node(w.analyzer(0, 1, 2, 3), acting).get("/v1/status").want(t, http.StatusOK, `"role":"admin"`)
	if w.topic.len() != 0 {
		t.Errorf("got %d records, want none", w.topic.len())
	}
}

func TestTokensDecideWhoIs(t *testing.T) {
	w := newWorld(t)
	path, toks := tokens(t, "anna:read")
	n := w.node(w.analyzer(0, 1, 2, 3), func(c *Config) { c.TokenFile = path })
	stranger, _ := NewToken()
	for name, c := range map[string]struct {
		header string
		want   int
	}{
		"none": {"", 401}, "right": {"Bearer " + toks[0], 200}, "another": {"Bearer " + stranger, 401}, "no scheme": {toks[0], 401}, "empty": {"Bearer ", 401},
		"other scheme": {"Basic " + toks[0], 401}, "two": {"Bearer " + toks[0] + " " + toks[0], 401}, "its name": {"Bearer anna", 401},
		"cut": {"Bearer " + toks[0][:42], 401}, "more": {"Bearer " + toks[0] + "A", 401},
	} {
		a := n.get("/v1/status", "Authorization", c.header)
		if a.status != c.want || c.want == 401 && a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: got %d %v, want %d", name, a.status, a.header, c.want)
		}
	}
	n.get("/v1/status?token="+toks[0]).want(t, http.StatusUnauthorized, "")
}

// TestAPageOfAStrangerGetsNothing: neither by a name that was made to point here, nor by a form.
func TestAPageOfAStrangerGetsNothing(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), func(c *Config) {
		c.LoopbackActs, c.AllowedHosts, c.Advertise = true, []string{"Floodgate.Internal"}, "fg-1.example:9096"
	})
	_, port, _ := strings.Cut(n.host(), ":")
	for host, want := range map[string]int{
		"evil.example": 421, "evil.example:" + port: 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "127.0.0.2:" + port: 421, "10.0.0.1": 421, "": 200,
		"localhost": 200, "LOCALHOST:" + port: 200, "localhost.": 200, n.host(): 200, "floodgate.internal": 200, "fg-1.example:443": 200, "[::1]:" + port: 421, "[::ffff:127.0.0.1]:" + port: 200,
	} {
		if got := n.get("/v1/status", "Host", host); got.status != want {
			t.Errorf("Host %q: got %d %s, want %d", host, got.status, got.body, want)
		}
	}
	reset := body("caller", callerBody("key", "k"), "reason", "r")
	for name, c := range map[string]struct {
		header []string
		want   int
	}{
		"page of a stranger":      {[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		"neighbour":               {[]string{"Sec-Fetch-Site", "same-site"}, 403},
		"old browser":             {[]string{"Origin", "https://evil.example"}, 403},
		"no origin":               {[]string{"Origin", "null"}, 403},
		"form":                    {[]string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		"text":                    {[]string{"Content-Type", "text/plain"}, 415},
		"another service's page":  {[]string{"Origin", "http://localhost:8080"}, 403},
		"the command line":        {nil, 202},
		"JSON with its character": {[]string{"Content-Type", "application/json; charset=utf-8"}, 202},
	} {
		if got := n.post("/v1/reset", reset, c.header...); got.status != c.want {
			t.Errorf("%s: got %d %s, want %d", name, got.status, got.body, c.want)
		}
	}
	a := n.do(http.MethodOptions, "/v1/reset", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST")
	for name := range a.header {
		if strings.HasPrefix(name, "Access-Control") || name == "Set-Cookie" {
			t.Errorf("got header %s, want none: no page may use this API", name)
		}
	}
	if a.status < 400 {
		t.Errorf("OPTIONS: got %d, want an error", a.status)
	}
}

// TestWhatNobodyAsksFor has no answer but an error.
func TestWhatNobodyAsksFor(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), acting)
	for path, want := range map[string]int{
		"/": 404, "/v1": 404, "/v1/": 404, "/v1/status/": 404, "/v1/%73tatus": 404, "/v1//status": 404, "/v1/../v1/status": 404, "/metrics": 404, "/debug/pprof/": 404, "/V1/status": 404,
		"/v1/status?a=b": 400, "/v1/status?%zz": 400, "/v1/status?a;b": 400, "/v1/caller": 400, "/v1/caller?caller=key:a&caller=key:b": 400, "/v1/actions?limit=0": 400,
		"/v1/actions?limit=1001": 400, "/v1/actions?limit=x": 400, "/v1/actions?cursor=x": 400, "/v1/actions?cursor=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA": 400,
		"/v1/actions?action=kill": 400, "/v1/actions?state=x": 400, "/v1/decisions?mode=x": 400, "/v1/decisions?cursor=x": 400, "/v1/rules?version=x": 400, "/v1/rules?version=0123456789abcdef": 404,
	} {
		if got := n.get(path); got.status != want {
			t.Errorf("%s: got %d %s, want %d", path, got.status, got.body, want)
		}
	}
	for _, method := range []string{"PUT", "DELETE", "PATCH", "TRACE", "HEAD"} {
		if a := n.do(method, "/v1/status", ""); a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != "GET" {
			t.Errorf("%s: got %d %v, want 405 and Allow", method, a.status, a.header)
		}
	}
	n.post("/v1/status", "{}").want(t, http.StatusMethodNotAllowed, "GET")
	n.get("/v1/close").want(t, http.StatusMethodNotAllowed, "POST")
}

// TestIdsAreBytes: any id comes back as it is, and none gets out of its place.
func TestIdsAreBytes(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), acting)
	for _, id := range []string{
		"/", "//", "..", "../../etc/passwd", "%2f", "%2F%2e%2e", "a\nb", "a\r\nX-Evil: 1", "\x1b[2J", "\x00", "a\x00b", "\xff", "\xc3\x28", "a\xffb", strings.Repeat("x", 256),
		strings.Repeat("x", 257), strings.Repeat("\xff", 5000), ":", "a:b", " ", "+", "&", "a&caller=b", "#", "\"", "<script>", "ключ", "*", "a*", "\u202e", "\uFFFD",
	} {
		want := schemas.Caller{Kind: "key", ID: schemas.ID(id)}
		var state apiv1.CallerState
		a := n.get("/v1/caller?caller=" + url.QueryEscape("key:"+id))
		a.want(t, http.StatusOK, "")
		a.into(t, &state)
		if got := state.Caller.Caller(); got != want {
			t.Errorf("%q: got %q, want %q", id, got, want)
		}
		var why apiv1.Explanation
		n.get("/v1/explain?caller="+url.QueryEscape("key:"+id)).into(t, &why)
		if got := why.Caller.Caller(); got != want || strings.ContainsAny(why.Sentence, "\x00\n\x1b\u202e") {
			t.Errorf("%q: got %q and %q, want %q and a sentence that can be printed", id, got, why.Sentence, want)
		}
		before := w.topic.len()
		n.post("/v1/reset", body("caller", map[string]any{"kind": "key", "id": "", "id_base64": []byte(id)}, "reason", "r")).want(t, http.StatusAccepted, "")
		if got := w.topic.records[before].Caller; got != want {
			t.Errorf("%q: got a record of %q, want %q", id, got, want)
		}
	}
	if strings.ContainsAny(w.log.String(), "\x00\x1b\r\u202e") {
		t.Errorf("the log has an id as it came:\n%q", w.log)
	}
	for _, text := range []string{"", "key", "key:", ":", ":id", "KEY:a", "ke y:a", "_canary:x", strings.Repeat("k", 33) + ":a", "ip:", "ip:localhost", "ip:1.2.3", "ip:203.0.113.0/24", "ip:2001:db8::/32", "ip:*", "\xff:a"} {
		p := n.get("/v1/caller?caller=" + url.QueryEscape(text))
		if got := p.problem(t); p.status != http.StatusBadRequest || got.Pointer != "caller" || got.Want == "" {
			t.Errorf("%q: got %d %s, want 400 and what to write", text, p.status, p.body)
		}
	}
	for text, want := range map[string]string{ // as recorders count them
		"ip:203.0.113.9": "203.0.113.9", "ip:::ffff:203.0.113.9": "203.0.113.9", "ip:2001:db8:0:0::7": "2001:db8::", "ip:2001:db8::/64": "2001:db8::", "ip:2001:db8::7/128": "2001:db8::",
		"ip:203.0.113.9/32": "203.0.113.9", "ip:fe80::1%eth0": "fe80::", "ip_route:2001:db8::7|GET /a|b": "2001:db8::|GET /a|b", "ip_route:x|y": "x|y",
	} {
		var state apiv1.CallerState
		n.get("/v1/caller?caller="+url.QueryEscape(text)).into(t, &state)
		if state.Caller.ID != want {
			t.Errorf("%s: got %q, want %q", text, state.Caller.ID, want)
		}
	}
	n.post("/v1/reset", "{\"caller\":{\"kind\":\"key\",\"id\":\"\xff\"},\"reason\":\"r\"}").want(t, http.StatusBadRequest, "UTF-8")
}

// fixed is a Limiter that allows a number of requests of each key.
type fixed map[string]int

func (f fixed) AllowN(_ time.Time, key string, n int) bool { f[key] += n; return f[key] <= 3 }

// TestFloodsAreRefused, of one token and of one address, also without a right token.
func TestFloodsAreRefused(t *testing.T) {
	w := newWorld(t)
	path, toks := tokens(t, "anna:read", "bert:read")
	byToken, byClient := fixed{}, fixed{}
	n := w.node(w.analyzer(0, 1, 2, 3), func(c *Config) { c.TokenFile, c.ByToken = path, byToken })
	for i := range 5 {
		want := http.StatusOK
		if i >= 3 {
			want = http.StatusTooManyRequests
		}
		n.token = toks[0]
		if a := n.get("/v1/status"); a.status != want || want == 429 && a.header.Get("Retry-After") == "" {
			t.Errorf("request %d: got %d %v, want %d", i, a.status, a.header, want)
		}
	}
	n.token = toks[1]
	n.get("/v1/status").want(t, http.StatusOK, "")
	n = w.node(w.analyzer(0, 1, 2, 3), func(c *Config) { c.TokenFile, c.ByClient = path, byClient })
	for i, want := range []int{401, 401, 401, 429} {
		if a := n.get("/v1/status"); a.status != want {
			t.Errorf("guess %d: got %d, want %d", i, a.status, want)
		}
	}
}

// TestAnOwnerThatCannotAnswerIsAState, not a failure.
func TestAnOwnerThatCannotAnswerIsAState(t *testing.T) {
	w := newWorld(t)
	a := w.analyzer(0, 1, 2, 3)
	n := w.node(a, nil)
	for _, c := range []struct {
		err    error
		status int
		want   string
	}{
		{&analyzer.NotRunningError{Partition: 2, State: analyzer.Idle}, 503, "got state idle"}, {analyzer.ErrBusy, 503, "too many questions"}, {context.DeadlineExceeded, 503, "too long"},
		{analyzer.ErrQuestion, 500, "its log says"}, {errors.New("secret"), 500, "its log says"},
	} {
		a.fails = c.err
		got := n.get("/v1/caller?caller=key:k")
		got.want(t, c.status, c.want)
		if strings.Contains(string(got.body), "secret") {
			t.Errorf("got %s, want nothing of the inside", got.body)
		}
	}
	w.node(nil, nil).get("/v1/caller?caller=key:k").want(t, http.StatusServiceUnavailable, "waits for Kafka")
	w.node(nil, nil).get("/v1/openapi.yaml").want(t, http.StatusOK, "openapi: 3.1.0")
}

// TestRoleReadSeesHashes, the same for the same caller, and nothing from which the id could be found.
func TestRoleReadSeesHashes(t *testing.T) {
	w := newWorld(t)
	path, toks := tokens(t, "anna:read", "bert:operate")
	hidden := func(c *Config) { clustered(c); c.TokenFile, c.Redact = path, true }
	one, two := w.node(w.analyzer(0, 1), hidden), w.node(w.analyzer(2, 3), hidden)
	now := time.Now()
	for p, n := range []*node{one, one, two, two} {
		w.board.beat(p, n.host())
		c := w.caller(p)
		c.ID += "-very-secret"
		w.board.close(schemas.Decision{Rule: "per-key", Caller: c, Mode: schemas.ModeEnforce, CloseAt: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(), Partition: int32(p)})
	}
	var seen []string
	for _, n := range []*node{one, two} {
		n.token = toks[1]
		n.post("/v1/close", body("caller", callerBody("key", "k1-very-secret"), "until", inAnHour(), "reason", "r")).want(t, 200, "very-secret")
		n.token = toks[0]
		for _, path := range []string{"/v1/caller?caller=key:k1-very-secret", "/v1/explain?caller=key:k1-very-secret", "/v1/decisions?limit=1", "/v1/decisions?caller=key:k1-very-secret", "/v1/actions?limit=1", "/v1/status", "/v1/rules"} {
			a := n.get(path)
			a.want(t, http.StatusOK, "")
			if strings.Contains(string(a.body), "very-secret") {
				t.Errorf("%s: got %s, want no id", path, a.body)
			}
		}
		var state apiv1.CallerState
		n.get("/v1/caller?caller=key:k1-very-secret").into(t, &state)
		seen = append(seen, state.Caller.ID)
		n.get("/v1/decisions?prefix=k").want(t, http.StatusForbidden, "no prefix")
	}
	if seen[0] != seen[1] || !strings.HasPrefix(seen[0], redactedMark) {
		t.Errorf("got %q, want one hash for one caller at all analyzers", seen)
	}
}

// TestTLS: without a certificate of an authority there is no answer.
func TestTLS(t *testing.T) {
	w := newWorld(t)
	ca := securetest.New(t)
	cert, key := ca.Issue("floodgate")
	path, toks := tokens(t, "anna:read")
	secure := func(c *Config) {
		clustered(c)
		c.TokenFile, c.CertFile, c.KeyFile, c.ClientCAFile = path, cert, key, ca.CA
	}
	one, two := w.node(w.analyzer(0, 1), secure), w.node(w.analyzer(2, 3), secure)
	for p, n := range []*node{one, one, two, two} {
		w.board.beat(p, n.host())
	}
	mine, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	before := client.Transport
	defer func() { client.Transport = before }()
	roots := one.server.tls.client().RootCAs
	client.Transport = &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{mine}}}
	for p := range w.partitions {
		one.token = toks[0]
		one.get("/v1/caller?caller="+w.caller(p).String()).want(t, http.StatusOK, "")
	}
	bare := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}}}
	if resp, err := bare.Get(one.url + "/v1/status"); err == nil {
		_ = resp.Body.Close()
		t.Errorf("without a certificate: got %d, want no connection", resp.StatusCode)
	}
	if r, err := http.Get("http://" + one.host() + "/v1/status"); err == nil {
		b, _ := bufio.NewReader(r.Body).ReadString('\n')
		_ = r.Body.Close()
		if r.StatusCode != http.StatusBadRequest {
			t.Errorf("without TLS: got %d %s, want 400", r.StatusCode, b)
		}
	}
}
