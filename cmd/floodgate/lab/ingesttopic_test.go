//go:build lab

package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/store/kafkaio"
)

const (
	foreignPartitions = 3
	foreignRecords    = 60_000
)

// foreign is a shipper of somebody else's logs: it knows nothing of floodgate, and puts any line into any partition.
type foreign struct {
	t      *testing.T
	client *kafkaio.Client
	topic  string
	rnd    *rand.Rand
	truth  map[string]int64
	bad    int
}

// ship sends n records, most of them of one line.
func (f *foreign) ship(ctx context.Context, n int) {
	f.t.Helper()
	for n > 0 {
		var messages []kafkaio.Message
		now := time.Now()
		for range min(n, 1000) {
			n--
			var lines []string
			for range 1 + f.rnd.IntN(20)/19*3 {
				id := fmt.Sprintf("caller-%04d", f.rnd.IntN(killCallers))
				f.truth[id]++
				lines = append(lines, fmt.Sprintf(`{"time":%d,"user":{"name":%q},"status":200}`, now.Unix(), id))
			}
			if f.rnd.IntN(2000) == 0 {
				lines = append(lines, "\x1b[2Jnot JSON")
				f.bad++
			}
			var key []byte
			if f.rnd.IntN(2) == 0 {
				key = []byte("any")
			}
			messages = append(messages, kafkaio.Message{Time: now.UnixNano(), Key: key, Value: []byte(strings.Join(lines, "\n"))})
		}
		if _, err := f.client.Produce(ctx, f.topic, f.rnd.IntN(foreignPartitions), messages...); err != nil {
			f.t.Fatal(err)
		}
	}
}

// TestIngestShareATopic has two members of a group read a foreign topic of any keys, and kills one after the other while
// records come in. In the end each line is counted once, to the unit.
func TestIngestShareATopic(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	broker := start(t, "broker", "--listen", "127.0.0.1:0", "--min-session-timeout", "1s").
		WaitFor(`serving Kafka on (\S+)`, 10*time.Second)
	shareTopic(t, broker, "", "6s", 2)
}

// TestIngestShareATopicOfApacheKafka is the same on the real broker.
func TestIngestShareATopicOfApacheKafka(t *testing.T) {
	broker := os.Getenv("FLOODGATE_KAFKA")
	if broker == "" {
		t.Skip("FLOODGATE_KAFKA does not name an Apache Kafka")
	}
	t.Parallel()
	shareTopic(t, broker, fmt.Sprintf(".ingest-%x", rand.Uint64()), "6s", 2)
}

func shareTopic(t *testing.T, broker, suffix, session string, kills int) {
	t.Helper()
	dir := t.TempDir()
	rules, mapping := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "mapping.yaml")
	for path, text := range map[string]string{rules: killRules, mapping: "version: 1\nformat: json\ncallers: {key: \"{user.name}\"}\nstatus: status\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	client := kafkaio.New(kafkaio.Config{Brokers: []string{broker}})
	defer client.Close()
	f := &foreign{t: t, client: client, topic: "access" + suffix, rnd: rand.New(rand.NewPCG(rand.Uint64(), 0)), truth: make(map[string]int64)}
	if _, err := client.EnsureTopics(ctx, kafkaio.TopicSpec{Name: f.topic, Partitions: foreignPartitions}); err != nil {
		t.Fatal(err)
	}
	counting, url := killRun{broker: broker, suffix: suffix, session: session}.analyze(t, dir, rules, 0)
	var members [2]*ingestRun
	for i := range members {
		args := []string{"--topic", f.topic, "--mapping", mapping, "--session-timeout", session, "--group", "g" + suffix}
		for _, topic := range []string{"requests", "decisions", "state", "rejects", "control", "events"} {
			args = append(args, "--topic-name", topic+"="+"floodgate."+topic+suffix)
		}
		members[i] = &ingestRun{t: t, broker: broker, args: args}
		members[i].start()
	}
	for i := range kills {
		f.ship(ctx, foreignRecords/kills)
		time.Sleep(time.Duration(f.rnd.IntN(300)) * time.Millisecond)
		members[i%2].p.Kill()
		members[i%2].start()
	}
	ends := int64(0)
	for p := range foreignPartitions {
		_, end, err := client.Range(ctx, f.topic, p)
		if err != nil {
			t.Fatal(err)
		}
		ends += end
	}
	t.Cleanup(func() {
		for _, m := range members {
			if t.Failed() {
				_ = m.p.Cmd.Process.Signal(syscall.SIGQUIT)
				<-m.p.Exited
				t.Logf("a member said:\n%s", m.p.Text())
			}
		}
	})
	processtest.Eventually(t, time.Minute, "members at the topic's end", func() bool {
		position, lag := 0.0, 0.0
		for _, m := range members {
			metrics, _ := processtest.Get(ctx, m.url+"/metrics")
			position += processtest.MetricSum(metrics, "floodgate_ingest_position")
			lag += processtest.MetricSum(metrics, "floodgate_ingest_lag")
		}
		return position == float64(ends) && lag == 0
	})
	for _, m := range members {
		if code := m.p.Stop(syscall.SIGTERM); code != 0 {
			t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, m.p.Text())
		}
	}
	awaitCaughtUp(ctx, t, client, url, "floodgate.requests"+suffix)
	metrics, _ := processtest.Get(ctx, url+"/metrics")
	t.Logf("%d kills; %.0f entries were sent more than once", kills, processtest.MetricSum(metrics, "floodgate_duplicates_total"))
	if code := counting.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("analyzer: got exit code %d, want 0:\n%s", code, counting.Text())
	}
	compareStores(t, filepath.Join(dir, "counts"), f.truth)
	table := wantRejects(t, broker, "floodgate.rejects"+suffix, f.bad)
	for _, want := range []string{"| bad json |", `| \x1b[2Jnot JSON`, "| kafka:" + f.topic + "/"} {
		if n := strings.Count(table, want); n != f.bad {
			t.Errorf("got %d times %q, want %d:\n%s", n, want, f.bad, table)
		}
	}
}
