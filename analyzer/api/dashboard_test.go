package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
)

// page is a dashboard of one file.
func page() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ui/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<p>dashboard"))
	})
}

// TestTheDashboardNeedsNoToken, since its files hold nothing; what it asks does. Links to it may stand on any page.
func TestTheDashboardNeedsNoToken(t *testing.T) {
	w := newWorld(t)
	path, toks := tokens(t, "anna:read")
	n := w.node(w.analyzer(0, 1, 2, 3), func(c *Config) { c.TokenFile, c.Page = path, page() })
	for _, header := range [][]string{nil, {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, {"Authorization", "Bearer wrong"}} {
		a := n.get("/ui/", header...)
		a.want(t, http.StatusOK, "<p>dashboard")
		if got := a.header.Get("Content-Security-Policy"); got != "default-src 'self'" {
			t.Errorf("got the policy %q, want that of the page", got)
		}
	}
	n.get("/ui/none").want(t, http.StatusNotFound, "")
	n.get("/ui/", "Host", "evil.example").want(t, http.StatusMisdirectedRequest, "Host")
	n.post("/ui/session", `{"token":"once.x"}`).want(t, http.StatusNotFound, "")
	for _, path := range []string{"/uix", "/UI/", "/v1/ui/"} {
		n.get(path).want(t, http.StatusNotFound, "no such route")
	}
	a := n.get("/v1/status", "Sec-Fetch-Site", "same-origin")
	if a.want(t, http.StatusUnauthorized, "has no token"); !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") {
		t.Errorf("got %v, want a page to learn that it needs a token", a.header)
	}
	n.token = toks[0]
	n.get("/v1/status", "Sec-Fetch-Site", "same-origin", "Origin", n.url).want(t, http.StatusOK, `"tokens":true`)
	w.node(w.analyzer(), nil).get("/ui/").want(t, http.StatusNotFound, "no such route")
}

// TestOnlyThisPageAsks: pages of other sites neither read nor hold streams, with a token that they got to know or where none is needed.
func TestOnlyThisPageAsks(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), func(c *Config) { c.LoopbackActs, c.Page = true, page() })
	for name, c := range map[string]struct {
		header []string
		want   int
	}{
		"the page":              {[]string{"Sec-Fetch-Site", "same-origin"}, 200},
		"it in an old browser":  {[]string{"Origin", n.url}, 200},
		"a person":              {[]string{"Sec-Fetch-Site", "none"}, 200},
		"the command line":      {nil, 200},
		"another site":          {[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		"another port":          {[]string{"Sec-Fetch-Site", "same-site"}, 403},
		"one in an old browser": {[]string{"Origin", "https://evil.example"}, 403},
		"a file":                {[]string{"Origin", "null"}, 403},
		"something new":         {[]string{"Sec-Fetch-Site", "moon"}, 403},
	} {
		for _, path := range []string{"/v1/status", "/v1/series?seconds=1"} {
			if got := n.get(path, c.header...); got.status != c.want {
				t.Errorf("%s: %s: got %d %s, want %d", name, path, got.status, got.body, c.want)
			}
		}
		if got := n.get("/v1/decisions/stream?mode=x", c.header...); (got.status == 403) != (c.want == 403) {
			t.Errorf("%s: got %d %s, want %d or a mistake in the query", name, got.status, got.body, c.want)
		}
	}
}

// TestALinkWorksOnce: it opens one session, which may do everything. A later use of the link gets a clear refusal.
func TestALinkWorksOnce(t *testing.T) {
	w := newWorld(t)
	for p := range w.partitions {
		w.board.beat(p, "")
	}
	opened := 0
	links := &Links{Opened: func() { opened++ }}
	n := w.node(w.analyzer(0, 1, 2, 3), func(c *Config) { c.Page, c.Links = page(), links })
	once, ok := links.New()
	if !ok || !strings.HasPrefix(once, "once.") {
		t.Fatalf("got %q and %t, want a token that says what it is", once, ok)
	}
	n.token = once
	n.get("/v1/status").want(t, http.StatusUnauthorized, "not known")
	n.token = ""
	n.get("/v1/status").want(t, http.StatusUnauthorized, "has no token")
	n.post("/ui/session", body("token", once), "Origin", "https://evil.example").want(t, http.StatusForbidden, "another site")
	for text, want := range map[string]int{`{"token":"once.x"}`: 401, `{"token":""}`: 401, "{}": 401, `{"tokens":1}`: 422, "": 415, "[]": 400} {
		n.post("/ui/session", text).want(t, want, "")
	}
	if a := n.get("/ui/session"); a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != "POST" {
		t.Errorf("GET: got %d %v, want 405", a.status, a.header)
	}
	if opened != 0 {
		t.Fatalf("got %d sessions, want none yet", opened)
	}
	var session sessionToken
	a := n.post("/ui/session", body("token", once), "Sec-Fetch-Site", "same-origin")
	a.want(t, http.StatusOK, "")
	a.into(t, &session)
	if a.header.Get("Cache-Control") != "no-store" || opened != 1 {
		t.Errorf("got %v and %d sessions, want one that nobody keeps", a.header, opened)
	}
	n.post("/ui/session", body("token", once)).want(t, http.StatusUnauthorized, "used before")
	n.post("/ui/session", body("token", session.Token)).want(t, http.StatusUnauthorized, "not one of this process")
	n.token = session.Token
	var status apiv1.Status
	n.get("/v1/status").into(t, &status)
	if status.Who != "dashboard" || status.Role != "admin" || !status.Tokens {
		t.Errorf("got %+v, want a session that may do everything", status)
	}
	n.post("/v1/mode", body("mode", "shadow", "until", inAnHour(), "reason", "r")).want(t, http.StatusOK, "dashboard")
	if text := w.log.String(); strings.Contains(text, once) || strings.Contains(text, session.Token) {
		t.Errorf("got a token in the log:\n%s", text)
	}
}

// TestOfAllWhoUseALinkOneIsIn.
func TestOfAllWhoUseALinkOneIsIn(t *testing.T) {
	links := new(Links)
	once, _ := links.New()
	var all sync.WaitGroup
	var mu sync.Mutex
	in := 0
	for range 20 {
		all.Go(func() {
			if _, err := links.open(once); err == nil {
				mu.Lock()
				defer mu.Unlock()
				in++
			}
		})
	}
	all.Wait()
	if in != 1 {
		t.Errorf("got %d sessions of one link, want 1", in)
	}
	for i := 1; i < maxLinks; i++ {
		if _, ok := links.New(); !ok {
			t.Fatalf("got no link %d", i)
		}
	}
	if once, ok := links.New(); ok {
		t.Errorf("got %q after %d links, want none", once, maxLinks)
	}
}

// TestALinkBesideTokens: a file of tokens, and loopback that may do everything, are not changed by links.
func TestALinkBesideTokens(t *testing.T) {
	path, toks := tokens(t, "anna:read")
	for name, c := range map[string]struct {
		change func(*Config)
		anna   string
		none   int
	}{"tokens": {func(c *Config) { c.TokenFile = path }, "anna", 401}, "loopback": {acting, "loopback", 200}} {
		w := newWorld(t)
		links := new(Links)
		n := w.node(w.analyzer(0), func(config *Config) { c.change(config); config.Page, config.Links = page(), links })
		once, _ := links.New()
		session, err := links.open(once)
		if err != nil {
			t.Fatal(err)
		}
		for token, want := range map[string]string{session: "dashboard", toks[0]: c.anna} {
			n.token = token
			n.get("/v1/status").want(t, http.StatusOK, `"who":"`+want+`"`)
		}
		n.token = ""
		if a := n.get("/v1/status"); a.status != c.none {
			t.Errorf("%s, without a token: got %d, want %d", name, a.status, c.none)
		}
	}
}

// TestAPageThatPanicsEndsItsConnection, and the server goes on.
func TestAPageThatPanicsEndsItsConnection(t *testing.T) {
	s, err := New(Config{Address: "127.0.0.1:0", Page: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a bug") })})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // what recover returns is compared as net/http does
			t.Errorf("got %v, want the connection to be closed", p)
		}
	}()
	r := httptest.NewRequest(http.MethodGet, "/ui/", http.NoBody)
	r.Host = "localhost"
	s.ServeHTTP(httptest.NewRecorder(), r)
}
