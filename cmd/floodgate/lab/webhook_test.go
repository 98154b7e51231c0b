//go:build lab

package lab

import (
	"flag"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas/event"
)

var (
	webhookRate  = flag.Int("webhook.rate", 2000, "TestCloseToWebhook: requests a second of callers that stay open")
	webhookNoisy = flag.Int("webhook.noisy", 20, "TestCloseToWebhook: callers a second of whom every second one reaches its limit")
	webhookFor   = flag.Duration("webhook.for", 3*time.Second, "TestCloseToWebhook: for how long")
)

// TestCloseToWebhook goes the whole way, with each part in a process of its own: a server serves requests, Kafka has them, the analyzer
// closes who reaches the limit, and notify tells the receiver. It is told of each caller that reached the limit, once, and of nobody
// else; each signature is right. The time that this takes is for people; nothing depends on it. The figure is by
//
//	go test -tags lab ./cmd/floodgate/lab -run TestCloseToWebhook -v -count 1 -webhook.for 20s
func TestCloseToWebhook(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	t.Parallel()
	r := newRig(t, measureRules, 4)
	r.analyze("--api-listen", "")
	h := newHook(t)
	path, secret := processtest.NotifySettings(t, h.URL, "    routes: [{types: closed}]\n    digest: {over: 10000}\n")
	h.secret = secret
	p := start(t, "notify", "--brokers", r.broker, "--topic-name", "events="+r.topic("events"), "--group", "notify"+r.suffix, "--config", path, "--listen", "")
	p.WaitFor(`msg="reading events" (.*)`, time.Minute)
	server := startLoad(t, loadPlan{
		Brokers: r.broker, Suffix: r.suffix, Name: "s", Callers: 1000, Rate: *webhookRate, For: *webhookFor, Noisy: *webhookNoisy,
	})
	sum, reached := serverSummaries([]*processtest.Program{server}, *webhookFor+time.Minute)
	processtest.Eventually(t, time.Minute, "the receiver told of all who reached the limit", func() bool { return h.received() >= len(reached) })
	r.catchUp("floodgate_next_offset", time.Minute)
	r.wholeTruth(sum)
	if code := p.Stop(os.Interrupt); code != 0 {
		t.Errorf("notify: got exit code %d, want 0:\n%s", code, p.Text())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	told := make(map[string]bool)
	var took []time.Duration
	for id, e := range h.events {
		at, ok := reached[e.Caller.ID] // counted or, while its gate was closed ahead of time, refused
		if !ok || told[e.Caller.ID] || e.Type != event.Closed || e.Rule != "per-noisy" || e.Caller.Kind != "noisy" || e.Limit != noisyLimit {
			t.Errorf("got %+v, want each caller that reached the limit once", e)
			continue
		}
		told[e.Caller.ID] = true
		took = append(took, h.first[id].Sub(at))
	}
	if len(told) != len(reached) || len(told) == 0 {
		t.Errorf("got events of %d callers, want the %d who reached the limit: %v", len(told), len(reached), slices.Sorted(maps.Keys(reached)))
	}
	t.Logf("%s: from the request that reached the limit to the webhook received: %s; the bar is 500ms for p99", r.kafka, histogram(took))
}
