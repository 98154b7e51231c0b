//go:build lab

package lab

import (
	"flag"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// How long streams and windows of TestAgentsBeforeALanguageModel are. It is a quarter of what users have; that is
//
//	go test -tags lab ./cmd/floodgate/lab -run TestAgentsBefore -v -count 1 -holds.stream 10s -holds.window 1m -holds.windows 10
var (
	holdsStream  = flag.Duration("holds.stream", 2500*time.Millisecond, "how long the model streams on average")
	holdsWindow  = flag.Duration("holds.window", 15*time.Second, "the window of the limit")
	holdsWindows = flag.Int("holds.windows", 6, "how many windows are judged; the one in which the agents start is not")
)

const (
	holdsLimit    = 100_000 // tokens
	holdsMean     = 1000    // tokens of a request
	holdsAgents   = 50
	holdsGateways = 4
	holdsKilled   = 2 // gateway, and window in which it is killed
)

// holdsRules limit the tokens of a key in a window, and count all that were ever served.
const holdsRules = `
version: 1
rules:
  - {name: tokens, callers: key, measure: cost, limit: 100000, window: WINDOW, algorithm: fixed, charge: arrival,
     hold: {estimate: 1000, margin: 2, longest: 2m}}
  - {name: all, callers: key, measure: cost, limit: 1000000000000, window: 8760h, algorithm: fixed}
`

// TestAgentsBeforeALanguageModel: 50 agents share one key and want three times what its limit allows. They ask a model through four
// proxies, each a process of its own. A proxy learns what a request costs when its stream ends. One proxy is killed while streams run
// through it. The key gets what its limit allows in each window, and little more; another key is never refused.
func TestAgentsBeforeALanguageModel(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two minutes")
	}
	t.Setenv("FLOODGATE_KAFKA", "") // the proxies know no other topics than those that everybody has
	r := newRig(t, strings.ReplaceAll(holdsRules, "WINDOW", holdsWindow.String()), 1)
	r.suffix = ""
	r.analyze()
	f := newFleet(t, r.broker)
	first := time.Now().Truncate(*holdsWindow).Add(*holdsWindow)
	var agents sync.WaitGroup
	for range holdsAgents {
		agents.Go(func() { f.agent("agents") })
	}
	agents.Go(func() { f.agent("quiet") })
	time.Sleep(time.Until(first.Add(holdsKilled**holdsWindow + *holdsStream)))
	f.gateways[holdsKilled].Kill()
	killed := time.Now()
	time.Sleep(time.Until(first.Add(time.Duration(*holdsWindows) * *holdsWindow)))
	f.ended.Store(true)
	agents.Wait()
	for i, g := range f.gateways {
		if i != holdsKilled && g.Stop(syscall.SIGTERM) != 0 {
			t.Errorf("gateway %d: it failed when it was stopped:\n%s", i, g.Text())
		}
	}
	r.catchUp("floodgate_next_offset", time.Minute)
	if code := r.analyzer.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, r.analyzer.Text())
	}
	f.judge(first)
	f.judgeCounts(r, killed)
	f.judgeDecisions(r)
	if out, err := runCommand("audit", "--brokers", r.broker, "--rules", r.rules, "--data", r.data()); err != nil {
		t.Errorf("audit: %v\n%s", err, out)
	}
}

// judge compares what the model has streamed to the agents with the limit, by the window in which requests arrived. In the window in which
// a gateway was killed less may be served: nobody says what its streams have cost.
func (f *fleet) judge(first time.Time) {
	f.t.Helper()
	sums := make([]float64, *holdsWindows)
	f.mu.Lock()
	for _, a := range f.served {
		if i := int(a.began.Sub(first) / *holdsWindow); a.began.After(first) && i < len(sums) && a.key == "Bearer agents" {
			sums[i] += float64(a.tokens) / holdsLimit
		}
	}
	requests := len(f.served)
	f.mu.Unlock()
	over, most, used := 0.0, 0.0, 0.0
	for i, sum := range sums {
		over += max(sum-1, 0) / float64(len(sums))
		most = max(most, sum-1)
		if i != holdsKilled {
			used += min(sum, 1) / float64(len(sums)-1)
		}
	}
	f.t.Logf("served, in limits: %.3f; over %.1f %%, at most %.1f %%; used %.1f %%; %d requests, %d refused, %d broken; %d answers to the quiet key",
		sums, 100*over, 100*most, 100*used, requests, f.refused.Load(), f.broken.Load(), f.quiet.Load())
	if over > 0.05 || most > 0.4 || used < 0.92 {
		f.t.Error("want 5 % over the limit on average, 40 % at most, and 92 % of it used")
	}
	if f.broken.Load() == 0 || f.refused.Load() < holdsLimit/holdsMean || f.quiet.Load() == 0 {
		f.t.Error("want streams through the gateway that was killed, many requests refused, and a quiet key that was answered: otherwise nothing was tried")
	}
}

// judgeCounts wants each key to have in the store what the model has said, but for what the killed gateway had not sent yet.
func (f *fleet) judgeCounts(r *rig, killed time.Time) {
	f.t.Helper()
	set, err := rules.Load(r.rules)
	if err != nil {
		f.t.Fatal(err)
	}
	counted := make(map[string]int64)
	for _, sp := range openStores(f.t, r.data(), set) {
		sp.fold.View().Rows(sp.fold.LogTime(), func(row fold.Row) bool {
			if row.Rule.Name == "all" {
				counted["Bearer "+row.ID] += row.Total
			}
			return true
		})
	}
	said, unsent := make(map[string]int64), make(map[string]int64)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.served {
		if a.complete {
			said[a.key] += a.tokens
		}
		if a.complete && a.gateway == f.urls[holdsKilled] && a.ended.After(killed.Add(-time.Second)) {
			unsent[a.key] += a.tokens
		}
	}
	for key, n := range said {
		if got := counted[key]; got > n || got < n-unsent[key] {
			f.t.Errorf("%s: got %d tokens in the store, want the %d that the model has said, of which at most %d were lost with a gateway", key, got, n, unsent[key])
		}
	}
}

// judgeDecisions wants few decisions about the agents, and nobody else closed.
func (f *fleet) judgeDecisions(r *rig) {
	f.t.Helper()
	about, held := 0, 0
	for next, end := int64(0), int64(1); next < end; {
		var err error
		if _, end, err = r.client.Range(f.t.Context(), r.topic("decisions"), 0); err != nil {
			f.t.Fatal(err)
		}
		b, err := r.client.Fetch(f.t.Context(), kafkaio.FetchRequest{Topic: r.topic("decisions"), Offset: next, MaxBytes: 4 << 20})
		if err != nil {
			f.t.Fatal(err)
		}
		next = b.Next
		for i := range b.Records {
			rec, err := pb.Decode(b.Records[i].Value)
			switch {
			case err != nil:
				f.t.Fatal(err)
			case rec.Decision == nil || rec.Decision.Caller.Kind == schemas.KindCanary:
			case rec.Decision.Caller.ID == "agents":
				about++
				if rec.Decision.Held {
					held++
				}
			case rec.Decision.Until > rec.Decision.CloseAt:
				f.t.Errorf("closed who is far from the limit: %+v", rec.Decision)
			}
		}
	}
	minutes := time.Since(f.began).Minutes()
	f.t.Logf("%d decisions about the agents, %d of them because of requests in flight: %.0f a minute", about, held, float64(about)/minutes)
	allowed := 60.0
	if *holdsWindow < time.Minute {
		allowed = 100 // each window has its own
	}
	if held == 0 || float64(about) > allowed*minutes {
		f.t.Errorf("got %d decisions about the agents in %.1f minutes, %d of them because of requests in flight; want some, and %v a minute at most",
			about, minutes, held, allowed)
	}
}
