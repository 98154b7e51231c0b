//go:build lab

package lab

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas"
)

// grownPartitions is P′.
const grownPartitions = 6

// documentedCommand returns the arguments of the command of that name in GROWTH.md.
func documentedCommand(t *testing.T, name string, vars map[string]string) []string {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/GROWTH.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^floodgate (` + name + ` .*)$`).FindStringSubmatch(strings.ReplaceAll(string(text), "\\\n", ""))
	if m == nil {
		t.Fatalf("GROWTH.md: got no command floodgate %s", name)
	}
	return strings.Fields(os.Expand(m[1], func(v string) string {
		if vars[v] == "" {
			t.Fatalf("GROWTH.md: got variable %s, want one of %v", v, vars)
		}
		return vars[v]
	}))
}

// listening starts an analyzer and returns it with its address.
func listening(t *testing.T, args []string) (*processtest.Program, string) {
	t.Helper()
	p := start(t, append(args, "--listen", "127.0.0.1:0", "--session-timeout", "2s")...)
	return p, "http://" + p.WaitFor(`msg=listening address=(\S+)`, 30*time.Second)
}

// TestGrowthAsDocumented follows GROWTH.md from 4 to 6 partitions while two servers send: one to the old topics until it
// is moved, one to the new ones. The repartitioner is killed on the way.
func TestGrowthAsDocumented(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	broker := start(t, "broker", "--listen", "127.0.0.1:0", "--min-session-timeout", "1s").WaitFor(`serving Kafka on (\S+)`, 10*time.Second)
	rules := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(rules, []byte(killRules), 0o600); err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{"BROKERS": broker, "RULES": rules, "DATA": filepath.Join(dir, "new"), "P": fmt.Sprint(grownPartitions)}
	before, url := listening(t, []string{"analyze", "--brokers", broker, "--rules", rules, "--data", filepath.Join(dir, "old")})
	processtest.Eventually(t, 30*time.Second, "old analyzer ready", func() bool { _, s := processtest.Get(t.Context(), url+"/readyz"); return s == 200 })

	old := newGenerator(t, broker, "floodgate.requests", seed)
	old.sendFor(t, 500*time.Millisecond)
	if out, err := runCommand(documentedCommand(t, "topics", vars)...); err != nil || !strings.Contains(out, "created floodgate2.requests") {
		t.Fatalf("topics: got %v,\n%s", err, out)
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() { old.sendFor(t, 6*time.Second) })
	run := start(t, documentedCommand(t, "repartition", vars)...)
	after, newURL := listening(t, documentedCommand(t, "analyze", vars))
	run.WaitFor("caught up", 30*time.Second)
	processtest.Eventually(t, 30*time.Second, "new analyzer ready", func() bool { _, s := processtest.Get(t.Context(), newURL+"/readyz"); return s == 200 })

	// The first server moves; it is another process now, and so another producer.
	moved := newGenerator(t, broker, "floodgate2.requests", seed+1)
	moved.spread(grownPartitions, schemas.ProducerID{9})
	sending.Go(func() { moved.sendFor(t, 4*time.Second) })
	time.Sleep(time.Second)
	run.Kill()
	time.Sleep(500 * time.Millisecond)
	run = start(t, documentedCommand(t, "repartition", vars)...)
	sending.Wait()
	if code := before.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("old analyzer: got exit code %d:\n%s", code, before.Text())
	}
	run.WaitFor("caught up", 60*time.Second)
	awaitRepartitioned(t, old, moved, newURL)
	if code := run.Stop(syscall.SIGTERM); code != 0 || !strings.Contains(run.Text(), "0 records behind") {
		t.Errorf("repartition: got exit code %d:\n%s", code, run.Text())
	}
	metrics, _ := processtest.Get(t.Context(), newURL+"/metrics")
	if code := after.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("new analyzer: got exit code %d:\n%s", code, after.Text())
	}
	truth := make(map[string]int64)
	for _, g := range []*generator{old, moved} {
		for id, n := range g.truth {
			truth[id] += n
		}
	}
	compareStores(t, filepath.Join(dir, "new"), truth)
	if n := processtest.MetricSum(metrics, "floodgate_duplicates_total"); n == 0 {
		t.Error("duplicates: got none, though the repartitioner was killed and sent again")
	}
	t.Logf("%d entries to the old topics, %d to the new ones", old.entries, moved.entries)
	if out, err := runCommand("audit", "--brokers", broker, "--rules", rules, "--data", filepath.Join(dir, "new"), "--topic-prefix", "floodgate2", "--topic-name", "control=floodgate.control"); err != nil {
		t.Errorf("audit: %v\n%s", err, out)
	}
}

// sendFor sends for a while, at a moderate rate.
func (g *generator) sendFor(t *testing.T, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end) && t.Context().Err() == nil; time.Sleep(10 * time.Millisecond) {
		g.send(t.Context())
	}
}

// awaitRepartitioned waits until the new analyzer has counted what both servers sent: the requests in its log, once each.
func awaitRepartitioned(t *testing.T, old, moved *generator, url string) {
	t.Helper()
	ends := func(g *generator) (sum int64) {
		for p := range g.partitions {
			_, end, err := g.client.Range(t.Context(), g.topic, p)
			if err != nil {
				return -1
			}
			sum += end
		}
		return sum
	}
	var last int64
	still := 0
	processtest.Eventually(t, 60*time.Second, "all repartitioned and counted", func() bool {
		metrics, _ := processtest.Get(t.Context(), url+"/metrics")
		end := ends(moved)
		if end != last || processtest.MetricSum(metrics, "floodgate_next_offset") != float64(end) {
			last, still = end, 0
		} else {
			still++ // nothing new has come, and all is counted
		}
		return still > 200 && ends(old) > 0
	})
}

func TestRepartitionSaysWhatIsWrong(t *testing.T) {
	for _, args := range [][]string{
		{"repartition", "--brokers", "127.0.0.1:1"},
		{"repartition", "--brokers", "127.0.0.1:1", "--to-requests", "floodgate.requests"},
		{"repartition", "--to-requests", "b"},
		{"repartition", "--brokers", "127.0.0.1:1", "--to-requests", "b", "more"},
	} {
		if _, err := runCommand(args...); !isUsage(err) {
			t.Errorf("%v: got %v, want a usage error", args, err)
		}
	}
	broker := start(t, "broker", "--listen", "127.0.0.1:0").WaitFor(`serving Kafka on (\S+)`, 10*time.Second)
	if _, err := runCommand("repartition", "--brokers", broker, "--to-requests", "floodgate2.requests"); err == nil || !strings.Contains(err.Error(), "no such topic") {
		t.Errorf("no topics: got %v, want it said", err)
	}
	if _, err := runCommand("topics", "--brokers", broker, "--create"); err != nil {
		t.Fatal(err)
	}
	if _, err := runCommand(documentedCommand(t, "topics", map[string]string{"BROKERS": broker, "P": "2"})...); err != nil {
		t.Fatal(err)
	}
	if out, err := runCommand("repartition", "--brokers", broker, "--to-requests", "floodgate2.requests"); err != nil || !strings.Contains(out, "0 records behind") {
		t.Errorf("nothing to repartition: got %v, %q, want an end", err, out)
	}
}
