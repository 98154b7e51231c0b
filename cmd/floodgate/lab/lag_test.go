//go:build lab

package lab

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// How much load TestLag measures under. A short run is part of every go test; the figures come from, for example,
//
//	FLOODGATE_KAFKA=$(deploy/kafka/kafka.sh start) go test -tags lab ./cmd/floodgate/lab -run TestLag -v -count 1 \
//		-lag.rate 50000 -lag.for 30s -lag.warm 20s -lag.noisy 200
var (
	lagRate    = flag.Int("lag.rate", 4000, "requests a second in TestLag, 20 for each noisy caller among them")
	lagFor     = flag.Duration("lag.for", 2*time.Second, "for how long")
	lagWarm    = flag.Duration("lag.warm", 0, "before it measures: a broker in Java starts slowly")
	lagCallers = flag.Int("lag.callers", 100_000, "who makes them, by Zipf's law")
	lagNoisy   = flag.Int("lag.noisy", 100, "callers a second of whom every second one reaches its limit")
	lagServers = flag.Int("lag.servers", 2, "processes that serve them")
)

// measureRules count callers of two kinds. Calm ones never reach their limit; noisy ones reach it at their 20th request.
const measureRules = `
version: 1
rules:
  - {name: all, callers: key, limit: 1000000000000, window: 8760h, algorithm: fixed}
  - {name: per-noisy, callers: noisy, limit: 20, window: 1h}
`

// watcher is a gate in this process: it takes note of when who was closed. What is only predicted is no close yet.
type watcher struct {
	also func(schemas.Decision, time.Time) // hears of all decisions, too; may be nil

	mu     sync.Mutex
	closed map[string]time.Time // guarded by mu: first
	twice  int                  // guarded by mu
}

func (w *watcher) applied(d schemas.Decision, at time.Time) {
	if w.also != nil {
		w.also(d, at)
	}
	if d.Caller.Kind == schemas.KindCanary || d.Until <= d.CloseAt || d.Early {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.closed[d.Caller.ID]; ok {
		w.twice++
		return
	}
	w.closed[d.Caller.ID] = at
}

func (w *watcher) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.closed)
}

// follow runs a gate that only watches, until the test ends, with a canary to each partition in each interval.
func (r *rig) follow(w *watcher, canary time.Duration) *kafkalink.Link {
	r.t.Helper()
	link, err := kafkalink.Open(gate.New(gate.Options{}), record.New(record.Options{}), kafkalink.Config{
		Brokers: strings.Split(r.broker, ","), Canary: canary, Observe: w.applied,
		Topics: schemas.TopicNames{Requests: r.topic("requests"), Decisions: r.topic("decisions")},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.runLink(link)
	return link
}

// runLink keeps a link open until the test ends, and waits until it is ready.
func (r *rig) runLink(link *kafkalink.Link) {
	r.t.Helper()
	r.t.Cleanup(link.Close)
	if err := link.Ready(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// TestLag measures from a server's clock at the request that reached a limit until a gate in another process has closed:
// servers, broker, analyzer and that gate are processes of their own. The server's merging, the link's flush, and both
// ways through Kafka are in it. Whoever reached the limit is closed, nobody else is, and all requests are counted.
func TestLag(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	r := newRig(t, measureRules, 4)
	r.analyze()
	w := &watcher{closed: make(map[string]time.Time)}
	r.follow(w, -1)
	var servers []*processtest.Program
	for i := range *lagServers {
		servers = append(servers, startLoad(t, loadPlan{
			Brokers: r.broker, Suffix: r.suffix, Name: fmt.Sprint("s", i), Callers: *lagCallers,
			Rate: max(*lagRate-noisyLimit**lagNoisy, 0) / *lagServers, For: *lagWarm + *lagFor, Noisy: *lagNoisy / *lagServers,
		}))
	}
	sum, reached := serverSummaries(servers, *lagWarm+*lagFor+time.Minute)
	processtest.Eventually(t, time.Minute, "everybody who reached the limit closed", func() bool { return w.count() >= len(reached) })
	r.catchUp("floodgate_next_offset", time.Minute)
	took := r.lags(w, reached, time.Unix(0, sum.Began).Add(*lagWarm), 0)
	r.wholeTruth(sum)
	if len(took) == 0 {
		t.Error("nobody reached the limit: nothing was measured")
	}
	seconds := float64(sum.Ended-sum.Began) / 1e9
	now, peak, own := r.resident()
	t.Logf("%s: %.0f requests/s by %d servers, %.0f entries/s merged, %d callers; analyzer %d MiB, %d of them its own, at most %d\n"+
		"from the request that reached the limit to the gate closed in another process: %s",
		r.kafka, float64(sum.Acked)/seconds, len(servers), r.metric("floodgate_entries_total")/seconds, *lagCallers,
		now>>20, own>>20, peak>>20, histogram(took))
}

// serverSummaries waits until the servers have ended, and returns what became of their requests, and who reached the limit when.
func serverSummaries(servers []*processtest.Program, within time.Duration) (sum loadSummary, reached map[string]time.Time) {
	reached = make(map[string]time.Time)
	for _, s := range servers {
		sum.add(summaryOf[loadSummary](s, within))
		for line := range strings.Lines(s.Text()) {
			var id string
			var at int64
			if n, _ := fmt.Sscanf(line, "reached %s %d", &id, &at); n == 2 {
				reached[id] = time.Unix(0, at)
			}
		}
	}
	return sum, reached
}

// lags returns how long it took to close each who reached the limit at from or later, and fails the test for anybody
// closed who did not, or if more than so many of them stayed open.
func (r *rig) lags(w *watcher, reached map[string]time.Time, from time.Time, open int) (took []time.Duration) {
	r.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, at := range w.closed {
		since, ok := reached[id]
		if !ok {
			r.t.Errorf("%s was closed, who never reached the limit", id)
			continue
		}
		if !since.Before(from) {
			took = append(took, at.Sub(since))
		}
	}
	if len(w.closed)+open < len(reached) {
		r.t.Errorf("got %d callers closed, want the %d who reached the limit", len(w.closed), len(reached))
	}
	return took
}

func (s *loadSummary) add(o loadSummary) {
	if s.Began == 0 || o.Began < s.Began {
		s.Began = o.Began
	}
	s.Ended = max(s.Ended, o.Ended)
	s.Accepted += o.Accepted
	s.Acked += o.Acked
	s.Unknown += o.Unknown
	s.Dropped += o.Dropped
	s.Blocked += o.Blocked
	s.Frames += o.Frames
}

// wholeTruth wants every request to be in the log, and counted once.
func (r *rig) wholeTruth(sum loadSummary) {
	r.t.Helper()
	if sum.Accepted == 0 || sum.Acked != sum.Accepted {
		r.t.Errorf("requests: got %d in the log, %d dropped and %d of which nobody knows, want all %d", sum.Acked, sum.Dropped, sum.Unknown, sum.Accepted)
	}
	if got := r.metric("floodgate_requests_total"); got != float64(sum.Acked) {
		r.t.Errorf("counted: got %.0f requests, want the %d in the log", got, sum.Acked)
	}
}
