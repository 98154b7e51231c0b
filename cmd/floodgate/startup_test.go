package main

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// serveKafka starts an embedded broker that ends with the test, if not before.
func serveKafka(t *testing.T, o embedded.Options) *embedded.Broker {
	t.Helper()
	b, err := embedded.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() }) // it may have ended
	return b
}

// rulesFile writes a rules file that is good.
func rulesFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(processtest.Rules("5")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// beginAnalyze runs an analyzer in this process and returns it with its URL.
func beginAnalyze(t *testing.T, broker, data string, more ...string) (*processtest.Session, string) {
	t.Helper()
	s := begin(t, append([]string{
		"analyze", "--brokers", broker, "--rules", rulesFile(t), "--data", data, "--listen", "127.0.0.1:0", "--partitions", "2", "--session-timeout", "2s",
	}, more...)...)
	return s, "http://" + s.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
}

// TestAnalyzeThroughTheLifeOfItsBroker: a broker that appears late, goes away and comes back. The daemon lives through
// all of it, says so to whoever asks, and ends cleanly in the middle.
func TestAnalyzeThroughTheLifeOfItsBroker(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	address, log := testenv.FreeAddress(t), filepath.Join(t.TempDir(), "log")
	a, url := beginAnalyze(t, address, t.TempDir())
	processtest.AwaitReady(t, url, 503, "not ready: waiting for Kafka")
	if body, status := processtest.Get(t.Context(), url+"/healthz"); status != 200 || body != "ok\n" {
		t.Errorf("healthz while waiting: got %d, %q, want 200, ok", status, body)
	}
	if body, status := processtest.Get(t.Context(), url+"/metrics"); status != 200 || !strings.Contains(body, "go_goroutines") {
		t.Errorf("metrics while waiting: got %d, %q, want the process's own", status, body)
	}
	a.WaitFor(`level=WARN msg="cannot reach Kafka, trying again" error=.*refused`, 10*time.Second)

	options := embedded.Options{Listen: address, Dir: log, MinSession: time.Second}
	b := serveKafka(t, options)
	processtest.AwaitReady(t, url, 200, "ok")
	a.WaitFor(`msg="created topics" topics="\[floodgate.requests floodgate.decisions`, time.Second)

	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	processtest.AwaitReady(t, url, 503, "see floodgate_partition_state")
	if _, status := processtest.Get(t.Context(), url+"/healthz"); status != 200 {
		t.Errorf("healthz with the broker gone: got %d, want 200", status)
	}
	b = serveKafka(t, options)
	processtest.AwaitReady(t, url, 200, "ok")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	processtest.AwaitReady(t, url, 503, "")
	if took, err := a.End(); err != nil || took > 15*time.Second {
		t.Errorf("stopped with the broker gone: got %v after %v, want no error soon", err, took)
	}
	if n := strings.Count(a.Text(), "trying again"); n > 4 {
		t.Errorf("got %d warnings that Kafka is away, want one at each outage, and no more before a minute is over:\n%s", n, a.Text())
	}
	if text := a.Text(); !strings.HasSuffix(strings.TrimSpace(text), "msg=stopped") || strings.Contains(text, "panic") {
		t.Errorf("got log\n%s\nwant it to end with stopped", text)
	}
}

// SIGTERM while it waits for Kafka: there is nothing to save, so nothing to wait for.
func TestAnalyzeIsStoppedWhileItWaitsForKafka(t *testing.T) {
	t.Parallel()
	hole, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and never says a word
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hole.Close() })
	for name, broker := range map[string]string{
		"refused": testenv.FreeAddress(t), "a black hole": hole.Addr().String(), "no such name": "no-such-host.invalid:9092",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, url := beginAnalyze(t, broker, t.TempDir())
			processtest.AwaitReady(t, url, 503, "waiting for Kafka")
			if took, err := a.End(); err != nil || took > 3*time.Second {
				t.Errorf("got %v after %v, want no error at once:\n%s", err, took, a.Text())
			}
		})
	}
}

// What can be known to be wrong without Kafka is said before anything waits for it, listens, or writes.
func TestAnalyzeFindsWhatIsWrongBeforeItStarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	good := rulesFile(t)
	tests := map[string]struct {
		args []string
		want string
	}{
		"no rules file":       {[]string{"--rules", filepath.Join(dir, "none")}, "load rules: open rules: open .*none: no such file"},
		"bad rules":           {[]string{"--rules", write("bad.yaml", "version: 2\nrules: []\n")}, `bad.yaml:1:10: version: got 2, want 1`},
		"rules: a directory":  {[]string{"--rules", dir}, "is a directory"},
		"address in use":      {[]string{"--listen", taken.Addr().String()}, "--listen: .*address already in use"},
		"address of nobody":   {[]string{"--listen", "192.0.2.1:9090"}, "listen: .*cannot assign"},
		"no address":          {[]string{"--listen", "9090"}, "listen: .*missing port"},
		"no key file":         {[]string{"--partition-key-file", filepath.Join(dir, "none")}, "read partition key: open .*no such file"},
		"a key too short":     {[]string{"--partition-key-file", write("short", "0011\n")}, "short: bad partition key: got 4 characters, want 32 hexadecimal digits"},
		"a key of other text": {[]string{"--partition-key-file", write("text", strings.Repeat("g", 32))}, "got 32 characters, want 32 hexadecimal"},
		"data: a file":        {[]string{"--data", write("file", "")}, "not a directory"},
		"data: below a file":  {[]string{"--data", filepath.Join(write("file2", ""), "counts")}, "not a directory"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"analyze", "--brokers", testenv.FreeAddress(t), "--rules", good, "--data", filepath.Join(t.TempDir(), "data"), "--listen", ""}, test.args...)
			a := begin(t, args...)
			err := a.Wait(5 * time.Second)
			if err == nil || !matches(test.want, err.Error()) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if command.ExitCode(err, io.Discard) != 1 || strings.Contains(a.Text(), "Kafka") {
				t.Errorf("got exit code %d and\n%s\nwant 1 before Kafka is asked", command.ExitCode(err, io.Discard), a.Text())
			}
		})
	}
}

// The metrics keep to Prometheus's rules: names, units, help, types.
func TestMetricsAreLinted(t *testing.T) {
	t.Parallel()
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	a, url := beginAnalyze(t, b.Addr(), t.TempDir())
	processtest.AwaitReady(t, url, 200, "ok")
	body, _ := processtest.Get(t.Context(), url+"/metrics")
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, want := range []string{
		`floodgate_partition_state{partition="0",state="running"} 1`, `floodgate_partition_state{partition="1",state="running"} 1`,
		`floodgate_requests_total{partition="0"} 0`, `floodgate_closed{partition="1"} 0`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("got no line %s", want)
		}
	}
	for _, want := range []string{
		`floodgate_kafka_requests_total\{op="produce",result="ok"\} [1-9]`, `floodgate_kafka_requests_total\{op="group",result="ok"\} [1-9]`,
		`floodgate_store_bytes [1-9]`, `floodgate_store_free_bytes [1-9]`, `floodgate_restore_seconds\{partition="1"\} [0-9.e-]*[1-9]`,
		`floodgate_rule_requests_total\{result="counted",rule="\S+"\} 0$`, `floodgate_control_in_force\{action="close"\} 0$`,
	} {
		if !matches("(?m)^"+want, body) {
			t.Errorf("got no line that matches %s", want)
		}
	}
	if took, err := a.End(); err != nil || took > 5*time.Second {
		t.Errorf("got %v after %v, want a clean end", err, took)
	}
}

// Whoever asks twice does not want to wait for a clean end: here standard input never ends.
func TestTheSecondInterruptEndsAtOnce(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	p := startWith(t, r, "replay", "--rules", rulesFile(t), "-")
	processtest.Eventually(t, 10*time.Second, "replay to read", func() bool { _, err := w.WriteString("x\n"); return err == nil })
	p.WaitFor(`warning: rule r counts callers of kind "key"`, 10*time.Second)
	for range 100 {
		if err := p.Cmd.Process.Signal(syscall.SIGINT); errors.Is(err, os.ErrProcessDone) {
			break
		}
		select {
		case <-p.Exited:
		case <-time.After(100 * time.Millisecond):
		}
	}
	select {
	case <-p.Exited:
	case <-time.After(5 * time.Second):
		t.Fatalf("still running:\n%s", p.Text())
	}
	if code := p.Cmd.ProcessState.ExitCode(); code == 0 {
		t.Error("got exit code 0, want a failure: the log was not read to its end")
	}
}
