package apid

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

const walkRules = `
version: 1
rules:
  - {name: per-key, callers: key, limit: 10, window: 1m, close_for: 10m}
  - {name: slow, callers: key, limit: 10, window: 1h, close_for: 30m}
`

const walkPartitions = 2

// walkKey is the key with which the analyzers of a test sign.
var walkKey = bytes.Repeat([]byte("k"), api.MinClusterKey)

// plant is a whole installation in this process.
type plant struct {
	t      testing.TB
	broker *embedded.Broker
	client *kafkaio.Client
	url    string // of the API
	rules  *rules.Set
}

func newPlant(t testing.TB) *plant {
	t.Helper()
	dir := t.TempDir()
	broker, err := embedded.Start(embedded.Options{Dir: filepath.Join(dir, "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Close() })
	p := &plant{t: t, broker: broker, client: kafkaio.New(kafkaio.Config{Brokers: broker.Addrs()})}
	t.Cleanup(p.client.Close)
	names := schemas.DefaultTopicNames()
	if _, err := p.client.EnsureTopics(t.Context(), kafkaio.Specs(names, walkPartitions)...); err != nil {
		t.Fatal(err)
	}
	set, err := rules.Parse("rules", []byte(walkRules))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.url, p.rules = "http://"+l.Addr().String(), set
	a := analyzer.New(p.client, analyzer.Config{
		Dir: filepath.Join(dir, "counts"),
		Join: func() (analyzer.Membership, error) {
			return kafkaio.NewGroup(kafkaio.GroupConfig{Client: p.client, Group: "floodgate", Topic: names.Requests})
		},
		Owner: analyzer.OwnerConfig{
			Fold: fold.Options{Partitions: walkPartitions, MaxRows: 10_000}, Requests: names.Requests, Decisions: names.Decisions, State: names.State,
			Control: names.Control, API: l.Addr().String(), Rules: set, Name: "walk",
		},
	})
	c := api.Config{Address: l.Addr().String(), Advertise: l.Addr().String(), LoopbackActs: true, ClusterKey: walkKey}
	server, err := api.New(c)
	if err != nil {
		t.Fatal(err)
	}
	life := Life{
		Server: server, Analyzer: a, Log: p.client, Names: names, Partitions: walkPartitions, Logger: slog.New(slog.DiscardHandler),
		Follow: &kafkalink.FollowConfig{Brokers: broker.Addrs(), Logger: slog.New(slog.DiscardHandler)},
	}
	p.runs(a.Run, life.Run, func(ctx context.Context) error { return server.Serve(ctx, l) })
	return p
}

// runs runs parts until the test ends.
func (p *plant) runs(parts ...func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	for _, part := range parts {
		g.Go(func() error { return part(ctx) })
	}
	p.t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			p.t.Errorf("got %v, want all parts to end well", err)
		}
	})
}

// front starts the API of another analyzer, which owns nothing, and returns its URL.
func (p *plant) front() string {
	p.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	server, err := api.New(api.Config{Address: l.Addr().String(), Advertise: l.Addr().String(), ClusterKey: walkKey, LoopbackActs: true})
	if err != nil {
		p.t.Fatal(err)
	}
	names := schemas.DefaultTopicNames()
	life := Life{
		Server: server, Log: p.client, Names: names, Partitions: walkPartitions, Logger: slog.New(slog.DiscardHandler),
		Analyzer: analyzer.New(p.client, analyzer.Config{Owner: analyzer.OwnerConfig{Rules: p.rules}}),
		Follow:   &kafkalink.FollowConfig{Brokers: p.broker.Addrs(), Logger: slog.New(slog.DiscardHandler)},
	}
	p.runs(life.Run, func(ctx context.Context) error { return server.Serve(ctx, l) })
	url := "http://" + l.Addr().String()
	get := func(path string, to any) bool {
		resp, err := http.Get(url + path)
		if err != nil {
			return false
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(to) == nil
	}
	p.await("an API that knows the owners", func() bool { return get("/v1/caller?caller=key:a", new(apiv1.CallerState)) })
	var s apiv1.Status
	p.await("and the control topic", func() bool { return get("/v1/status", &s) && s.Control.Ready })
	return url
}

// web is a server with a gate.
type web struct {
	plant *plant
	http  http.Handler
	set   *gate.Set
}

// web starts another server, and waits until its gate hears both owners.
func (p *plant) web() *web {
	p.t.Helper()
	set, rec := gate.New(gate.Options{}), record.New(record.Options{})
	link, err := kafkalink.Open(set, rec, kafkalink.Config{Brokers: p.broker.Addrs(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(link.Close)
	w := &web{plant: p, set: set, http: gatehttp.New(gatehttp.Options{
		Set: set, Recorder: rec, Callers: []gatehttp.CallerFunc{gatehttp.Header("key", "X-Api-Key")},
	})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))}
	p.await("a gate that hears both owners", func() bool {
		s := set.Status()
		fresh := 0
		for _, part := range s.Partitions {
			if part.Freshness == gate.Fresh {
				fresh++
			}
		}
		return fresh == walkPartitions
	})
	return w
}

// ask sends a request of a caller, and returns its status.
func (w *web) ask(key string) int {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Header.Set("X-Api-Key", key)
	rec := httptest.NewRecorder()
	w.http.ServeHTTP(rec, r)
	return rec.Code
}

// closed waits until the gate says so, or the contrary. It sends no request.
func (w *web) closed(key string, want bool) {
	w.plant.t.Helper()
	w.plant.await(fmt.Sprintf("%s closed: %t", key, want), func() bool { return (w.ask(key) == http.StatusTooManyRequests) == want })
}

// await waits for a condition, for half a minute at most.
func (p *plant) await(what string, is func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("half a minute went by without %s", what)
		}
	}
}

// call sends a request to the API, and reads the answer into v.
func (p *plant) call(method, path string, request, v any) int {
	p.t.Helper()
	var body io.Reader = http.NoBody
	if request != nil {
		b, err := json.Marshal(request)
		if err != nil {
			p.t.Fatal(err)
		}
		body = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && v != nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil || resp.StatusCode >= 300 {
		p.t.Logf("%s %s: %d %s %v", method, path, resp.StatusCode, text, err)
	}
	return resp.StatusCode
}

// act sends what a person decides, which must be applied, and returns the record's id.
func (p *plant) act(path string, request any) string {
	p.t.Helper()
	var a apiv1.ActionAnswer
	if status := p.call(http.MethodPost, path, request, &a); status != http.StatusOK || !a.Applied {
		p.t.Fatalf("%s: got %d %+v, want it applied", path, status, a)
	}
	return a.Action.ID
}

// explain returns what the API says of a caller.
func (p *plant) explain(key string) (e apiv1.Explanation) {
	p.t.Helper()
	if status := p.call(http.MethodGet, "/v1/explain?caller=key:"+key, nil, &e); status != http.StatusOK {
		p.t.Fatalf("explain: got %d", status)
	}
	return e
}

// verdict waits for a verdict about a caller.
func (p *plant) verdict(key string, want apiv1.Verdict) (e apiv1.Explanation) {
	p.t.Helper()
	p.await("the verdict "+string(want), func() bool { e = p.explain(key); return e.Verdict == want })
	return e
}

// TestTheWalkOfAnOperator: what a person does at night, from the first question to the last undo, with a gate that obeys.
func TestTheWalkOfAnOperator(t *testing.T) {
	p := newPlant(t)
	w := p.web()
	noisy := apiv1.Caller{Kind: "key", ID: "noisy-1"}
	inAnHour := time.Now().Add(time.Hour).UTC()
	for w.ask("noisy-1") != http.StatusTooManyRequests {
		time.Sleep(time.Millisecond)
	}
	e := p.verdict("noisy-1", apiv1.Closed)
	if len(e.Rules) != 2 || e.At == nil || e.Until.IsZero() || !strings.Contains(e.Sentence, "key:noisy-1") {
		t.Errorf("got %+v, want who is closed, by what, until when", e)
	}
	p.await("both rules to close", func() bool {
		e = p.explain("noisy-1")
		return e.Rules[0].Verdict == apiv1.Closed && e.Rules[1].Verdict == apiv1.Closed
	})

	// A caller that is closed under two rules: open opens both, also at a gate that starts later.
	open := p.act("/v1/open", apiv1.OpenRequest{Caller: noisy, Until: inAnHour, Reason: "ticket 4711"})
	w.closed("noisy-1", false)
	w.closed("noisy-1", false)
	later := p.web()
	later.closed("noisy-1", false)
	if e := p.verdict("noisy-1", apiv1.OpenedByHand); !strings.Contains(e.Sentence, "ticket 4711") {
		t.Errorf("got %q, want who opened it, and why", e.Sentence)
	}

	// Undone, the next request over the limit closes it again.
	p.act("/v1/undo", apiv1.UndoRequest{ID: open, Reason: "enough"})
	w.closed("noisy-1", true)
	later.closed("noisy-1", true)

	// A higher limit opens at once, and keeps the counts.
	before := p.explain("noisy-1").Rules[1].Count
	for _, rule := range []string{"per-key", "slow"} {
		p.act("/v1/limit", apiv1.LimitRequest{Caller: noisy, Rule: rule, Limit: 1_000_000, Until: inAnHour, Reason: "paid"})
	}
	p.verdict("noisy-1", apiv1.Ended) // it was closed until a moment ago
	w.closed("noisy-1", false)
	if after := p.explain("noisy-1").Rules[1]; after.Count < before || after.Limit.Limit != 1_000_000 {
		t.Errorf("got a count of %d under %d, want the %d of before under 1000000", after.Count, after.Limit.Limit, before)
	}

	// Closed by hand, whatever it sends, until it is undone.
	quiet := apiv1.Caller{Kind: "key", ID: "quiet-1"}
	shut := p.act("/v1/close", apiv1.CloseRequest{Caller: quiet, Until: inAnHour, Reason: "abuse"})
	w.closed("quiet-1", true)
	p.verdict("quiet-1", apiv1.ClosedByHand)
	p.act("/v1/undo", apiv1.UndoRequest{ID: shut, Reason: "a mistake"})
	w.closed("quiet-1", false)
	p.walkOn(w, inAnHour)
	p.url = p.front() // any analyzer answers, and takes what a person decides
	p.verdict("noisy-1", apiv1.Ended)
	again := p.act("/v1/close", apiv1.CloseRequest{Caller: quiet, Until: inAnHour, Reason: "abuse"})
	w.closed("quiet-1", true)
	p.act("/v1/undo", apiv1.UndoRequest{ID: again, Reason: "a mistake"})
	w.closed("quiet-1", false)
}

// walkOn is the second half: reset, mode, try, and the log of all that.
func (p *plant) walkOn(w *web, inAnHour time.Time) {
	t := p.t
	for w.ask("noisy-2") != http.StatusTooManyRequests {
		time.Sleep(time.Millisecond)
	}
	p.verdict("noisy-2", apiv1.Closed)
	p.act("/v1/reset", apiv1.ResetRequest{Caller: apiv1.Caller{Kind: "key", ID: "noisy-2"}, Reason: "innocent"})
	w.closed("noisy-2", false)
	for w.ask("noisy-2") != http.StatusTooManyRequests {
		time.Sleep(time.Millisecond)
	}
	p.verdict("noisy-2", apiv1.Closed)
	brake := p.act("/v1/mode", apiv1.ModeRequest{Mode: "shadow", Until: inAnHour, Reason: "trial"})
	w.closed("noisy-2", false)
	p.verdict("noisy-2", apiv1.ShadowOnly)
	p.act("/v1/undo", apiv1.UndoRequest{ID: brake, Reason: "trial is over"})
	w.closed("noisy-2", true)

	var try apiv1.TryAnswer
	p.call(http.MethodPost, "/v1/try", apiv1.TryRequest{Callers: []apiv1.Caller{{Kind: "key", ID: "new"}, {Kind: "key", ID: "noisy-2"}}, Count: 5}, &try)
	if try.Passes || try.Admitted != 0 || len(try.Callers) != 2 {
		t.Errorf("got %+v, want that noisy-2 would be refused", try)
	}
	var list apiv1.ActionList
	p.call(http.MethodGet, "/v1/actions", nil, &list)
	states := make(map[string]int)
	for _, a := range list.Actions {
		states[a.Action+" "+a.State]++
	}
	if got := fmt.Sprint(states); got != "map[close undone:1 limit in_force:2 mode undone:1 open undone:1 reset done:1 undo done:3]" {
		t.Errorf("got %s, want all that was done", got)
	}
	var status apiv1.Status
	p.call(http.MethodGet, "/v1/status", nil, &status)
	if !status.Board.Ready || !status.Control.Ready || status.Control.Next < 9 || len(status.Partitions) != walkPartitions || !status.Partitions[0].Here || !status.RulesAgree {
		t.Errorf("got %+v, want all parts to be ready", status)
	}
	var callers apiv1.CallerList
	p.call(http.MethodGet, "/v1/callers?sort=count", nil, &callers)
	if len(callers.Callers) == 0 || len(callers.At) != walkPartitions {
		t.Errorf("got %+v, want the callers that were counted", callers)
	}
	var held apiv1.DecisionList
	p.call(http.MethodGet, "/v1/decisions?caller=key:noisy-2", nil, &held)
	if len(held.Decisions) == 0 || held.Decisions[0].Mode != "enforce" {
		t.Errorf("got %+v, want what the gates hold", held)
	}
}
