package processtest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Rules returns a rules file with one rule, r, that closes a key at a limit.
func Rules(limit string) string {
	return strings.ReplaceAll(`
version: 1
rules:
  - {name: r, callers: key, limit: LIMIT, window: 8760h, algorithm: fixed}
`, "LIMIT", limit)
}

// Starter starts floodgate in a process of its own.
type Starter func(t testing.TB, args ...string) *Program

// Deployment is a broker and an analyzer in processes of their own.
type Deployment struct {
	T        *testing.T
	Dir      string
	Broker   string
	Client   *kafkaio.Client
	Analyzer *Program
	URL      string // of the analyzer
	Seq      uint64 // of the newest frame

	starter Starter
}

// NewDeployment starts the broker. A key is closed at the fifth request.
func NewDeployment(t *testing.T, start Starter) *Deployment {
	t.Helper()
	d := &Deployment{T: t, Dir: t.TempDir(), starter: start}
	d.Broker = start(t, "broker", "--listen", "127.0.0.1:0", "--min-session-timeout", "1s").WaitFor(`serving Kafka on (\S+)`, 10*time.Second)
	d.Client = kafkaio.New(kafkaio.Config{Brokers: []string{d.Broker}})
	t.Cleanup(d.Client.Close)
	d.WriteRules(Rules("5"))
	return d
}

// RulesPath returns the rules file.
func (d *Deployment) RulesPath() string { return filepath.Join(d.Dir, "rules.yaml") }

// Counts returns the directory of the analyzer's counts.
func (d *Deployment) Counts() string { return filepath.Join(d.Dir, "counts") }

// WriteRules replaces the rules file at once.
func (d *Deployment) WriteRules(text string) {
	d.T.Helper()
	next := d.RulesPath() + ".new"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		d.T.Fatal(err)
	}
	if err := os.Rename(next, d.RulesPath()); err != nil {
		d.T.Fatal(err)
	}
}

// Start runs the analyzer and waits until it decides.
func (d *Deployment) Start(more ...string) {
	d.T.Helper()
	d.Analyzer = d.starter(d.T, append([]string{"analyze", "--brokers", d.Broker, "--rules", d.RulesPath(), "--data", d.Counts(),
		"--listen", "127.0.0.1:0", "--partitions", "1", "--session-timeout", "2s"}, more...)...)
	d.URL = "http://" + d.Analyzer.WaitFor(`msg=listening address=(\S+)`, 30*time.Second)
	AwaitReady(d.T, d.URL, 200, "")
}

// Send sends a frame of n requests of one key.
func (d *Deployment) Send(key string, n uint32) {
	d.T.Helper()
	d.Seq++
	SendFrame(d.T, d.Client, &schemas.Frame{Producer: schemas.ProducerID{7}, Seq: d.Seq, Partitions: 1}, key, n)
}

// SendFrame sends n requests of one key, which happen now, in a frame to the key's partition.
func SendFrame(t *testing.T, client *kafkaio.Client, f *schemas.Frame, key string, n uint32) {
	t.Helper()
	f.Flushed, f.Fingerprint = time.Now().UnixNano(), schemas.DefaultPartitionKey().Fingerprint()
	f.Entries = []schemas.Entry{{Time: f.Flushed, Kind: "key", ID: key, Count: n}}
	value, err := f.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := schemas.Partition(schemas.DefaultPartitionKey().Hash("key", key), int(f.Partitions))
	if _, err := client.Produce(t.Context(), "floodgate.requests", p, kafkaio.Message{Time: f.Flushed, Value: value}); err != nil {
		t.Fatal(err)
	}
}

// KeyIn returns a key that belongs to a partition. partitions is how many there are.
func KeyIn(partition, partitions int) string {
	for key := "k"; ; key += "x" {
		if schemas.Partition(schemas.DefaultPartitionKey().Hash("key", key), partitions) == partition {
			return key
		}
	}
}

// Counted waits until the analyzer has counted all, then stops it.
func (d *Deployment) Counted() {
	d.T.Helper()
	_, end, err := d.Client.Range(d.T.Context(), "floodgate.requests", 0)
	if err != nil {
		d.T.Fatal(err)
	}
	Eventually(d.T, 30*time.Second, "all counted", func() bool {
		metrics, _ := Get(d.T.Context(), d.URL+"/metrics")
		return MetricSum(metrics, "floodgate_next_offset") == float64(end)
	})
	if code := d.Analyzer.Stop(syscall.SIGTERM); code != 0 {
		d.T.Fatalf("SIGTERM: got exit code %d, want 0:\n%s", code, d.Analyzer.Text())
	}
}

// ClosedKeys returns the keys that are closed now, as the decisions topic says.
func (d *Deployment) ClosedKeys(ctx context.Context) map[string]bool {
	d.T.Helper()
	closed := make(map[string]bool)
	next, end, err := d.Client.Range(ctx, "floodgate.decisions", 0)
	if err != nil {
		d.T.Fatal(err)
	}
	var fence schemas.Fence
	for next < end {
		b, err := d.Client.Fetch(ctx, kafkaio.FetchRequest{Topic: "floodgate.decisions", Offset: next, MaxBytes: 1 << 20})
		if err != nil {
			d.T.Fatal(err)
		}
		for _, rec := range b.Records {
			r, err := pb.Decode(rec.Value)
			switch {
			case err != nil:
				d.T.Fatal(err)
			case r.Claim != nil:
				fence.Claim(r.Claim.Epoch)
			case r.Heartbeat != nil:
				fence.Heartbeat(r.Heartbeat.Epoch, r.Heartbeat.Seq)
			case fence.Decision(r.Decision.Epoch, r.Decision.Seq):
				closed[r.Decision.Caller.ID] = r.Decision.ClosedAt(time.Now().UnixNano())
			}
		}
		next = b.Next
	}
	return closed
}

// AwaitClosed waits until a key is closed, or open.
func (d *Deployment) AwaitClosed(key string, want bool) {
	d.T.Helper()
	Eventually(d.T, 10*time.Second, key+" closed or open as it should be", func() bool { return d.ClosedKeys(d.T.Context())[key] == want })
}
