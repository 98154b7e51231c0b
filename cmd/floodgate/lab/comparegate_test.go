//go:build lab

package lab

import (
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/gateview"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// TestOpenThereBlockedHere compares a gate with an analyzer that does not own the caller's partition, and forwards the question. A gate
// whose decisions stopped coming while the caller was closed goes on refusing it after it was opened, and the comparison says that and
// why. The owner itself compares alike. A gate that follows agrees.
func TestOpenThereBlockedHere(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 2, "{name: r, callers: key, limit: 5, window: 1h}")
	one, two := d.analyze("one"), d.analyze("two")
	owners := map[int]*answering{d.awaitRunning(one, 2, 1): one, d.awaitRunning(two, 2, 1): two}
	if len(owners) != 2 {
		t.Fatal("both analyzers own one partition, want one each")
	}
	key, owner, other := processtest.KeyIn(0, 2), owners[0], owners[1]
	follows := d.sidecar()
	compare := func(a *answering, g *gateOf, what, sentence string, agrees bool, findings ...string) {
		t.Helper()
		d.explained(a, key, what, func(e *apiv1.Explanation) bool {
			c := e.Gate
			return e.At != nil && e.At.Partition == 0 && c != nil && c.Agrees == agrees && strings.Contains(c.Sentence, sentence) &&
				!slices.ContainsFunc(findings, func(f string) bool { return !strings.Contains(strings.Join(c.Findings, "\n"), f) })
		}, "--sidecar", g.url)
	}
	d.send(key, 5)
	follows.closes(key, "closed", "r")
	compare(other, follows, "closed, and the gate follows", "agree: key:"+key+" is closed", true)

	d.copyDecisions("floodgate.decisions.stopped")
	stopped := d.sidecar("--topic-name", "decisions=floodgate.decisions.stopped")
	stopped.holds(key, "its decisions have stopped", func(h *gateview.Caller) bool { return h.Refused && h.Stale == 2 })
	d.act(other, "open", "key:"+key, "--for", "1h")
	follows.closes(key, "open")
	for name, a := range map[string]*answering{"the owner": owner, "another analyzer": other} {
		compare(a, follows, name+": open, and the gate follows", "agree: key:"+key+" is open", true)
		compare(a, stopped, name+": open there, blocked here", "key:"+key+" is open for the analyzer, and closed at this gate", false,
			"The gate holds rule r until", "2 are stale")
	}
	out, err := runCommand("explain", "key:"+key, "--sidecar", stopped.url, "--api", other.api, "--token-file", d.token)
	if err != nil || !strings.Contains(out, "\nsidecar "+stopped.url+": key:"+key+" is open for the analyzer, and closed at this gate") {
		t.Errorf("got %v and %q, want it said to a person", err, out)
	}
}

// copyDecisions copies all decisions until now to another topic: for who follows that one, no more will come.
func (d *desk) copyDecisions(to string) {
	d.t.Helper()
	names := schemas.DefaultTopicNames()
	names.Decisions = to
	if _, err := d.client.EnsureTopics(d.t.Context(), kafkaio.Specs(names, d.partitions)...); err != nil {
		d.t.Fatal(err)
	}
	for p := range d.partitions {
		next, end, err := d.client.Range(d.t.Context(), "floodgate.decisions", p)
		if err != nil {
			d.t.Fatal(err)
		}
		for next < end {
			b, err := d.client.Fetch(d.t.Context(), kafkaio.FetchRequest{Topic: "floodgate.decisions", Partition: p, Offset: next, MaxBytes: 1 << 20})
			if err != nil {
				d.t.Fatal(err)
			}
			for _, r := range b.Records {
				if _, err := d.client.Produce(d.t.Context(), to, p, kafkaio.Message{Time: r.Time, Key: r.Key, Value: r.Value}); err != nil {
					d.t.Fatal(err)
				}
			}
			next = b.Next
		}
	}
}
