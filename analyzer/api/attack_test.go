package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/lister"
	"github.com/509da70d/floodgate/schemas"
)

// TestACursorIsOfOneList: that of another list, of another analyzer without the key, of this one before it started anew, one that was
// changed, and one that is as long as a request may be.
func TestACursorIsOfOneList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.listed(clustered)
	for i := range 5 {
		one.server.config.LoopbackActs = true
		one.post("/v1/reset", body("caller", callerBody("key", fmt.Sprint("r", i)), "reason", "r"))
		w.board.close(closing(fmt.Sprint("d", i), 0))
	}
	lists := []string{"/v1/actions", "/v1/decisions", "/v1/callers"}
	cursors := make(map[string]string)
	for _, list := range lists {
		var page struct{ Next string }
		if err := json.Unmarshal(one.get(list+"?limit=2").body, &page); err != nil || page.Next == "" {
			t.Fatalf("%s: got no next page: %v", list, err)
		}
		cursors[list] = page.Next
		one.get(list+"?limit=2&cursor="+page.Next).want(t, http.StatusOK, "")
	}
	stranger, again := w.node(w.analyzer(0, 1), nil), w.node(w.analyzer(0, 1), clustered)
	for _, list := range lists {
		for of, cursor := range cursors {
			if of != list {
				one.get(list+"?cursor="+cursor).want(t, http.StatusBadRequest, "this list")
			}
			stranger.get(list+"?cursor="+cursor).want(t, http.StatusBadRequest, `"pointer":"cursor"`)
		}
		b, err := base64.RawURLEncoding.DecodeString(cursors[list])
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{
			"", "AA", cursors[list] + "A", cursors[list] + "=", strings.ToLower(cursors[list]), strings.Repeat("A", 15000), "%00", "..%2f..", "\xff",
			base64.RawURLEncoding.EncodeToString(append(bytes.Clone(b[:len(b)-1]), b[len(b)-1]^1)), base64.RawURLEncoding.EncodeToString(append([]byte{b[0] ^ 1}, b[1:]...)),
		} {
			one.get(list+"?cursor="+url.QueryEscape(bad)).want(t, http.StatusBadRequest, `"pointer":"cursor"`)
		}
	}
	// With the key of the cluster a place in the log is good everywhere. The numbers of a board are its own.
	again.get("/v1/actions?cursor="+cursors["/v1/actions"]).want(t, http.StatusOK, `"offset":2`)
	two.get("/v1/callers?cursor="+cursors["/v1/callers"]).want(t, http.StatusOK, "")
	again.get("/v1/decisions?cursor="+cursors["/v1/decisions"]).want(t, http.StatusBadRequest, "begin again")
}

// TestAClockThatIsSetKeepsForwardsWorking: the clock of an analyzer is set back by an hour, or forward, after it started.
func TestAClockThatIsSetKeepsForwardsWorking(t *testing.T) {
	began := time.Now()
	for name, jump := range map[string]time.Duration{"back": -time.Hour, "forward": time.Hour, "a little back": -10 * time.Second} {
		s := newSigner(clusterKey)
		var age, clock time.Duration // how old the analyzer is, and by how much its clock is wrong
		s.age = func() time.Duration { return age }
		now := func(since time.Duration) time.Time { age = since; return began.Add(since + clock) }
		send := func(at time.Time) *http.Request {
			r := httptest.NewRequest(http.MethodGet, "http://a/v1/caller?caller=key:k", nil)
			s.sign(r, nil, "a", &identity{name: "anna", role: roleRead}, at)
			return r
		}
		accept := func(r *http.Request, at time.Time) error { _, err := s.verify(r, nil, "a", at); return err }
		first := send(now(time.Second))
		if err := accept(first, now(time.Second)); err != nil {
			t.Fatalf("%s: before: %v", name, err)
		}
		clock = jump
		for since := 2 * time.Second; since < 10*time.Minute; since += 20 * time.Second {
			if err := accept(first, now(since)); err == nil {
				t.Errorf("%s: after %v: a request came twice and was accepted", name, since)
			}
			r := send(now(since))
			if err := accept(r, now(since)); err != nil {
				t.Fatalf("%s: after %v: got %v, want it to be accepted: both clocks agree", name, since, err)
			}
			if err := accept(r, now(since+time.Second)); !errors.Is(err, errForwardReplay) {
				t.Errorf("%s: after %v: got %v, want %v", name, since, err, errForwardReplay)
			}
		}
		if n := len(s.nonces.newer) + len(s.nonces.last); n > 8 {
			t.Errorf("%s: got %d nonces, want those of two minutes", name, n)
		}
	}
}

// noLists has no partition.
type noLists struct{}

func (noLists) Top(_ context.Context, p int, _ lister.Query) (*lister.Page, error) {
	return nil, &analyzer.NotOwnerError{Partition: p}
}

func (noLists) Busy(_ context.Context, p int) (*lister.Busy, error) {
	return nil, &analyzer.NotOwnerError{Partition: p}
}

func (noLists) Each(_ context.Context, p int, _ lister.Filter, _ func([]lister.Line, analyzer.At) error) error {
	return &analyzer.NotOwnerError{Partition: p}
}

// TestAnAnswerToAnotherQuestionIsNotPassedOn: JSON, but not about what was asked.
func TestAnAnswerToAnotherQuestionIsNotPassedOn(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(1, 2, 3), clustered)
	var text string
	stranger := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, text) }))
	defer stranger.Close()
	w.board.beat(0, stranger.Listener.Addr().String())
	at := `"at":{"partition":%d,"epoch":1,"offset":1,"control":0,"log_time":"2026-01-02T15:04:05Z"}`
	caller := "key:" + w.caller(0).ID
	for name, c := range map[string]string{
		"nothing": "", "null": "null", "object": `{}`, "number": "4711", "list": "[]", "text": `"evil"`, "two": "{}{}", "wrong types": `{"at":7,"callers":"evil"}`,
		"another partition": "{" + fmt.Sprintf(at, 3) + `,"caller":{"kind":"key","id":"evil"},"rules":[]}`,
		"another kind":      "{" + fmt.Sprintf(at, 0) + `,"caller":{"kind":"ip","id":"evil"},"rules":[]}`,
		"other lists":       `{"at":[{"partition":1},{"partition":2}],"sort":"share","total":1,"callers":[{"caller":{"kind":"key","id":"evil"}}]}`,
		"one more":          `{"at":[{"partition":0},{"partition":1}],"sort":"share","total":1,"callers":[{"caller":{"kind":"key","id":"evil"}}]}`,
		"twice":             `{"at":[{"partition":0},{"partition":0}],"sort":"share","total":1,"callers":[{"caller":{"kind":"key","id":"evil"}}]}`,
		"no callers":        `{"passes":true,"admitted":1,"closes":false,"sentence":"evil","callers":[]}`,
	} {
		text = c
		for _, path := range []string{"/v1/caller?caller=" + caller, "/v1/explain?caller=" + caller, "/v1/callers?partition=0", "/v1/callers?partition=0&sort=rate"} {
			a := n.get(path)
			if a.status != http.StatusBadGateway || bytes.Contains(a.body, []byte("evil")) {
				t.Errorf("%s: %s: got %d %s, want 502", name, path, a.status, a.body)
			}
		}
		a := n.post("/v1/try", body("callers", []any{callerBody("key", w.caller(0).ID)}))
		if a.status != http.StatusBadGateway || bytes.Contains(a.body, []byte("evil")) {
			t.Errorf("%s: try: got %d %s, want 502", name, a.status, a.body)
		}
		// The other partitions are listed, and it is said which is not.
		n.get("/v1/callers").want(t, http.StatusOK, `"missing":[0]`)
		a = n.get("/v1/callers", "Accept", contentLines)
		if c != "" && !bytes.Contains(a.body, []byte(`"missing":[0]`)) || bytes.Contains(a.body, []byte("evil")) {
			t.Errorf("%s: lines: got %s, want partition 0 to be missing", name, a.body)
		}
	}
}

// TestAPeerThatIsSilentEndsTheQuestion: an address in a heartbeat accepts the connection, and then answers never, or for ever.
func TestAPeerThatIsSilentEndsTheQuestion(t *testing.T) {
	line := `{"at":[{"partition":0,"epoch":1,"offset":1,"control":0,"log_time":"2026-01-02T15:04:05Z"}],"sort":"share","total":0,"callers":[]}` + "\n"
	for name, serve := range map[string]http.HandlerFunc{
		"never":             func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"header, and never": func(rw http.ResponseWriter, r *http.Request) { flush(rw, ""); <-r.Context().Done() },
		"half, and never":   func(rw http.ResponseWriter, r *http.Request) { flush(rw, `{"at":`); <-r.Context().Done() },
		"line, and never":   func(rw http.ResponseWriter, r *http.Request) { flush(rw, line); <-r.Context().Done() },
		"drop by drop": func(rw http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				flush(rw, " ")
				time.Sleep(time.Second)
			}
		},
	} {
		inBubble(t, clustered, func(w *world, s *Server, p *pipes) {
			t := w.t
			b := s.backend.Load()
			b.Analyzer, b.Lists = w.analyzer(1, 2, 3), noLists{}
			peer := newPipes()
			silent := &http.Server{Handler: serve}
			go func() { _ = silent.Serve(peer) }()
			defer func() { _ = silent.Close(); time.Sleep(2 * time.Second); synctest.Wait() }()
			s.peers.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) { return peer.dial(t, ""), nil }
			defer s.peers.CloseIdleConnections()
			w.board.beat(0, "127.0.0.1:4711")
			for _, request := range []string{"/v1/caller?caller=key:" + w.caller(0).ID, "/v1/callers?partition=0&sort=rate"} {
				began := time.Now()
				status, _ := p.get(t, request)
				if took := time.Since(began); status < 500 || took > forwardTimeout+time.Second {
					t.Errorf("%s: %s: got %d after %v, want an error in %v", name, request, status, took, forwardTimeout)
				}
			}
			began := time.Now()
			_, text := p.get(t, "/v1/callers?partition=0", "Accept: "+contentLines)
			if took := time.Since(began); !strings.Contains(text, `"missing":[0]`) || took > 2*forwardTimeout {
				t.Errorf("%s: lines: got %q after %v, want the partition to be missing", name, text, took)
			}
		})
	}
}

func flush(rw http.ResponseWriter, text string) {
	_, _ = io.WriteString(rw, text)
	_ = http.NewResponseController(rw).Flush()
}

// get sends a request on a new connection, and reads the answer.
func (p *pipes) get(t *testing.T, path string, headers ...string) (status int, text string) {
	t.Helper()
	headers = append(headers, "Connection: close")
	c := p.dial(t, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n"+strings.Join(append(headers, ""), "\r\n")+"\r\n")
	defer c.Close()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// TestAnIdThatNeedsBase64IsTriedAtItsOwner, who is another analyzer.
func TestAnIdThatNeedsBase64IsTriedAtItsOwner(t *testing.T) {
	w := newWorld(t)
	one, two := w.node(w.analyzer(), clustered), w.node(w.analyzer(0, 1, 2, 3), clustered)
	for p := range w.partitions {
		w.board.beat(p, two.host())
	}
	for _, id := range []string{"\uFFFD", "\xff", "a*", "\x00", strings.Repeat("\xff", 5000)} {
		var v apiv1.TryAnswer
		a := one.post("/v1/try", body("callers", []any{map[string]any{"kind": "key", "id": "", "id_base64": []byte(id)}}))
		a.want(t, http.StatusOK, "")
		a.into(t, &v)
		if got := v.Callers[0].Caller.Caller().ID; got != schemas.ID(id) {
			t.Errorf("%.20q: got %q, want the same caller", id, got)
		}
	}
}

// TestAPanicIsAnErrorThatTheLogHas, and the next request is answered.
func TestAPanicIsAnErrorThatTheLogHas(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), acting)
	route := n.server.routes["/v1/status"][http.MethodGet]
	inner := route.serve
	route.serve = func(*call) error { panic("secret of the inside") }
	a := n.get("/v1/status")
	a.want(t, http.StatusInternalServerError, "its log says how")
	if strings.Contains(string(a.body), "secret") || !strings.Contains(w.log.String(), "secret of the inside") || !strings.Contains(w.log.String(), "attack_test.go") {
		t.Errorf("got %s and the log\n%s\nwant the panic and its stack in the log alone", a.body, w.log)
	}
	route.serve = func(c *call) error {
		if err := inner(c); err != nil {
			return err
		}
		_ = http.NewResponseController(c.w).Flush()
		panic("in the middle")
	}
	if resp, err := client.Get(n.url + "/v1/status"); err == nil {
		_, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err == nil {
			t.Error("a panic behind the first byte: got a whole answer, want it to be cut")
		}
	}
	if !strings.Contains(w.log.String(), "in the middle") {
		t.Errorf("got the log\n%s\nwant the second panic", w.log)
	}
	route.serve = inner
	n.get("/v1/status").want(t, http.StatusOK, "")
}

// TestABoardThatIsIncompleteSaysSo, in decisions and in the status.
func TestABoardThatIsIncompleteSaysSo(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), nil)
	b := *n.server.backend.Load()
	b.Board = partialBoard{w.board}
	n.server.Attach(&b)
	for _, path := range []string{"/v1/status", "/v1/decisions", "/v1/decisions?caller=key:k"} {
		a := n.get(path)
		a.want(t, http.StatusOK, `"ready":false`)
		a.want(t, http.StatusOK, `"incomplete":[1,3]`)
	}
	b.Board = fullBoard{w.board}
	n.server.Attach(&b)
	a := n.get("/v1/decisions/stream")
	if a.want(t, http.StatusServiceUnavailable, "too many"); a.header.Get("Retry-After") == "" {
		t.Errorf("got %v, want Retry-After", a.header)
	}
}

type partialBoard struct{ *fakeBoard }

func (b partialBoard) Status() BoardStatus { return BoardStatus{Incomplete: []int{1, 3}} }

type fullBoard struct{ *fakeBoard }

func (fullBoard) Subscribe(uint64) (Subscription, error) {
	return nil, errors.New("too many subscribers")
}

// TestHiddenIdsStayHiddenWhereTextRepeatsThem: in reasons, in errors of the rules file, and in a noted version that cannot be read.
func TestHiddenIdsStayHiddenWhereTextRepeatsThem(t *testing.T) {
	w := newWorld(t)
	path, toks := tokens(t, "anna:read", "bert:operate")
	n := w.node(nil, func(c *Config) { c.TokenFile, c.Redact = path, true })
	a := w.analyzer(0, 1, 2, 3)
	n.server.Attach(&Backend{
		Lists: noLists{}, Analyzer: refusedRules{a}, Board: w.board, Writer: w.topic, Records: w.topic, Partitions: w.partitions, Key: w.key,
	})
	note := schemas.Control{ID: schemas.ControlID{7}, Action: schemas.ControlRules, Author: "host", Reason: "r", RulesID: 0xfeed, Text: []byte("override: secret-id")}
	_, _ = w.topic.Append(t.Context(), &note)
	n.token = toks[1]
	n.post("/v1/close", body("caller", callerBody("key", "secret-id"), "until", inAnHour(), "reason", "ticket 4711 about secret-id"), "Idempotency-Key", testKey)
	n.post("/v1/undo", body("id", testKey, "reason", "secret-id is right"))
	for i, tok := range toks {
		n.token = tok
		for _, path := range []string{"/v1/actions", "/v1/status", "/v1/rules?version=000000000000feed"} {
			got := n.get(path)
			got.want(t, http.StatusOK, "")
			if shows := bytes.Contains(got.body, []byte("secret-id")); shows != (i == 1) {
				t.Errorf("%s: got %s, want the id for role operate alone", path, got.body)
			}
		}
	}
	n.token = toks[0] // a short id is part of other words, which stay as they are
	n.get("/v1/explain?caller=key:k").want(t, http.StatusOK, " is open: under rule ")
	n.get("/v1/explain?caller=key:k").want(t, http.StatusOK, `"sentence":"key:redacted:`)
}

// refusedRules is an analyzer whose newest rules file is wrong.
type refusedRules struct{ *fakeAnalyzer }

func (a refusedRules) RulesStatus(now time.Time) (s analyzer.RulesStatus) {
	s = a.fakeAnalyzer.RulesStatus(now)
	s.Refused = errors.New(`line 7: got override "key:secret-id"`)
	return s
}
