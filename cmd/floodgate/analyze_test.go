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

	"github.com/cespare/xxhash/v2"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

func TestAnalyzeCountsOnAfterSIGTERM(t *testing.T) {
	d := processtest.NewDeployment(t, start)
	d.Start()
	if body, status := processtest.Get(t.Context(), d.URL+"/healthz"); status != 200 {
		t.Errorf("healthz: got %d, %s, want 200", status, body)
	}
	d.Send("a", 3)
	processtest.Eventually(t, 10*time.Second, "3 requests counted", func() bool {
		metrics, _ := processtest.Get(t.Context(), d.URL+"/metrics")
		return processtest.MetricSum(metrics, "floodgate_requests_total") == 3
	})
	if code := d.Analyzer.Stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("SIGTERM: got exit code %d, want 0:\n%s", code, d.Analyzer.Text())
	}
	d.Send("a", 1) // while nobody counts
	d.Start()
	d.Send("a", 1)
	d.AwaitClosed("a", true)
	for name, want := range map[string]float64{
		"floodgate_requests_total": 2, "floodgate_closes_total": 1, "floodgate_closed": 1, "floodgate_next_offset": 3,
	} { // the closure is in the topic before its publisher has counted it
		processtest.Eventually(t, 10*time.Second, fmt.Sprint(name, " ", want), func() bool {
			metrics, _ := processtest.Get(t.Context(), d.URL+"/metrics")
			return processtest.MetricSum(metrics, name) == want
		})
	}
	if code := d.Analyzer.Stop(syscall.SIGINT); code != 0 {
		t.Errorf("SIGINT: got exit code %d, want 0", code)
	}
	out, err := runCommand("store", "--data", filepath.Join(d.Dir, "counts"), "--rules", d.RulesPath(), "--output", "json")
	if err != nil || !strings.Contains(out, `"caller":"key:a","count":5,"limit":5,"closed_until":`) {
		t.Errorf("store: got %v,\n%s\nwant key:a at 5 of 5", err, out)
	}
}

func TestRulesAreReloadedWithoutLosingCounts(t *testing.T) {
	d := processtest.NewDeployment(t, start)
	d.Start()
	d.Send("a", 5)
	d.AwaitClosed("a", true)
	d.WriteRules(processtest.Rules("8"))
	d.AwaitClosed("a", false)
	d.WriteRules(processtest.Rules("none"))
	d.Analyzer.WaitFor(`level=ERROR msg="rules not changed.*rules.yaml:4:`, 10*time.Second)
	wantRefused(d, true)
	d.Send("a", 2)
	if d.ClosedKeys(t.Context())["a"] {
		t.Error("a: closed at 7 of 8, want open: the bad file changes nothing")
	}
	d.Send("a", 1)
	d.AwaitClosed("a", true)
	if err := d.Analyzer.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	d.WriteRules("version: 1\nrules: []\n")
	d.WriteRules(processtest.Rules("9"))
	d.AwaitClosed("a", false)
	wantRefused(d, false)
	if code := d.Analyzer.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, d.Analyzer.Text())
	}
}

// wantRefused waits until the metrics and the status agree on whether the newest rules file is refused.
func wantRefused(d *processtest.Deployment, want bool) {
	d.T.Helper()
	processtest.Eventually(d.T, 10*time.Second, fmt.Sprintf("rules refused: %v", want), func() bool {
		metrics, _ := processtest.Get(d.T.Context(), d.URL+"/metrics")
		body, code := processtest.Get(d.T.Context(), d.URL+"/status")
		var status struct{ Rules struct{ ID, Refused string } }
		if err := json.Unmarshal([]byte(body), &status); err != nil || code != http.StatusOK {
			d.T.Fatalf("status: got %d, %v, %s", code, err, body)
		}
		return (processtest.MetricSum(metrics, "floodgate_rules_refused") == 1) == want &&
			strings.Contains(status.Rules.Refused, "rules.yaml:4:") == want && strings.Contains(metrics, `floodgate_rules_info{id="`+status.Rules.ID+`"} 1`)
	})
}

func TestAnalyzeSaysWhatIsWrongAndExits(t *testing.T) {
	d := processtest.NewDeployment(t, start)
	d.WriteRules(processtest.Rules("0"))
	p := start(t, "analyze", "--brokers", d.Broker, "--rules", d.RulesPath(), "--data", d.Dir, "--listen", "")
	p.WaitFor(`floodgate: load rules: .*rules.yaml:4:`, 10*time.Second)
	<-p.Exited
	if code := p.Cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("bad rules: got exit code %d, want 1", code)
	}
}

// TestAnalyzeEndsWhereANewerVersionHasCounted: it says which release it needs, changes nothing, and its exit code is 3.
func TestAnalyzeEndsWhereANewerVersionHasCounted(t *testing.T) {
	d := processtest.NewDeployment(t, start)
	d.Start()
	d.Send("a", 5)
	d.AwaitClosed("a", true)
	d.Analyzer.Stop(syscall.SIGTERM)
	line := "floodgate store 2 v0.2.0 "
	path := filepath.Join(d.Counts(), "0", "FORMAT")
	if err := os.WriteFile(path, fmt.Appendf(nil, "%s%016x\n", line, xxhash.Sum64String(line)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "analyze", "--brokers", d.Broker, "--rules", d.RulesPath(), "--data", d.Counts(), "--listen", "")
	p.WaitFor(`floodgate: analyze: partition 0: open store: .*newer version of floodgate.*v0\.2\.0`, 20*time.Second)
	if code := p.Wait(10 * time.Second); code != 3 {
		t.Errorf("got exit code %d, want 3", code)
	}
	if aside, err := filepath.Glob(filepath.Join(d.Counts(), "0.*")); err != nil || len(aside) > 0 {
		t.Errorf("moved aside: got %q, %v, want none", aside, err)
	}
	_, err := runCommand("store", "--data", d.Counts(), "--rules", d.RulesPath())
	if code := command.ExitCode(err, io.Discard); code != 3 {
		t.Errorf("store: got exit code %d and %v, want 3", code, err)
	}
}

// A frame that can't be read changes nothing, and who asks is shown it.
func TestRejectsShowsWhatAnAnalyzerRefused(t *testing.T) {
	d := processtest.NewDeployment(t, start)
	d.Start()
	noFrame := kafkaio.Message{Time: time.Now().UnixNano(), Value: []byte("GET /\x1b[2J " + strings.Repeat("not a frame ", 10))}
	if _, err := d.Client.Produce(t.Context(), "floodgate.requests", 0, noFrame); err != nil {
		t.Fatal(err)
	}
	d.Send("a", 5)
	d.AwaitClosed("a", true)
	processtest.Eventually(t, 10*time.Second, "the reject", func() bool {
		out, err := runCommand("rejects", "--brokers", d.Broker)
		return err == nil && strings.Contains(out, `| kafka:floodgate.requests/0 |      0 | magic  | GET /\x1b[2J not a frame`) && strings.HasSuffix(out, "1 rejects\n")
	})
	metrics, _ := processtest.Get(t.Context(), d.URL+"/metrics")
	if got := processtest.MetricSum(metrics, `floodgate_rejected_total{reason="magic"}`); got != 1 {
		t.Errorf("rejected: got %v, want 1:\n%s", got, metrics)
	}
}

func TestTwoAnalyzersDoNotShareADirectory(t *testing.T) {
	d := processtest.NewDeployment(t, start)
	d.Start()
	second := start(t, "analyze", "--brokers", d.Broker, "--rules", d.RulesPath(), "--data", filepath.Join(d.Dir, "counts"),
		"--listen", "", "--partitions", "1", "--session-timeout", "2s", "--group", "another")
	second.WaitFor(`store is in use`, 20*time.Second)
	d.Send("a", 5)
	d.AwaitClosed("a", true)
}

// TestTwoAnalyzersOnOneDataDirectory: the second is refused before it asks Kafka for anything, and learns whose the
// directory is. When the first has ended, or was killed, the directory is free.
func TestTwoAnalyzersOnOneDataDirectory(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	data := filepath.Join(t.TempDir(), "counts")
	args := []string{"analyze", "--brokers", b.Addr(), "--rules", rulesFile(t), "--data", data, "--listen", "127.0.0.1:0", "--session-timeout", "2s"}
	for _, end := range []func(p *processtest.Program){func(p *processtest.Program) { p.Kill() }, func(p *processtest.Program) { p.Stop(syscall.SIGTERM) }} {
		first := start(t, args...)
		processtest.AwaitReady(t, "http://"+first.WaitFor(`msg=listening address=(\S+)`, 10*time.Second), 200, "ok")
		_, err := runCommand(args...)
		want := fmt.Sprintf(`--data: store is in use by "process %d on `, first.Cmd.Process.Pid)
		if err == nil || command.ExitCode(err, io.Discard) != 1 || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), data+"; want a directory for each analyzer") {
			t.Errorf("got %v, want exit code 1 and %q", err, want)
		}
		end(first)
	}
}

// runCommand runs a subcommand in this process and returns its standard output.
func runCommand(args ...string) (string, error) {
	var out, logs strings.Builder
	err := realMain(context.Background(), args, command.Process{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &logs, Lookup: func(string) (string, bool) { return "", false },
	})
	return out.String(), err
}
