//go:build lab

package lab

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/kafka"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// TestABrokerOfThreeDies kills two nodes of three of a real Apache Kafka, one after the other, under load: two replicas of each
// topic must hold a record before it is acknowledged, so that nothing is lost, and what is sent again is counted once.
func TestABrokerOfThreeDies(t *testing.T) {
	cluster := kafka.Start(t, kafka.Options{Nodes: 3})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(rules, []byte(killRules), 0o600); err != nil {
		t.Fatal(err)
	}
	k := killRun{broker: strings.Join(cluster.Brokers, ","), session: "6s"}
	p, url := k.analyze(t, dir, rules, 0)
	processtest.Eventually(t, time.Minute, "ready", func() bool { _, s := processtest.Get(t.Context(), url+"/readyz"); return s == 200 })
	g := newGenerator(t, k.broker, "floodgate.requests", seed)
	wantReplicated(t, g.client)

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	loading, stop := context.WithCancel(ctx)
	var load errgroup.Group
	load.Go(func() error {
		for loading.Err() == nil {
			g.send(ctx)
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	})
	began := time.Now()
	for node := 1; node <= 2; node++ {
		time.Sleep(time.Second)
		cluster.Kill(node)
		time.Sleep(4 * time.Second) // longer than it takes the others to miss it
		cluster.Restart()
		t.Logf("%v: node %d was killed and is back, load goes on", time.Since(began).Round(time.Second), node)
	}
	time.Sleep(time.Second)
	stop()
	t.Logf("%v: end of load", time.Since(began).Round(time.Second))
	_ = load.Wait() // returns no error
	t.Logf("%v: at rest", time.Since(began).Round(time.Second))
	awaitCaughtUp(ctx, t, g.client, url, g.topic)
	if code := p.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, p.Text())
	}
	t.Logf("%d entries, %d frames sent twice or more", g.entries, g.duplicates)
	compareStores(t, filepath.Join(dir, "counts"), g.truth)
	if out, err := runCommand("audit", "--brokers", k.broker, "--rules", rules, "--data", filepath.Join(dir, "counts")); err != nil {
		t.Errorf("audit: %v\n%s", err, out)
	}
}

// wantReplicated checks that the topics were made with three replicas, of which two must be in sync: the cluster's own
// defaults, which floodgate leaves as they are.
func wantReplicated(t *testing.T, client *kafkaio.Client) {
	t.Helper()
	for _, spec := range kafkaio.Specs(schemas.DefaultTopicNames(), killPartitions) {
		spec.Settings = append(spec.Settings, kafkaio.Setting{Name: "min.insync.replicas", Value: "2", Severity: kafkaio.Error})
		found, err := client.CheckTopics(t.Context(), spec)
		if err != nil || len(found) > 0 {
			t.Errorf("%s: got %v, %v, want it as it should be, with two replicas in sync", spec.Name, found, err)
		}
	}
}
