package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio/secure/securetest"
)

// TestTwoPersonsAtOneCaller at once: one closes it, one opens it, both undo. Each sees who did what, and the owner has each record once.
func TestTwoPersonsAtOneCaller(t *testing.T) {
	w := newWorld(t)
	for p := range w.partitions {
		w.board.beat(p, "")
	}
	path, toks := tokens(t, "anna:operate", "bert:operate")
	n := w.node(w.analyzer(0, 1, 2, 3), func(c *Config) { c.TokenFile = path })
	as := func(i int) *node { m := *n; m.token = toks[i]; return &m }
	request := body("caller", callerBody("key", "k"), "until", inAnHour(), "reason", "r")
	var all sync.WaitGroup
	ids := make([]string, 2)
	for i, path := range []string{"/v1/close", "/v1/open"} {
		all.Go(func() {
			var v apiv1.ActionAnswer
			a := as(i).post(path, request)
			a.want(t, http.StatusOK, `"in_force"`)
			if json.Unmarshal(a.body, &v) == nil {
				ids[i] = v.Action.ID
			}
		})
	}
	all.Wait()
	// Each undoes what the other did, at once with the other, who changed their mind.
	undone := make(map[int]int)
	var mu sync.Mutex
	for i := range 4 {
		all.Go(func() {
			a := as(i%2).post("/v1/undo", body("id", ids[i/2], "reason", fmt.Sprint("by ", i)))
			mu.Lock()
			defer mu.Unlock()
			undone[a.status]++
		})
	}
	all.Wait()
	if undone[200] < 2 || undone[200]+undone[409] != 4 {
		t.Errorf("got %v, want each record undone, and 409 for who came later", undone)
	}
	var list apiv1.ActionList
	n.token = toks[0]
	n.get("/v1/actions?state=undone").into(t, &list)
	if len(list.Actions) != 2 || list.Actions[0].Author == list.Actions[1].Author || list.Actions[0].UndoneBy == nil {
		t.Errorf("got %+v, want both records, each with who undid it first", list.Actions)
	}
	// The key of one person is no key of the other, whatever it is for.
	as(0).post("/v1/close", request, "Idempotency-Key", testKey).want(t, http.StatusOK, "anna")
	as(1).post("/v1/close", request, "Idempotency-Key", testKey).want(t, http.StatusConflict, "another content or author")
}

// TestOneKeyAtTwoAnalyzers at once. The record that is first in the log counts: of two contents only it is promised, and of one content
// both answers are about it. Lists have it once.
func TestOneKeyAtTwoAnalyzers(t *testing.T) {
	for name, reasons := range map[string][2]string{"two contents": {"reason 0", "reason 1"}, "one content": {"reason 0", "reason 0"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for p := range w.partitions {
				w.board.beat(p, "")
			}
			one, two := w.node(w.analyzer(0, 1, 2, 3), acting), w.node(w.analyzer(), acting)
			w.topic.entered, w.topic.goOn = make(chan struct{}, 2), make(chan struct{})
			var all sync.WaitGroup
			answers, until := make([]*answer, 2), inAnHour()
			for i, n := range []*node{one, two} {
				all.Go(func() {
					answers[i] = n.post("/v1/close", body("caller", callerBody("key", "k"), "until", until, "reason", reasons[i]), "Idempotency-Key", testKey)
				})
			}
			<-w.topic.entered
			<-w.topic.entered // both have found nothing under the key
			close(w.topic.goOn)
			all.Wait()
			first := w.topic.records[0].Reason
			for i, a := range answers {
				if reasons[i] == first {
					a.want(t, http.StatusOK, `"offset":0`)
					continue
				}
				a.want(t, http.StatusConflict, "")
				if p := a.problem(t); p.Got != testKey || !strings.Contains(p.Want, "another key") {
					t.Errorf("%d: got %s, want what was got and what is wanted", i, a.body)
				}
			}
			for _, n := range []*node{one, two} {
				var list apiv1.ActionList
				n.get("/v1/actions").into(t, &list)
				if w.topic.len() != 2 || len(list.Actions) != 1 || list.Actions[0].Offset != 0 {
					t.Errorf("got %d records and the list %+v, want the first of two", w.topic.len(), list.Actions)
				}
			}
		})
	}
}

// TestAKeyThatIsUsedAgain for anything else is refused with what was got and what is wanted; for the same it is the same record.
func TestAKeyThatIsUsedAgain(t *testing.T) {
	w := newWorld(t)
	for p := range w.partitions {
		w.board.beat(p, "")
	}
	n := w.node(w.analyzer(0, 1, 2, 3), acting)
	key, until := callerBody("key", "k"), inAnHour()
	n.post("/v1/open", body("caller", key, "rule", "slow", "until", until, "reason", "r"), "Idempotency-Key", testKey).want(t, http.StatusOK, "")
	later := time.Now().Add(2 * time.Hour).UTC().Format(time.RFC3339)
	for name, c := range map[string]struct{ path, body string }{
		"other path":   {"/v1/close", body("caller", key, "until", until, "reason", "r")},
		"other caller": {"/v1/open", body("caller", callerBody("key", "l"), "rule", "slow", "until", until, "reason", "r")},
		"other kind":   {"/v1/open", body("caller", callerBody("ip", "192.0.2.1"), "until", until, "reason", "r")},
		"other rule":   {"/v1/open", body("caller", key, "rule", "per-key", "until", until, "reason", "r")},
		"no rule":      {"/v1/open", body("caller", key, "until", until, "reason", "r")},
		"other until":  {"/v1/open", body("caller", key, "rule", "slow", "until", later, "reason", "r")},
		"other reason": {"/v1/open", body("caller", key, "rule", "slow", "until", until, "reason", "s")},
		"a reset":      {"/v1/reset", body("caller", key, "rule", "slow", "reason", "r")},
		"a limit":      {"/v1/limit", body("caller", key, "rule", "slow", "limit", 1, "until", until, "reason", "r")},
		"a mode":       {"/v1/mode", body("rule", "slow", "mode", "shadow", "until", until, "reason", "r")},
		"its own undo": {"/v1/undo", body("id", testKey, "reason", "r")},
	} {
		a := n.post(c.path, c.body, "Idempotency-Key", testKey)
		if p := a.problem(t); a.status != http.StatusConflict || p.Got != testKey || p.Want == "" {
			t.Errorf("%s: got %d %s, want 409 with got and want", name, a.status, a.body)
		}
	}
	n.post("/v1/open", body("caller", map[string]any{"kind": "key", "id": "", "id_base64": []byte("k")}, "rule", "slow", "until", strings.Replace(until, "Z", "+00:00", 1), "reason", "r"),
		"Idempotency-Key", strings.ToUpper(testKey)).want(t, http.StatusOK, testKey)
	if w.topic.len() != 1 {
		t.Errorf("got %d records, want 1", w.topic.len())
	}
}

// TestAnUndoFindsTheRecordBeforeIt: what was promised is known here, so that the next request can name it.
func TestAnUndoFindsTheRecordBeforeIt(t *testing.T) {
	w := newWorld(t)
	for p := range w.partitions {
		w.board.beat(p, "")
	}
	n := w.node(w.analyzer(0, 1, 2, 3), acting)
	w.topic.lags.Store(true) // owners have the record, and this analyzer does not read it
	request := body("caller", callerBody("key", "k"), "until", inAnHour(), "reason", "r")
	n.post("/v1/close", request, "Idempotency-Key", testKey).want(t, http.StatusAccepted, `"applied":false`)
	w.topic.lags.Store(false)
	n.post("/v1/close", request, "Idempotency-Key", testKey).want(t, http.StatusOK, `"applied":true`)
	n.post("/v1/undo", body("id", testKey, "reason", "r")).want(t, http.StatusOK, "")
}

// TestUntilIsATimeThatComes, and not later than a closure may end. There is no 30th of February, and no second 60.
func TestUntilIsATimeThatComes(t *testing.T) {
	w := newWorld(t)
	now := time.Date(2028, 2, 28, 23, 0, 0, 0, time.UTC)
	n := w.node(w.analyzer(0, 1, 2, 3), func(c *Config) { c.LoopbackActs, c.Clock = true, func() time.Time { return now } })
	at := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339Nano) }
	for text, want := range map[string]int{
		at(0): 422, at(-1): 422, at(1): 202, at(schemas.MaxClosure): 202, at(schemas.MaxClosure + 1): 422, "2028-02-29T12:00:00Z": 202, "2028-02-30T12:00:00Z": 422,
		"2028-02-29T23:59:60Z": 422, "2028-02-29T24:00:00Z": 422, "2028-02-29T12:00:00+01:00": 202, "2028-02-29T12:00:00": 422, "2028-02-29 12:00:00Z": 422, "2028-02-29": 422,
		"0000-01-01T00:00:00Z": 422, "0001-01-01T00:00:00Z": 422, "9999-12-31T23:59:59Z": 422, "99999-01-01T00:00:00Z": 422, "": 422, "1h": 422, "now": 422,
	} {
		before := w.topic.len()
		a := n.post("/v1/close", body("caller", callerBody("key", "k"), "until", text, "reason", "r"))
		if a.status != want || (w.topic.len() > before) != (want == 202) {
			t.Errorf("until %q: got %d %s, want %d", text, a.status, a.body, want)
		}
		if p := a.problem(t); want == 422 && p.Want == "" {
			t.Errorf("until %q: got %s, want what to write", text, a.body)
		}
	}
	for _, text := range []string{"null", "7", "true", "{}", "[]", `"\u0000"`} {
		a := n.post("/v1/close", `{"caller":{"kind":"key","id":"k"},"reason":"r","until":`+text+"}")
		if p := a.problem(t); a.status != 422 || p.Want == "" {
			t.Errorf("until %s: got %d %s, want 422 and what to write", text, a.status, a.body)
		}
	}
}

// TestAMistakeInTheFileOfTokensRevokes what the file does not name any more. It gives nobody anything, and the status says why.
func TestAMistakeInTheFileOfTokensRevokes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	anna, annas := line("anna", roleAdmin)
	bert, berts := line("bert", roleRead)
	cleo, cleos := line("cleo", roleRead)
	now := time.Unix(1000, 0)
	write := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		now = now.Add(2 * tokensChecked)
	}
	write(anna, bert)
	var log bytes.Buffer
	f, err := openTokens(path, now, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	want := func(when string, roles ...Role) {
		t.Helper()
		for i, tok := range []string{annas, berts, cleos} {
			if got, _ := f.find(tok, now); got.role != roles[i] {
				t.Errorf("%s: token %d: got role %s, want %s", when, i, got.role, roles[i])
			}
		}
	}
	want("at first", roleAdmin, roleRead, 0)
	write(anna, bert, "dora raed "+strings.Repeat("ab", 32)+"\n", cleo)
	want("a mistake, and one more", roleAdmin, roleRead, 0)
	for range 3 {
		if now = now.Add(2 * tokensChecked); f.refused(now) != "" {
			continue
		}
		t.Error("got no reason in the status, want the mistake")
	}
	write(strings.Replace(bert, "read", "admin", 1), "oops\n", strings.Replace(anna, "admin", "read", 1))
	want("a mistake, one with a lower role, one with a higher", roleRead, roleRead, 0)
	write("oops\n", bert)
	want("a mistake, and anna is gone", 0, roleRead, 0)
	write("oops\n", bert, anna)
	want("a mistake, and anna is back", 0, roleRead, 0)
	write(bert, bert, anna)
	want("one twice", 0, roleRead, 0)
	write(anna, cleo)
	want("without a mistake", roleAdmin, 0, roleRead)
	if got := f.refused(now); got != "" {
		t.Errorf("got %q, want no reason", got)
	}
	// A person may put the token where its name or role belongs: it must be no name, and in no log.
	for _, text := range []string{annas + " read " + strings.Repeat("cd", 32), "anna " + annas + " read", "anna read " + annas} {
		write(text+"\n", cleo)
		want(text, 0, 0, roleRead)
	}
	if strings.Contains(log.String(), annas[:20]) || strings.Contains(f.refused(now), annas[:20]) {
		t.Errorf("the log has a token:\n%s", &log)
	}
}

// TestTheStatusSaysThatTheFileOfTokensIsWrong, and schemes are compared as HTTP has it.
func TestTheStatusSaysThatTheFileOfTokensIsWrong(t *testing.T) {
	w := newWorld(t)
	path, toks := tokens(t, "anna:read")
	clock := time.Now()
	n := w.node(w.analyzer(0, 1, 2, 3), func(c *Config) { c.TokenFile, c.Clock = path, func() time.Time { return clock } })
	n.token = toks[0]
	n.get("/v1/status", "Authorization", "bearer "+toks[0]).want(t, http.StatusOK, "")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, "what is this\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(time.Minute)
	n.get("/v1/status").want(t, http.StatusOK, `"tokens_refused":"bad file of tokens: line 2`)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+"/v1/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	stranger, _ := NewToken()
	r.Header["Authorization"] = []string{"Bearer " + toks[0], "Bearer " + stranger}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("two tokens: got %d, want 401", resp.StatusCode)
	}
}

// TestAListInLinesEndsWithItsToken: a piece that comes after the token was revoked is not sent.
func TestAListInLinesEndsWithItsToken(t *testing.T) {
	w := newWorld(t)
	path, toks := tokens(t, "anna:read", "bert:read")
	clock := time.Now()
	one, _ := w.listed(func(c *Config) { clustered(c); c.TokenFile, c.Clock = path, func() time.Time { return clock } })
	one.token = toks[0]
	whole := one.get("/v1/callers", "Accept", contentLines)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	route := one.server.routes["/v1/callers"][http.MethodGet]
	inner := route.serve
	route.serve = func(c *call) error { // it was allowed to begin
		_, left, _ := strings.Cut(string(text), "\n")
		if err := os.WriteFile(path, []byte(left), 0o600); err != nil {
			t.Error(err)
		}
		clock = clock.Add(time.Minute)
		return inner(c)
	}
	if a := one.get("/v1/callers", "Accept", contentLines); len(whole.body) == 0 || len(a.body) != 0 {
		t.Errorf("got %d bytes before and %s after, want a list and nothing", len(whole.body), a.body)
	}
}

// TestAnotherCertificateWithoutAnotherStart, and files that cannot be read keep the one before, with one line in the log.
func TestAnotherCertificateWithoutAnotherStart(t *testing.T) {
	ca := securetest.New(t)
	cert, key := ca.Issue("floodgate")
	next, nextKey := ca.Issue("floodgate-again")
	var log bytes.Buffer
	now := time.Unix(1000, 0)
	c := Config{CertFile: cert, KeyFile: key, Logger: slog.New(slog.NewTextHandler(&log, nil)), Clock: func() time.Time { return now }}
	certs, err := openCertificates(&c)
	if err != nil {
		t.Fatal(err)
	}
	first := certs.current()
	if err := os.WriteFile(cert, []byte("half a"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		now = now.Add(2 * tokensChecked)
		if got := certs.current(); !bytes.Equal(got.Certificate[0], first.Certificate[0]) {
			t.Error("with a broken file: got another certificate, want the one before")
		}
	}
	if n := strings.Count(log.String(), "certificate not changed"); n != 1 {
		t.Errorf("got %d lines, want one:\n%s", n, &log)
	}
	for to, from := range map[string]string{cert: next, key: nextKey} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want, err := tls.LoadX509KeyPair(next, nextKey)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * tokensChecked)
	if got := certs.current(); !bytes.Equal(got.Certificate[0], want.Certificate[0]) {
		t.Error("got the certificate before, want the new one")
	}
}

// TestAStreamGoesOnWhereItsClientIs, begins anew after a place that is not known, and refuses what is no place.
func TestAStreamGoesOnWhereItsClientIs(t *testing.T) {
	for _, bad := range []string{"x", "-1", "1.5", "18446744073709551616", "1, 2", "0x1"} {
		inBubble(t, nil, func(w *world, _ *Server, p *pipes) {
			if status, text := p.get(w.t, "/v1/decisions/stream", "Last-Event-ID: "+bad); status != 400 || !strings.Contains(text, "Last-Event-ID") {
				w.t.Errorf("%q: got %d %s, want 400", bad, status, text)
			}
		})
	}
	inBubble(t, nil, func(w *world, s *Server, p *pipes) {
		t := w.t
		b := *s.backend.Load()
		b.Board = lostBoard{w.board}
		s.Attach(&b)
		for range 3 {
			w.board.close(closing("k\x1b[2J\r\nevent: closed\ndata: {}\n\n", 0))
		}
		c := p.dial(t, streamRequest("Last-Event-ID: 18446744073709551615"))
		defer c.Close()
		e := open(t, c)
		kind, id, data, err := e.next()
		if err != nil || kind != "lost" || id != "7" || !bytes.Contains(data, []byte(`"missed":41`)) {
			t.Errorf("got %s %s %s and %v, want lost, and how many", kind, id, data, err)
		}
		conformEvent(t, data)
		// An id of lines and fields of a stream is one event, in one line of printable characters.
		for range 3 {
			kind, _, data, err = e.next()
			if err != nil || kind != "closed" || bytes.ContainsAny(data, "\x1b\r") {
				t.Errorf("got %s %q and %v, want one closed event", kind, data, err)
			}
			conformEvent(t, data)
		}
	})
}

// lostBoard is a board that has forgotten what came before.
type lostBoard struct{ *fakeBoard }

func (b lostBoard) Subscribe(uint64) (Subscription, error) {
	s, err := b.fakeBoard.Subscribe(0)
	if err != nil {
		return nil, err
	}
	s.(*fakeSubscription).began = true
	return &lostSubscription{Subscription: s}, nil
}

type lostSubscription struct {
	Subscription
	said bool
}

func (s *lostSubscription) Next(ctx context.Context) (Event, error) {
	if !s.said {
		s.said = true
		return Event{Kind: "lost", Number: 7, Missed: 41}, nil
	}
	return s.Subscription.Next(ctx)
}

// conformEvent fails the test if the data of an event has a field that the description does not have, or lacks one.
func conformEvent(t *testing.T, data []byte) {
	t.Helper()
	conformSchema(t, "DecisionEvent", data)
}

// conformSchema compares one object with the names of a schema's properties and with those that it requires. The bodies that are no
// single JSON value, of streams and lines, are compared so.
func conformSchema(t *testing.T, schema string, data []byte) {
	t.Helper()
	var d struct {
		Components struct {
			Schemas map[string]struct {
				Required   []string
				Properties map[string]any
			}
		}
	}
	if err := yaml.Unmarshal(schemas.OpenAPI(), &d); err != nil {
		t.Fatal(err)
	}
	s, ok := d.Components.Schemas[schema]
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil || !ok {
		t.Fatalf("got %s, want a %s: %v", data, schema, err)
	}
	for name := range got {
		if _, ok := s.Properties[name]; !ok {
			t.Errorf("%s: got field %s, which is not described: %s", schema, name, data)
		}
	}
	for _, name := range s.Required {
		if _, ok := got[name]; !ok {
			t.Errorf("%s: got no field %s, which is always there: %s", schema, name, data)
		}
	}
}

// TestTextIsAsDescribed: lines of a list, also the one that says what is missing, and the description itself.
func TestTextIsAsDescribed(t *testing.T) {
	w := newWorld(t)
	one, _ := w.listed(clustered)
	w.board.silence(3)
	a := one.get("/v1/callers", "Accept", "text/html, "+contentLines+";q=0.5")
	n := 0
	for r := bufio.NewScanner(bytes.NewReader(a.body)); r.Scan(); n++ {
		conformSchema(t, "CallerList", r.Bytes())
	}
	if n < 4 || !bytes.Contains(a.body, []byte(`"missing":[3]`)) {
		t.Errorf("got %d lines, want one of each partition, and that 3 is missing", n)
	}
	b := one.get("/v1/openapi.yaml")
	if b.header.Get("Content-Type") != "application/yaml" || !bytes.Equal(b.body, schemas.OpenAPI()) {
		t.Errorf("got %v, want the description as YAML", b.header)
	}
	var d map[string]any
	if err := yaml.Unmarshal(b.body, &d); err != nil || d["openapi"] != "3.1.0" {
		t.Errorf("got %v and %v, want OpenAPI 3.1.0", d["openapi"], err)
	}
}

// TestWhileTheControlTopicIsAwayAPersonLearnsIt: reading goes on, acting is refused with when to come again, and nothing acts twice later.
func TestWhileTheControlTopicIsAwayAPersonLearnsIt(t *testing.T) {
	w := newWorld(t)
	for p := range w.partitions {
		w.board.beat(p, "")
	}
	n := w.node(w.analyzer(0, 1, 2, 3), acting)
	requests := rightRequests()
	w.topic.fails = io.ErrUnexpectedEOF
	for _, ready := range []bool{true, false} {
		w.topic.ready = ready
		for _, o := range requests {
			if o.path == "/v1/decisions/stream" || o.path == "/v1/undo" && ready {
				continue
			}
			a := n.do(o.method, o.url(), o.body, "Idempotency-Key", fmt.Sprintf("%032x", 1+len(o.path)))
			if o.role == roleRead {
				a.want(t, http.StatusOK, "")
				continue
			}
			if a.want(t, http.StatusServiceUnavailable, ""); a.header.Get("Retry-After") == "" {
				t.Errorf("%s: got %v, want Retry-After", o.path, a.header)
			}
		}
	}
	w.topic.ready, w.topic.fails = true, nil
	for range 2 {
		for _, o := range requests {
			if o.role == roleOperate && o.path != "/v1/undo" {
				n.do(o.method, o.url(), o.body, "Idempotency-Key", fmt.Sprintf("%032x", 100+strings.Index("close open limit reset", o.path[4:]))).want(t, http.StatusOK, "")
			}
		}
	}
	if w.topic.len() != 4 {
		t.Errorf("got %d records, want one of each", w.topic.len())
	}
}
