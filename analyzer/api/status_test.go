package api

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// countingStats is an analyzer that counts how often it is asked for its numbers.
type countingStats struct {
	*fakeAnalyzer

	asked int
}

func (c *countingStats) Stats() []analyzer.OwnerStats {
	c.asked++
	return c.fakeAnalyzer.Stats()
}

// TestAStatusTakesTheNumbersOnce, and not once for each partition: each time is a copy of all numbers of all owners.
func TestAStatusTakesTheNumbersOnce(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 2), nil)
	b := *n.server.backend.Load()
	counting := &countingStats{fakeAnalyzer: w.analyzers[0]}
	b.Analyzer = counting
	n.server.Attach(&b)
	var v apiv1.Status
	a := n.get("/v1/status")
	a.want(t, http.StatusOK, "")
	a.into(t, &v)
	if counting.asked != 1 {
		t.Errorf("got %d questions for the numbers of owners, want 1", counting.asked)
	}
	for p, here := range []bool{true, false, true, false} {
		if v.Partitions[p].Here != here || here && v.Partitions[p].State != "running" {
			t.Errorf("partition %d: got %+v, want here: %v", p, v.Partitions[p], here)
		}
	}
}

// status asks for the status.
func (n *node) status() (v apiv1.Status) {
	n.world.t.Helper()
	a := n.get("/v1/status")
	a.want(n.world.t, http.StatusOK, "")
	a.into(n.world.t, &v)
	return v
}

// TestABrakeShows from when it is pulled until it is undone: in the status, and beside the mode that the file gives each rule.
func TestABrakeShows(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), func(c *Config) { c.LoopbackActs = true })
	for p := range w.partitions {
		w.board.beat(p, "")
	}
	w.topic.after = func(offset int64) { w.board.applied(offset + 1) }
	rules := func() (v apiv1.Rules) {
		a := n.get("/v1/rules")
		a.want(t, http.StatusOK, "")
		a.into(t, &v)
		return v
	}
	if v := n.status(); len(v.Brakes) != 0 {
		t.Errorf("before: got %+v, want no brake", v.Brakes)
	}
	n.post("/v1/mode", body("mode", "shadow", "rule", "per-ip", "until", inAnHour(), "reason", "older")).want(t, http.StatusOK, "")
	n.post("/v1/mode", body("mode", "shadow", "until", inAnHour(), "reason", "ticket 4711")).want(t, http.StatusOK, "")
	v := n.status()
	if len(v.Brakes) != 2 || v.Brakes[0].Reason != "ticket 4711" || v.Brakes[0].Rule != "" || v.Brakes[0].Author == "" || v.Brakes[0].State != apiv1.StateInForce {
		t.Fatalf("got %+v, want both records, the newest first", v.Brakes)
	}
	files := 0
	for i, r := range rules().Rules {
		m := v.Rules.Modes[i]
		if m.Rule != r.Name || m.File != r.Mode || m.Effective != "shadow" || r.Effective != "shadow" || r.Brake == nil || r.Brake.ID != v.Brakes[0].ID {
			t.Errorf("got %+v and %+v, want shadow by the newest brake", m, r)
		}
		if m.File == "enforce" {
			files++
		}
	}
	if files == 0 {
		t.Error("no rule enforces by its file: the test shows nothing")
	}
	w.board.applied(1) // of the second record, owners know nothing
	if v := n.status(); v.Brakes[0].State != apiv1.StateWaiting {
		t.Errorf("got %+v, want it waiting", v.Brakes[0])
	}
	w.board.applied(2)
	n.post("/v1/undo", body("id", v.Brakes[0].ID, "reason", "mended")).want(t, http.StatusOK, "")
	if v = n.status(); len(v.Brakes) != 1 || v.Brakes[0].Reason != "older" {
		t.Errorf("after the undo: got %+v, want the other one", v.Brakes)
	}
	for _, r := range rules().Rules {
		if want := r.Name == "per-ip" || r.Mode == "shadow"; (r.Effective == "shadow") != want || (r.Brake != nil) != (r.Name == "per-ip") {
			t.Errorf("after the undo: got %+v, want the brake of per-ip alone", r)
		}
	}
}

// TestABrakeEndsWithItsTime: a record that is over is none, although nobody has undone it.
func TestABrakeEndsWithItsTime(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0), nil)
	for i, until := range []time.Duration{-time.Second, time.Minute} {
		c := schemas.Control{ID: schemas.ControlID{byte(i + 1)}, Action: schemas.ControlMode, Time: 1, Until: time.Now().Add(until).UnixNano()}
		if _, err := w.topic.Append(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
	}
	if v := n.status(); len(v.Brakes) != 1 || v.Brakes[0].ID != (schemas.ControlID{2}).String() {
		t.Errorf("got %+v, want the one that is in force", v.Brakes)
	}
}

// TestKafkaAwayShows since when, and which brokers. A partition shows what waits in its log.
func TestKafkaAwayShows(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0), nil)
	if v := n.status(); !v.Kafka.Reachable {
		t.Errorf("got %+v, want it reachable", v.Kafka)
	}
	since := time.Unix(1000, 0)
	w.analyzers[0].away = &kafkaio.Outage{Since: since, Brokers: []string{"kafka-1:9092", "kafka-2:9092"}, Err: errors.New("dial tcp kafka-1:9092: refused")}
	v := n.status()
	if v.Kafka.Reachable || !v.Kafka.Since.Equal(since) || len(v.Kafka.Brokers) != 2 || v.Kafka.Error != "dial tcp kafka-1:9092: refused" {
		t.Errorf("got %+v, want the outage", v.Kafka)
	}
	w.board.mu.Lock()
	w.board.beats[0] = schemas.Heartbeat{Watermark: 42, End: 50, LogTime: 1e9, Time: 4e9}
	w.board.mu.Unlock()
	if p := n.status().Partitions[0]; p.Backlog != 8 || p.BehindNS != 3e9 {
		t.Errorf("got %d messages, %d ns, want 8 that wait, and 3 s", p.Backlog, p.BehindNS)
	}
}
