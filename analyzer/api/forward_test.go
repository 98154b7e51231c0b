package api

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/deploy/testenv"
)

var clusterKey = bytes.Repeat([]byte("k"), MinClusterKey)

// clustered is a Config that forwards, and accepts what others forward.
func clustered(c *Config) { c.Advertise, c.ClusterKey = c.Address, clusterKey }

// host returns where a node listens.
func (n *node) host() string { _, h, _ := strings.Cut(n.url, "://"); return h }

// TestAnyAnalyzerAnswers: the one that does not own the partition asks the owner, once.
func TestAnyAnalyzerAnswers(t *testing.T) {
	w := newWorld(t)
	one, two := w.node(w.analyzer(0, 1), clustered), w.node(w.analyzer(2, 3), clustered)
	for p, n := range []*node{one, one, two, two} {
		w.board.beat(p, n.host())
	}
	for p := range w.partitions {
		for _, n := range []*node{one, two} {
			c := w.caller(p)
			var state apiv1.CallerState
			a := n.get("/v1/caller?caller=" + c.String())
			a.want(t, http.StatusOK, "")
			a.into(t, &state)
			if state.At.Partition != p || state.At.Epoch != 7 || state.Caller.ID != c.ID || len(state.Rules) != 2 {
				t.Errorf("partition %d: got %s, want the owner's answer", p, a.body)
			}
			var why apiv1.Explanation
			n.get("/v1/explain?caller="+c.String()).into(t, &why)
			if why.At == nil || why.At.Partition != p || why.Verdict == apiv1.Unknown {
				t.Errorf("partition %d: got %+v, want the owner's explanation", p, why)
			}
		}
	}
	// A request of two callers, of two owners.
	var try apiv1.TryAnswer
	callers := []any{callerBody("key", w.caller(0).ID), callerBody("key", w.caller(3).ID)}
	a := one.post("/v1/try", body("callers", callers, "count", 11))
	a.want(t, http.StatusOK, "")
	a.into(t, &try)
	if len(try.Callers) != 2 || try.Passes || try.Admitted != 10 || !try.Closes {
		t.Errorf("got %s, want 10 of 11 for each of the two callers", a.body)
	}
}

// TestWithoutAnOwnerTheStateIsTheAnswer: 503, when to ask again, and why.
func TestWithoutAnOwnerTheStateIsTheAnswer(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0), clustered)
	alone := w.node(w.analyzer(0), nil)
	caller := func(p int) string { return "/v1/caller?caller=" + w.caller(p).String() }
	for name, c := range map[string]struct {
		prepare func()
		node    *node
		want    string
	}{
		"never heard of":    {func() {}, n, "no heartbeat of it is known"},
		"silent":            {func() { w.board.beat(1, "127.0.0.1:1"); w.board.silence(1) }, n, "no running owner"},
		"no API":            {func() { w.board.beat(1, "") }, n, "--api-advertise"},
		"no key here":       {func() { w.board.beat(1, "127.0.0.1:1") }, alone, "--api-cluster-key-file"},
		"nobody listens":    {func() { w.board.beat(1, testenv.FreeAddress(t)) }, n, "did not answer"},
		"this analyzer":     {func() { w.board.beat(1, n.host()) }, n, "on its way to another owner"},
		"metadata":          {func() { w.board.beat(1, "169.254.169.254:80") }, n, "cannot be an analyzer"},
		"IPv6 metadata":     {func() { w.board.beat(1, "[fd00:ec2::254]:80") }, n, "cannot be an analyzer"},
		"mapped metadata":   {func() { w.board.beat(1, "[::ffff:169.254.169.254]:80") }, n, "cannot be an analyzer"},
		"unspecified":       {func() { w.board.beat(1, "0.0.0.0:80") }, n, "cannot be an analyzer"},
		"path in it":        {func() { w.board.beat(1, "127.0.0.1:80/latest") }, n, ""},
		"user in it":        {func() { w.board.beat(1, "a@127.0.0.1:80") }, n, ""},
		"line in it":        {func() { w.board.beat(1, "127.0.0.1:80\r\nX: y") }, n, ""},
		"name of many dots": {func() { w.board.beat(1, strings.Repeat("a.", 120)+"invalid:80") }, n, ""},
	} {
		delete(w.board.beats, 1)
		c.prepare()
		a := c.node.get(caller(1))
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || !strings.Contains(string(a.body), c.want) {
			t.Errorf("%s: got %d %v %s, want 503 with Retry-After and %q", name, a.status, a.header, a.body, c.want)
		}
		// What gates hold is known all the same.
		c.node.get(strings.Replace(caller(1), "caller?", "explain?", 1)).want(t, http.StatusOK, `"verdict":"unknown"`)
	}
}

// TestAForwardedRequestIsNeverForwardedAgain: heartbeats that point in a circle end at the first analyzer.
func TestAForwardedRequestIsNeverForwardedAgain(t *testing.T) {
	w := newWorld(t)
	one, two := w.node(w.analyzer(), clustered), w.node(w.analyzer(), clustered)
	w.board.beat(0, two.host()) // and two would ask itself, or one
	n := 0
	inner := two.server.routes["/v1/caller"][http.MethodGet].serve
	two.server.routes["/v1/caller"][http.MethodGet].serve = func(c *call) error { n++; w.board.beat(0, one.host()); return inner(c) }
	one.get("/v1/caller?caller="+w.caller(0).String()).want(t, http.StatusServiceUnavailable, "on its way to another owner")
	if n != 1 {
		t.Errorf("got %d requests at the second analyzer, want 1", n)
	}
}

// TestWhatAStrangerAnswersIsNotPassedOn: a heartbeat may name a server that is no analyzer.
func TestWhatAStrangerAnswersIsNotPassedOn(t *testing.T) {
	w := newWorld(t)
	path, toks := tokens(t, "anna:read")
	n := w.node(w.analyzer(), func(c *Config) { clustered(c); c.TokenFile = path })
	n.token = toks[0]
	var seen atomic.Pointer[http.Header] // a client tries again when a connection was cut, so that two requests may be there at once
	var serve atomic.Pointer[http.HandlerFunc]
	stranger := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		seen.Store(&r.Header)
		(*serve.Load())(rw, r)
	}))
	defer stranger.Close()
	followed := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed = true }))
	defer other.Close()
	w.board.beat(0, stranger.Listener.Addr().String())
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  int
	}{
		"redirect": {func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, other.URL, http.StatusTemporaryRedirect)
		}, 502},
		"page":      {func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "<script>alert(1)</script>") }, 502},
		"no end":    {func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(rw, endless{}) }, 502},
		"error":     {func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "secret", http.StatusTeapot) }, 502},
		"bad error": {func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "secret", http.StatusBadRequest) }, 502},
		"cut":       {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 503},
	} {
		serve.Store(&c.serve)
		a := n.get("/v1/caller?caller=" + w.caller(0).String())
		if a.status != c.want || bytes.Contains(a.body, []byte("secret")) || bytes.Contains(a.body, []byte("script")) || followed {
			t.Errorf("%s: got %d %.200s, followed %t; want %d and nothing of the stranger's", name, a.status, a.body, followed, c.want)
		}
		if h := *seen.Load(); h.Get("Authorization") != "" || h.Get(headerSignature) == "" {
			t.Errorf("%s: the stranger got %v, want a signature and never the user's token", name, h)
		}
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte(" "), len(p))), nil }

// TestForgedForwardsAreRefused: whatever part of a signed request is changed, and a request that comes twice.
func TestForgedForwardsAreRefused(t *testing.T) {
	w := newWorld(t)
	path, _ := tokens(t, "anna:read")
	n := w.node(w.analyzer(0, 1, 2, 3), func(c *Config) { clustered(c); c.TokenFile = path })
	other := w.node(w.analyzer(0, 1, 2, 3), func(c *Config) { clustered(c); c.TokenFile = path })
	query := "caller=" + w.caller(0).String()
	signed := func(method, path, query, body, target string, at time.Time, key []byte) *http.Request {
		r := httptest.NewRequest(method, "http://"+n.host()+path+"?"+query, strings.NewReader(body))
		newSigner(key).sign(r, []byte(body), target, &identity{name: "anna", role: roleRead}, at)
		return r
	}
	now := time.Now()
	good := signed(http.MethodGet, "/v1/caller", query, "", n.host(), now, clusterKey).Header.Get(headerSignature)
	words := strings.Split(good, " ")
	change := func(i int, to string) string {
		c := append([]string(nil), words...)
		c[i] = to
		return strings.Join(c, " ")
	}
	n.get("/v1/caller?"+query, headerSignature, good).want(t, http.StatusOK, "")
	n.get("/v1/caller?"+query, headerSignature, good).want(t, http.StatusUnauthorized, "it came before")
	fresh := func() string {
		return signed(http.MethodGet, "/v1/caller", query, "", n.host(), now, clusterKey).Header.Get(headerSignature)
	}
	for name, c := range map[string]struct {
		node                *node
		path, query, header string
		want                string
	}{
		"nothing":         {n, "/v1/caller", query, "x", "another form"},
		"another query":   {n, "/v1/caller", "caller=key:other", fresh(), "signature"},
		"another path":    {n, "/v1/explain", query, fresh(), "signature"},
		"another target":  {other, "/v1/caller", query, fresh(), "signature"},
		"another author":  {n, "/v1/caller", query, change(5, "root"), "signature"},
		"another role":    {n, "/v1/caller", query, change(4, "admin"), "signature"},
		"not redacted":    {n, "/v1/caller", query, change(3, "true"), "signature"},
		"another nonce":   {n, "/v1/caller", query, change(2, base64.RawURLEncoding.EncodeToString(make([]byte, 16))), "signature"},
		"another time":    {n, "/v1/caller", query, change(1, "1"), "signature"},
		"no signature":    {n, "/v1/caller", query, change(6, "AAAA"), "signature"},
		"another key":     {n, "/v1/caller", query, signed(http.MethodGet, "/v1/caller", query, "", n.host(), now, bytes.Repeat([]byte("x"), 32)).Header.Get(headerSignature), "signature"},
		"old":             {n, "/v1/caller", query, signed(http.MethodGet, "/v1/caller", query, "", n.host(), now.Add(-time.Minute), clusterKey).Header.Get(headerSignature), "signed 1m"},
		"from the future": {n, "/v1/caller", query, signed(http.MethodGet, "/v1/caller", query, "", n.host(), now.Add(time.Minute), clusterKey).Header.Get(headerSignature), "signed -"},
		"before start":    {n, "/v1/caller", query, signed(http.MethodGet, "/v1/caller", query, "", n.host(), now.Add(-maxSkew/2), clusterKey).Header.Get(headerSignature), "before this analyzer started"},
		"long":            {n, "/v1/caller", query, strings.Repeat("a", 2000), "another form"},
	} {
		a := c.node.get(c.path+"?"+c.query, headerSignature, c.header)
		if a.status != http.StatusUnauthorized || !strings.Contains(string(a.body), c.want) {
			t.Errorf("%s: got %d %s, want 401 with %q", name, a.status, a.body, c.want)
		}
	}
	// What changes something is never forwarded, however well it is signed.
	reset := body("caller", callerBody("key", "k"), "reason", "r")
	r := signed(http.MethodPost, "/v1/reset", "", reset, n.host(), now, clusterKey)
	n.post("/v1/reset", reset, headerSignature, r.Header.Get(headerSignature)).want(t, http.StatusForbidden, "never forwarded")
	// An analyzer without the key believes nobody.
	w.node(w.analyzer(0, 1, 2, 3), nil).get("/v1/caller?"+query, headerSignature, good).want(t, http.StatusUnauthorized, "accepts no forwarded")
	if w.topic.len() != 0 {
		t.Errorf("got %d records, want none", w.topic.len())
	}
}

// TestNoncesAreForgottenInTime, and not before a signature is too old.
func TestNoncesAreForgottenInTime(t *testing.T) {
	var n nonceSet
	now := 1000 * time.Second
	for i := range 10 {
		if err := n.add([16]byte{byte(i)}, now); err != nil {
			t.Fatal(err)
		}
	}
	for age := time.Duration(0); age <= 2*maxSkew; age += maxSkew / 4 {
		if err := n.add([16]byte{3}, now+age); !errors.Is(err, errForwardReplay) {
			t.Errorf("after %v: got %v, want %v", age, err, errForwardReplay)
		}
	}
	now += 10 * maxSkew
	if err := n.add([16]byte{3}, now); err != nil || len(n.newer)+len(n.last) != 1 {
		t.Errorf("later: got %v and %d nonces, want only the new one", err, len(n.newer)+len(n.last))
	}
	for i := range maxNonces {
		_ = n.add([16]byte{1, byte(i), byte(i >> 8), byte(i >> 16)}, now)
	}
	if err := n.add([16]byte{2}, now); !errors.Is(err, errForwardMany) {
		t.Errorf("with %d: got %v, want %v", maxNonces, err, errForwardMany)
	}
}

// TestAddressesToWhichNothingIsForwarded, also if a name resolves to them: the check is on the address that is dialled.
func TestAddressesToWhichNothingIsForwarded(t *testing.T) {
	for text, want := range map[string][2]bool{ // beyond loopback, on loopback
		"127.0.0.1": {true, false}, "::1": {true, false}, "::ffff:127.0.0.1": {true, false}, "169.254.169.254": {true, true}, "fe80::1": {true, true},
		"0.0.0.0": {true, true}, "::": {true, true}, "224.0.0.1": {true, true}, "fd00:ec2::254": {true, true}, "10.0.0.1": {false, false}, "fd00::1": {false, false},
		"203.0.113.9": {false, false},
	} {
		a := netip.MustParseAddr(text)
		if got := [2]bool{forbidden(a, false), forbidden(a, true)}; got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
	if bytes.Equal(newSecret(nil), newSecret(nil)) {
		t.Error("got one secret twice without a key, want random ones")
	}
}
