//go:build lab

package lab

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

var notifyKills = flag.Int("notify.kills", 20, "how often TestNotifyKillMinus9 kills notify")

const (
	eventsTopic      = "floodgate.events"
	eventsPartitions = 4
)

// hook is a receiver of webhooks. It verifies each signature, and knows when each event came first.
type hook struct {
	*httptest.Server

	t      testing.TB
	secret string                                 // set before the first request
	flaky  func(w http.ResponseWriter) (bad bool) // nil: never

	mu       sync.Mutex
	first    map[string]time.Time   // guarded by mu: by id of the event
	events   map[string]event.Event // guarded by mu: by id
	order    map[string][]int64     // guarded by mu: offsets, by caller, as events came first
	requests int                    // guarded by mu
}

func newHook(t testing.TB) *hook {
	t.Helper()
	h := &hook{t: t, first: make(map[string]time.Time), events: make(map[string]event.Event), order: make(map[string][]int64)}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

// ServeHTTP implements http.Handler.
func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := processtest.Verified(r, h.secret)
	if err != nil {
		if body != nil { // else the sender was killed amid its request
			h.t.Errorf("got %v, want each message verified", err)
		}
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests++
	if h.flaky != nil && h.flaky(w) {
		return
	}
	var m struct {
		Type string
		Data event.Event
	}
	if err := json.Unmarshal(body, &m); err != nil || m.Data.ID != r.Header.Get("Webhook-Id") {
		h.t.Errorf("got %s, %v, want one event, whose id is that of the webhook", body, err)
		return
	}
	if _, known := h.first[m.Data.ID]; !known {
		h.first[m.Data.ID], h.events[m.Data.ID] = time.Now(), m.Data
		h.order[m.Data.Caller.String()] = append(h.order[m.Data.Caller.String()], m.Data.Offset)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (h *hook) received() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.first)
}

// eventLog writes events to a topic of its own, and knows their ids.
type eventLog struct {
	t      testing.TB
	client *kafkaio.Client
	sent   map[string]time.Time // when each was given to Kafka, by id
	n      int64
}

func newEventLog(t testing.TB, brokers string) *eventLog {
	t.Helper()
	l := &eventLog{t: t, client: kafkaio.New(kafkaio.Config{Brokers: []string{brokers}}), sent: make(map[string]time.Time)}
	t.Cleanup(l.client.Close)
	if _, err := l.client.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: eventsTopic, Partitions: eventsPartitions}); err != nil {
		t.Fatal(err)
	}
	return l
}

// write produces the event that a caller was closed.
func (l *eventLog) write(ctx context.Context, caller int) {
	now := time.Now().UTC()
	partition := caller % eventsPartitions
	e := event.Event{
		Type: event.Closed, Time: now, Partition: partition, Offset: l.n, Rule: "per-key", Mode: schemas.ModeEnforce.String(), CloseAt: now,
		Caller: event.CallerOf(schemas.Caller{Kind: "key", ID: fmt.Sprintf("caller-%d", caller)}), Until: now.Add(time.Minute), Count: 10, Limit: 10, Nth: 1,
	}
	e.Identify()
	l.n++
	l.sent[e.ID] = time.Now()
	if _, err := l.client.Produce(ctx, eventsTopic, partition, kafkaio.Message{Time: now.UnixNano(), Value: e.Encode()}); err != nil {
		l.t.Errorf("produce: %v", err)
	}
}

// TestNotifyKillMinus9 kills notify again and again while events come and the receiver fails now and then. In the end each event was
// delivered, each signature was right, and no caller's event came before an earlier one of that caller.
func TestNotifyKillMinus9(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	h := newHook(t)
	h.flaky = func(w http.ResponseWriter) bool {
		switch rand.IntN(20) {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 1: // ends the connection without an answer
			panic(http.ErrAbortHandler)
		default:
			return false
		}
		return true
	}
	path, secret := processtest.NotifySettings(t, h.URL, "    digest: off\n")
	h.secret = secret
	log := newEventLog(t, b.Addr())
	run := func() *processtest.Program {
		return start(t, "notify", "--brokers", b.Addr(), "--config", path, "--listen", "127.0.0.1:0", "--session-timeout", "2s")
	}
	ctx := t.Context()
	p := run()
	inside := 0
	for range *notifyKills {
		p.WaitFor(`msg="reading events" (.*)`, time.Minute)
		for range 50 + rnd.IntN(50) {
			log.write(ctx, rnd.IntN(400))
		}
		time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
		if h.received() < len(log.sent) {
			inside++
		}
		p.Kill()
		p = run()
	}
	processtest.Eventually(t, 5*time.Minute, "all events delivered", func() bool { return h.received() == len(log.sent) })
	if code := p.Stop(os.Interrupt); code != 0 {
		t.Errorf("got exit code %d, want 0:\n%s", code, p.Text())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range log.sent {
		if _, ok := h.first[id]; !ok {
			t.Errorf("got no event %s", id)
		}
	}
	for caller, offsets := range h.order {
		if !slices.IsSorted(offsets) {
			t.Errorf("%s: got its events in the order %v", caller, offsets)
		}
	}
	t.Logf("%d kills, %d of them while events waited; %d events in %d requests", *notifyKills, inside, len(log.sent), h.requests)
}

// BenchmarkNotifyLag measures how long an event takes from the produce to the receiver, with digests as they are by default but for the
// number of events: 100 within 10 s are no storm here. The figure is for people; nothing depends on it.
func BenchmarkNotifyLag(t *testing.B) {
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	h := newHook(t)
	path, secret := processtest.NotifySettings(t, h.URL, "    digest: {over: 10000}\n")
	h.secret = secret
	log := newEventLog(t, b.Addr())
	p := start(t, "notify", "--brokers", b.Addr(), "--config", path, "--listen", "")
	p.WaitFor(`msg="reading events" (.*)`, time.Minute)
	const events = 200
	for n := range events {
		log.write(t.Context(), n)
		time.Sleep(10 * time.Millisecond)
	}
	processtest.Eventually(t, time.Minute, "all events delivered", func() bool { return h.received() == events })
	h.mu.Lock()
	defer h.mu.Unlock()
	var lags []time.Duration
	for id, sent := range log.sent {
		lags = append(lags, h.first[id].Sub(sent))
	}
	slices.Sort(lags)
	t.Logf("from the produce to the receiver: p50 %v, p99 %v of %d events; the bar is 500ms", lags[events/2], lags[events*99/100], events)
}
