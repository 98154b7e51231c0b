//go:build lab

package lab

import (
	"bufio"
	"context"
	"flag"
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

var (
	ingestKills = flag.Int("ingest.kills", 5, "how often TestIngestKillMinus9 kills ingest")
	ingestLines = flag.Int("ingest.lines", 1_000_000, "lines that it reads meanwhile")
)

const ingestMapping = `
version: 1
format: combined
callers: {key: "{user}", who: "{user}"}
`

// logWriter writes lines of a server's log and keeps the truth.
type logWriter struct {
	t     *testing.T
	rnd   *rand.Rand
	truth map[string]int64
	bad   int
}

// write makes a log of n lines, a few of which nobody can read.
func (w *logWriter) write(path string, n int) {
	w.t.Helper()
	f, err := os.Create(path)
	if err != nil {
		w.t.Fatal(err)
	}
	b := bufio.NewWriterSize(f, 1<<20)
	now := time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700")
	for i := range n {
		if w.rnd.IntN(10_000) == 0 {
			w.bad++
			fmt.Fprintf(b, "line %d of %s says nothing\n", i, path)
			continue
		}
		id := fmt.Sprintf("caller-%04d", min(w.rnd.IntN(killCallers), w.rnd.IntN(killCallers)))
		w.truth[id]++
		fmt.Fprintf(b, "192.0.2.1 - %s [%s] \"GET /%d HTTP/1.1\" 200 %d \"-\" \"test\"\n", id, now, i, i%1000)
	}
	if err := b.Flush(); err != nil {
		w.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// ingestRun is an ingest that is killed again and again.
type ingestRun struct {
	t      *testing.T
	broker string
	args   []string
	p      *processtest.Program
	url    string
}

func (r *ingestRun) start() {
	r.p = start(r.t, append([]string{"ingest", "--brokers", r.broker, "--listen", "127.0.0.1:0"}, r.args...)...)
	r.url = "http://" + r.p.WaitFor(`msg=listening address=(\S+)`, 30*time.Second)
}

// done reports whether everything of every source is in Kafka: at least one source must be read.
func (r *ingestRun) done(ctx context.Context, position int64) bool {
	metrics, _ := processtest.Get(ctx, r.url+"/metrics")
	return processtest.MetricSum(metrics, "floodgate_ingest_position") == float64(position) && processtest.MetricSum(metrics, "floodgate_ingest_lag") == 0
}

// TestIngestKillMinus9 kills ingest again and again while it reads a log that is rotated meanwhile. In the end the store
// of the analyzer has counted each line once, to the unit, and each line that nobody can read is among the rejects.
func TestIngestKillMinus9(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	dir := t.TempDir()
	broker := start(t, "broker", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "log"), "--min-session-timeout", "1s").
		WaitFor(`serving Kafka on (\S+)`, 10*time.Second)
	rules, mapping, log := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "mapping.yaml"), filepath.Join(dir, "access.log")
	for path, text := range map[string]string{rules: killRules, mapping: ingestMapping} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &logWriter{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), truth: make(map[string]int64)}
	w.write(log, *ingestLines*6/10)
	w.write(log+".next", *ingestLines*4/10)
	info, err := os.Stat(log + ".next")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()

	counting, url := killRun{broker: broker, session: "2s"}.analyze(t, dir, rules, 0)
	r := &ingestRun{t: t, broker: broker, args: []string{"--file", log, "--mapping", mapping, "--data", filepath.Join(dir, "positions"), "--buffer", "1"}}
	r.start()
	inside := 0
	for cycle := range *ingestKills {
		r.p.WaitFor(`msg=reading path=(\S+)`, 30*time.Second)
		time.Sleep(time.Duration(5+w.rnd.IntN(100)) * time.Millisecond)
		if cycle == *ingestKills/2 {
			for from, to := range map[string]string{log: log + ".1"} {
				if err := os.Rename(from, to); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Rename(log+".next", log); err != nil {
				t.Fatal(err)
			}
		}
		if !r.done(ctx, info.Size()) {
			inside++
		}
		r.p.Kill()
		r.start()
	}
	processtest.Eventually(t, 2*time.Minute, "ingest at the log's end", func() bool { return r.done(ctx, info.Size()) })
	if code := r.p.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, r.p.Text())
	}
	client := kafkaio.New(kafkaio.Config{Brokers: []string{broker}})
	defer client.Close()
	awaitCaughtUp(ctx, t, client, url, "floodgate.requests")
	metrics, _ := processtest.Get(ctx, url+"/metrics")
	t.Logf("%d kills, %d of them inside of the log; %.0f lines were sent more than once", *ingestKills, inside, processtest.MetricSum(metrics, "floodgate_duplicates_total"))
	if code := counting.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("analyzer: got exit code %d, want 0:\n%s", code, counting.Text())
	}
	if inside < *ingestKills/2 {
		t.Errorf("got %d kills inside of the log, want at least half of %d: write a longer one", inside, *ingestKills)
	}
	compareStores(t, filepath.Join(dir, "counts"), w.truth)
	wantRejects(t, broker, "floodgate.rejects", w.bad)
}

// wantRejects wants a topic to hold so many rejects, and nothing else. It returns the table of them.
func wantRejects(t *testing.T, broker, topic string, n int) (out string) {
	t.Helper()
	out, err := runCommand("rejects", "--brokers", broker, "--topic-name", "rejects="+topic, "--last", "0")
	if got, want := strings.TrimSpace(out[strings.LastIndexByte(strings.TrimSpace(out), '\n')+1:]), fmt.Sprintf("%d rejects", n); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	return out
}
