package kafka

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/audit"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// closeThrough runs an analyzer and a server, each as the user that ACLS.md makes for it, until the server's gate closes
// for a noisy caller; then the auditor compares. The documented rules are all that any of them has.
func closeThrough(t *testing.T, door func(user string) kafkaio.Config) {
	t.Helper()
	set, err := rules.Parse("test", []byte("version: 1\nrules:\n  - {name: r, callers: key, limit: 20, window: 1h, algorithm: fixed}\n"+
		"  - {name: shared, callers: key, capacity: 10, window: 1s, mode: shadow}\n"))
	if err != nil {
		t.Fatal(err)
	}
	const partitions = 1 // as tryEveryUserOnEveryTopic made them
	names := schemas.DefaultTopicNames()
	counts := t.TempDir()
	client := kafkaio.New(door("analyzer"))
	defer client.Close()
	a := analyzer.New(client, analyzer.Config{
		Dir: counts,
		Join: func() (analyzer.Membership, error) {
			return kafkaio.NewGroup(kafkaio.GroupConfig{Client: client, Group: "floodgate", Topic: names.Requests})
		},
		Owner: analyzer.OwnerConfig{
			Fold: fold.Options{Partitions: partitions}, Requests: names.Requests, Decisions: names.Decisions,
			State: names.State, Control: names.Control, Snapshot: time.Second, Rules: set, Name: "test",
		},
	})
	c := door("server")
	gates, rec := gate.New(gate.Options{}), record.New(record.Options{})
	keys := gates.Gate("key")
	link, err := kafkalink.Open(gates, rec, kafkalink.Config{Brokers: c.Brokers, TLS: c.TLS, SASL: c.SASL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Close)

	analyzing, stopAnalyzer := context.WithCancel(t.Context())
	defer stopAnalyzer()
	var counting errgroup.Group
	counting.Go(func() error { return a.Run(analyzing) })
	processtest.Eventually(t, 30*time.Second, "the analyzer decides", func() bool { return a.Ready(time.Now()) })
	n := 0
	asked := func() bool { // the pool has told itself what its callers ask for
		s := a.Stats()
		return len(s) == partitions && len(s[0].Fold.Pools) == 1 && s[0].Fold.Pools[0].Level.Asked > 0
	}
	processtest.Eventually(t, 30*time.Second, "the gate closes, and tallies come through requests", func() bool {
		for _, id := range []string{"noisy", fmt.Sprint("quiet-", n%100)} {
			var callers gate.Callers
			callers.Add(keys, id)
			rec.Record(&callers, gates.Check(&callers), record.Request{})
		}
		n++
		return keys.Closed("noisy") && asked()
	})
	if keys.Closed("quiet-0") {
		t.Error("an innocent is closed")
	}
	link.Close()
	if s := rec.Stats(); s.Accepted != s.Acked {
		t.Errorf("recorder: got %d of %d requests acknowledged, want all", s.Acked, s.Accepted)
	}
	awaitSnapshot(t, client, names.State)
	stopAnalyzer()
	if err := counting.Wait(); err != nil {
		t.Errorf("analyzer: %v", err)
	}
	auditThrough(t, door("auditor"), counts, set)
}

// auditThrough audits as a user who may read requests and nothing else.
func auditThrough(t *testing.T, c kafkaio.Config, counts string, set *rules.Set) {
	t.Helper()
	client := kafkaio.New(c)
	defer client.Close()
	r, err := audit.Run(t.Context(), client, audit.Config{
		Fold: fold.Options{Partitions: 1}, Requests: schemas.DefaultTopicNames().Requests, Control: schemas.DefaultTopicNames().Control, Dir: counts + "/0", Rules: set,
	})
	if err != nil || !r.Exact() || r.Log.Requests == 0 {
		t.Errorf("audit: got %+v, %v, want it exact", r, err)
	}
}

// awaitSnapshot waits until a snapshot is written: a right that is missing would show only when a store is lost.
func awaitSnapshot(t *testing.T, client *kafkaio.Client, topic string) {
	t.Helper()
	processtest.Eventually(t, 30*time.Second, "a snapshot is written", func() bool {
		_, end, err := client.Range(t.Context(), topic, 0)
		return err == nil && end >= 3
	})
}
