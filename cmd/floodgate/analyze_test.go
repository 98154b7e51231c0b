package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// deployment is a broker and an analyzer in processes of their own.
type deployment struct {
	t      *testing.T
	dir    string
	broker string
	client *kafkaio.Client
	prog   *program
	url    string
	seq    uint64
}

const daemonRules = `
version: 1
rules:
  - {name: r, callers: key, limit: LIMIT, window: 8760h, algorithm: fixed}
`

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	d := &deployment{t: t, dir: t.TempDir()}
	d.broker = start(t, "broker", "--listen", "127.0.0.1:0", "--min-session-timeout", "1s").waitFor(`serving Kafka on (\S+)`, 10*time.Second)
	d.client = kafkaio.New(kafkaio.Config{Brokers: []string{d.broker}})
	t.Cleanup(d.client.Close)
	d.writeRules(strings.ReplaceAll(daemonRules, "LIMIT", "5"))
	return d
}

func (d *deployment) rulesPath() string { return filepath.Join(d.dir, "rules.yaml") }

func (d *deployment) writeRules(text string) {
	d.t.Helper()
	next := d.rulesPath() + ".new"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(next, d.rulesPath()); err != nil {
		d.t.Fatal(err)
	}
}

// start runs the analyzer and waits until it decides.
func (d *deployment) start(more ...string) {
	d.t.Helper()
	d.prog = start(d.t, append([]string{"analyze", "--brokers", d.broker, "--rules", d.rulesPath(), "--data", filepath.Join(d.dir, "counts"),
		"--listen", "127.0.0.1:0", "--partitions", "1", "--session-timeout", "2s"}, more...)...)
	d.url = "http://" + d.prog.waitFor(`msg=listening address=(\S+)`, 30*time.Second)
	eventually(d.t, 30*time.Second, "ready", func() bool {
		_, status := get(d.t.Context(), d.url+"/readyz")
		return status == 200
	})
}

// send sends a frame of n requests of one key.
func (d *deployment) send(key string, n uint32) {
	d.t.Helper()
	d.seq++
	now := time.Now().UnixNano()
	f := schemas.Frame{
		Producer: schemas.ProducerID{7}, Seq: d.seq, Flushed: now, Partitions: 1,
		Fingerprint: schemas.DefaultPartitionKey().Fingerprint(),
		Entries:     []schemas.Entry{{Time: now, Kind: "key", ID: key, Count: n}},
	}
	value, err := f.AppendTo(nil)
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := d.client.Produce(d.t.Context(), "floodgate.requests", 0, kafkaio.Message{Time: now, Value: value}); err != nil {
		d.t.Fatal(err)
	}
}

// closedKeys returns who is closed by what the decisions topic says now.
func (d *deployment) closedKeys(ctx context.Context) map[string]bool {
	d.t.Helper()
	closed := make(map[string]bool)
	next, end, err := d.client.Range(ctx, "floodgate.decisions", 0)
	if err != nil {
		d.t.Fatal(err)
	}
	var fence schemas.Fence
	for next < end {
		b, err := d.client.Fetch(ctx, kafkaio.FetchRequest{Topic: "floodgate.decisions", Offset: next, MaxBytes: 1 << 20})
		if err != nil {
			d.t.Fatal(err)
		}
		for _, rec := range b.Records {
			r, err := pb.Decode(rec.Value)
			switch {
			case err != nil:
				d.t.Fatal(err)
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

func (d *deployment) awaitClosed(key string, want bool) {
	d.t.Helper()
	eventually(d.t, 10*time.Second, key+" closed or open as it should be", func() bool { return d.closedKeys(d.t.Context())[key] == want })
}

func TestAnalyzeCountsOnAfterSIGTERM(t *testing.T) {
	d := newDeployment(t)
	d.start()
	if body, status := get(t.Context(), d.url+"/healthz"); status != 200 {
		t.Errorf("healthz: got %d, %s, want 200", status, body)
	}
	d.send("a", 3)
	eventually(t, 10*time.Second, "3 requests counted", func() bool {
		metrics, _ := get(t.Context(), d.url+"/metrics")
		return metricSum(metrics, "floodgate_requests_total") == 3
	})
	if code := d.prog.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("SIGTERM: got exit code %d, want 0:\n%s", code, d.prog.text())
	}
	d.send("a", 1) // while nobody counts
	d.start()
	d.send("a", 1)
	d.awaitClosed("a", true)
	for name, want := range map[string]float64{
		"floodgate_requests_total": 2, "floodgate_closes_total": 1, "floodgate_closed": 1, "floodgate_next_offset": 3,
	} { // the closure is in the topic before its publisher has counted it
		eventually(t, 10*time.Second, fmt.Sprint(name, " ", want), func() bool {
			metrics, _ := get(t.Context(), d.url+"/metrics")
			return metricSum(metrics, name) == want
		})
	}
	if code := d.prog.stop(syscall.SIGINT); code != 0 {
		t.Errorf("SIGINT: got exit code %d, want 0", code)
	}
	out, err := runCommand("store", "--data", filepath.Join(d.dir, "counts"), "--rules", d.rulesPath(), "--output", "json")
	if err != nil || !strings.Contains(out, `"caller":"key:a","count":5,"limit":5,"closed_until":`) {
		t.Errorf("store: got %v,\n%s\nwant key:a at 5 of 5", err, out)
	}
}

func TestRulesAreReloadedWithoutLosingCounts(t *testing.T) {
	d := newDeployment(t)
	d.start()
	d.send("a", 5)
	d.awaitClosed("a", true)
	d.writeRules(strings.ReplaceAll(daemonRules, "LIMIT", "8"))
	d.awaitClosed("a", false)
	d.writeRules(strings.ReplaceAll(daemonRules, "LIMIT", "none"))
	d.prog.waitFor(`level=ERROR msg="rules not changed.*rules.yaml:4:`, 10*time.Second)
	d.wantRefused(true)
	d.send("a", 2)
	if d.closedKeys(t.Context())["a"] {
		t.Error("a: closed at 7 of 8, want open: the bad file changes nothing")
	}
	d.send("a", 1)
	d.awaitClosed("a", true)
	if err := d.prog.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	d.writeRules("version: 1\nrules: []\n")
	d.writeRules(strings.ReplaceAll(daemonRules, "LIMIT", "9"))
	d.awaitClosed("a", false)
	d.wantRefused(false)
	if code := d.prog.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, d.prog.text())
	}
}

// wantRefused waits until the metrics and the status agree on whether the newest rules file is refused.
func (d *deployment) wantRefused(want bool) {
	d.t.Helper()
	eventually(d.t, 10*time.Second, fmt.Sprintf("rules refused: %v", want), func() bool {
		metrics, _ := get(d.t.Context(), d.url+"/metrics")
		body, code := get(d.t.Context(), d.url+"/status")
		var status analyzerStatus
		if err := json.Unmarshal([]byte(body), &status); err != nil || code != http.StatusOK {
			d.t.Fatalf("status: got %d, %v, %s", code, err, body)
		}
		return (metricSum(metrics, "floodgate_rules_refused") == 1) == want &&
			strings.Contains(status.Rules.Refused, "rules.yaml:4:") == want && strings.Contains(metrics, `floodgate_rules_info{id="`+status.Rules.ID+`"} 1`)
	})
}

func TestAnalyzeSaysWhatIsWrongAndExits(t *testing.T) {
	d := newDeployment(t)
	d.writeRules(strings.ReplaceAll(daemonRules, "LIMIT", "0"))
	p := start(t, "analyze", "--brokers", d.broker, "--rules", d.rulesPath(), "--data", d.dir, "--listen", "")
	p.waitFor(`floodgate: load rules: .*rules.yaml:4:`, 10*time.Second)
	<-p.exited
	if code := p.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("bad rules: got exit code %d, want 1", code)
	}
}

// A frame that can't be read changes nothing, and who asks is shown it.
func TestRejectsShowsWhatAnAnalyzerRefused(t *testing.T) {
	d := newDeployment(t)
	d.start()
	noFrame := kafkaio.Message{Time: time.Now().UnixNano(), Value: []byte("GET /\x1b[2J " + strings.Repeat("not a frame ", 10))}
	if _, err := d.client.Produce(t.Context(), "floodgate.requests", 0, noFrame); err != nil {
		t.Fatal(err)
	}
	d.send("a", 5)
	d.awaitClosed("a", true)
	eventually(t, 10*time.Second, "the reject", func() bool {
		out, err := runCommand("rejects", "--brokers", d.broker)
		return err == nil && strings.Contains(out, `| kafka:floodgate.requests/0 |      0 | magic  | GET /\x1b[2J not a frame`) && strings.HasSuffix(out, "1 rejects\n")
	})
	metrics, _ := get(t.Context(), d.url+"/metrics")
	if got := metricSum(metrics, `floodgate_rejected_total{reason="magic"}`); got != 1 {
		t.Errorf("rejected: got %v, want 1:\n%s", got, metrics)
	}
}

func TestTwoAnalyzersDoNotShareADirectory(t *testing.T) {
	d := newDeployment(t)
	d.start()
	second := start(t, "analyze", "--brokers", d.broker, "--rules", d.rulesPath(), "--data", filepath.Join(d.dir, "counts"),
		"--listen", "", "--partitions", "1", "--session-timeout", "2s", "--group", "another")
	second.waitFor(`store is in use`, 20*time.Second)
	d.send("a", 5)
	d.awaitClosed("a", true)
}

// TestTwoAnalyzersOnOneDataDirectory: the second is refused before it asks Kafka for anything, and learns whose the
// directory is. When the first has ended, or was killed, the directory is free.
func TestTwoAnalyzersOnOneDataDirectory(t *testing.T) {
	t.Parallel()
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	data := filepath.Join(t.TempDir(), "counts")
	args := []string{"analyze", "--brokers", b.Addr(), "--rules", rulesFile(t), "--data", data, "--listen", "127.0.0.1:0", "--session-timeout", "2s"}
	for _, end := range []func(p *program){func(p *program) { p.kill() }, func(p *program) { p.stop(syscall.SIGTERM) }} {
		first := start(t, args...)
		awaitReady(t, "http://"+first.waitFor(`msg=listening address=(\S+)`, 10*time.Second), 200, "ok")
		_, err := runCommand(args...)
		want := fmt.Sprintf(`--data: store is in use by "process %d on `, first.cmd.Process.Pid)
		if err == nil || exitCode(err, io.Discard) != 1 || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), data+"; want a directory for each analyzer") {
			t.Errorf("got %v, want exit code 1 and %q", err, want)
		}
		end(first)
	}
}

// runCommand runs a subcommand in this process and returns its standard output.
func runCommand(args ...string) (string, error) {
	var out, logs strings.Builder
	err := realMain(context.Background(), args, process{
		stdin: strings.NewReader(""), stdout: &out, stderr: &logs, lookup: func(string) (string, bool) { return "", false },
	})
	return out.String(), err
}
