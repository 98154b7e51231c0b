//go:build lab

package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

const (
	goodFile = "version: 1 # good\nrules:\n  - {name: r, callers: key, limit: 5, window: 8760h, algorithm: fixed, close_for: 1h, escalate: {factor: 24, max: 30d, forget: 30d}}\n"
	badFile  = "version: 1 # bad\nrules:\n  - {name: r, callers: key, limit: 2, window: 8760h, algorithm: fixed, close_for: 1h, escalate: {factor: 24, max: 30d, forget: 30d}}\n"
)

// notes returns the notes of rules that the control topic holds.
func notes(d *processtest.Deployment) (list []schemas.Control) {
	d.T.Helper()
	next, end, err := d.Client.Range(d.T.Context(), "floodgate.control", 0)
	if err != nil {
		d.T.Fatal(err)
	}
	for next < end {
		b, err := d.Client.Fetch(d.T.Context(), kafkaio.FetchRequest{Topic: "floodgate.control", Offset: next, MaxBytes: 1 << 20})
		if err != nil {
			d.T.Fatal(err)
		}
		for _, rec := range b.Records {
			c, err := pb.DecodeControl(rec.Value)
			if err != nil {
				d.T.Fatal(err)
			}
			if c.Action == schemas.ControlRules {
				list = append(list, c)
			}
		}
		next = b.Next
	}
	return list
}

// startAnswering starts the analyzer with an API, and returns its address.
func startAnswering(d *processtest.Deployment) (api string) {
	d.T.Helper()
	d.Start("--api-listen", "127.0.0.1:0")
	return "http://" + d.Analyzer.WaitFor(`listening for the API" address=(\S+)`, 10*time.Second)
}

// ask runs a subcommand that asks an API, until it answers.
func ask[T any](t *testing.T, api string, args ...string) (answer T) {
	t.Helper()
	processtest.Eventually(t, 20*time.Second, fmt.Sprint(args), func() bool {
		out, err := runCommand(append(args, "--api", api, "--output", "json")...)
		return err == nil && json.Unmarshal([]byte(out), &answer) == nil
	})
	return answer
}

// TestRollingBackIsPuttingTheOldFileBack: a file with a mistake in a limit closes callers who did nothing wrong. With the old file
// they are open at once, and nothing remembers it: the close that comes later is a first one. Both versions are noted, each once,
// also over a restart; they can be shown, compared and put back.
func TestRollingBackIsPuttingTheOldFileBack(t *testing.T) {
	d := processtest.NewDeployment(t, start)
	d.WriteRules(goodFile)
	api := startAnswering(d)
	d.Send("a", 4)
	d.WriteRules(badFile)
	d.AwaitClosed("a", true)
	var versions []apiv1.RulesVersion
	processtest.Eventually(t, 20*time.Second, "two versions", func() bool {
		versions = ask[apiv1.RulesVersions](t, api, "rules", "versions").Versions
		return len(versions) == 2 && slices.Equal(versions[0].Partitions, []int{0})
	})
	if versions[0].Reason != d.RulesPath() || !versions[0].InUse || versions[1].InUse {
		t.Fatalf("got %+v, want both of the file, the newer one in use", versions)
	}
	good, bad := versions[1].ID, versions[0].ID
	out, err := runCommand("rules", "diff", good, bad, "--api", api)
	if want := "r: changed; counts stay\n  limit: 5 -> 2\n"; err != nil || !strings.Contains(out, want) {
		t.Errorf("got %v, %s, want %q", err, out, want)
	}
	old, err := runCommand("rules", "show", good, "--api", api)
	if err != nil || old != goodFile {
		t.Fatalf("got %v, %q, want the file as it was", err, old)
	}
	d.WriteRules(old)
	d.AwaitClosed("a", false)
	d.Send("a", 1) // the limit-th of the good rules
	d.AwaitClosed("a", true)
	if e := ask[apiv1.Explanation](t, api, "explain", "key:a"); len(e.Rules) != 1 || e.Rules[0].Closure == nil || e.Rules[0].Closure.Nth != 1 {
		t.Errorf("the close after the rollback: got %+v, want the first in a row", e.Rules)
	}
	if code := d.Analyzer.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, d.Analyzer.Text())
	}
	api = startAnswering(d)
	ask[apiv1.RulesVersions](t, api, "rules", "versions")
	noted := notes(d)
	if len(noted) != 2 || string(noted[0].Text) != goodFile || string(noted[1].Text) != badFile || !strings.Contains(noted[0].Author, "/") {
		t.Errorf("got %+v, want each version once", noted)
	}
}

// TestTwoFilesAtOnce: analyzers that count by different files are in status and in the metrics of each, until the file has reached
// all of them. It does not matter how the one that is asked has heard of it.
func TestTwoFilesAtOnce(t *testing.T) {
	d := processtest.NewDeployment(t, start)
	d.WriteRules(goodFile)
	second := filepath.Join(d.Dir, "second.yaml")
	if err := os.WriteFile(second, []byte(badFile), 0o600); err != nil {
		t.Fatal(err)
	}
	d.Start("--api-listen", "127.0.0.1:0", "--partitions", "2")
	api := "http://" + d.Analyzer.WaitFor(`listening for the API" address=(\S+)`, 10*time.Second)
	other := start(t, "analyze", "--brokers", d.Broker, "--rules", second, "--data", filepath.Join(d.Dir, "other"), "--listen", "127.0.0.1:0",
		"--api-listen", "127.0.0.1:0", "--session-timeout", "2s")
	otherURL := "http://" + other.WaitFor(`msg=listening address=(\S+)`, 30*time.Second)
	differ := func(want float64) {
		t.Helper()
		for _, url := range []string{d.URL, otherURL} {
			processtest.Eventually(t, 40*time.Second, fmt.Sprint("rules that differ: ", want), func() bool {
				metrics, _ := processtest.Get(t.Context(), url+"/metrics")
				return processtest.MetricSum(metrics, "floodgate_rules_differ") == want
			})
		}
		processtest.Eventually(t, 20*time.Second, "status says so too", func() bool {
			s := ask[apiv1.Status](t, api, "status")
			return s.RulesAgree == (want == 1) && s.Partitions[0].RulesID != "" && s.Partitions[1].RulesID != ""
		})
	}
	differ(2)
	d.WriteRules(badFile)
	differ(1)
	processtest.Eventually(t, 20*time.Second, "both versions are noted", func() bool { return len(notes(d)) >= 2 })
	if v := ask[apiv1.RulesVersions](t, api, "rules", "versions").Versions; len(v) != 2 {
		t.Errorf("got %+v, want two versions, whoever noted them", v)
	}
}
