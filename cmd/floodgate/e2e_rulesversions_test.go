package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

const (
	goodFile = "version: 1 # good\nrules:\n  - {name: r, callers: key, limit: 5, window: 8760h, algorithm: fixed, close_for: 1h, escalate: {factor: 24, max: 30d, forget: 30d}}\n"
	badFile  = "version: 1 # bad\nrules:\n  - {name: r, callers: key, limit: 2, window: 8760h, algorithm: fixed, close_for: 1h, escalate: {factor: 24, max: 30d, forget: 30d}}\n"
)

// notes returns the notes of rules that the control topic holds.
func (d *deployment) notes() (list []schemas.Control) {
	d.t.Helper()
	next, end, err := d.client.Range(d.t.Context(), "floodgate.control", 0)
	if err != nil {
		d.t.Fatal(err)
	}
	for next < end {
		b, err := d.client.Fetch(d.t.Context(), kafkaio.FetchRequest{Topic: "floodgate.control", Offset: next, MaxBytes: 1 << 20})
		if err != nil {
			d.t.Fatal(err)
		}
		for _, rec := range b.Records {
			c, err := pb.DecodeControl(rec.Value)
			if err != nil {
				d.t.Fatal(err)
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
func (d *deployment) startAnswering() (api string) {
	d.t.Helper()
	d.start("--api-listen", "127.0.0.1:0")
	return "http://" + d.prog.waitFor(`listening for the API" address=(\S+)`, 10*time.Second)
}

// ask runs a subcommand that asks an API, until it answers.
func ask[T any](t *testing.T, api string, args ...string) (answer T) {
	t.Helper()
	eventually(t, 20*time.Second, fmt.Sprint(args), func() bool {
		out, err := runCommand(append(args, "--api", api, "--output", "json")...)
		return err == nil && json.Unmarshal([]byte(out), &answer) == nil
	})
	return answer
}

// TestRollingBackIsPuttingTheOldFileBack: a file with a mistake in a limit closes callers who did nothing wrong. With the old file
// they are open at once, and nothing remembers it: the close that comes later is a first one. Both versions are noted, each once,
// also over a restart; they can be shown, compared and put back.
func TestRollingBackIsPuttingTheOldFileBack(t *testing.T) {
	d := newDeployment(t)
	d.writeRules(goodFile)
	api := d.startAnswering()
	d.send("a", 4)
	d.writeRules(badFile)
	d.awaitClosed("a", true)
	var versions []apiv1.RulesVersion
	eventually(t, 20*time.Second, "two versions", func() bool {
		versions = ask[apiv1.RulesVersions](t, api, "rules", "versions").Versions
		return len(versions) == 2 && slices.Equal(versions[0].Partitions, []int{0})
	})
	if versions[0].Reason != d.rulesPath() || !versions[0].InUse || versions[1].InUse {
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
	d.writeRules(old)
	d.awaitClosed("a", false)
	d.send("a", 1) // the limit-th of the good rules
	d.awaitClosed("a", true)
	if e := ask[apiv1.Explanation](t, api, "explain", "key:a"); len(e.Rules) != 1 || e.Rules[0].Closure == nil || e.Rules[0].Closure.Nth != 1 {
		t.Errorf("the close after the rollback: got %+v, want the first in a row", e.Rules)
	}
	if code := d.prog.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, d.prog.text())
	}
	api = d.startAnswering()
	ask[apiv1.RulesVersions](t, api, "rules", "versions")
	notes := d.notes()
	if len(notes) != 2 || string(notes[0].Text) != goodFile || string(notes[1].Text) != badFile || !strings.Contains(notes[0].Author, "/") {
		t.Errorf("got %+v, want each version once", notes)
	}
}

// TestTwoFilesAtOnce: analyzers that count by different files are in status and in the metrics of each, until the file has reached
// all of them. It does not matter how the one that is asked has heard of it.
func TestTwoFilesAtOnce(t *testing.T) {
	d := newDeployment(t)
	d.writeRules(goodFile)
	second := ruleFile(t, badFile)
	d.start("--api-listen", "127.0.0.1:0", "--partitions", "2")
	api := "http://" + d.prog.waitFor(`listening for the API" address=(\S+)`, 10*time.Second)
	other := start(t, "analyze", "--brokers", d.broker, "--rules", second, "--data", filepath.Join(d.dir, "other"), "--listen", "127.0.0.1:0",
		"--api-listen", "127.0.0.1:0", "--session-timeout", "2s")
	otherURL := "http://" + other.waitFor(`msg=listening address=(\S+)`, 30*time.Second)
	differ := func(want float64) {
		t.Helper()
		for _, url := range []string{d.url, otherURL} {
			eventually(t, 40*time.Second, fmt.Sprint("rules that differ: ", want), func() bool {
				metrics, _ := get(t.Context(), url+"/metrics")
				return metricSum(metrics, "floodgate_rules_differ") == want
			})
		}
		eventually(t, 20*time.Second, "status says so too", func() bool {
			s := ask[apiv1.Status](t, api, "status")
			return s.RulesAgree == (want == 1) && s.Partitions[0].RulesID != "" && s.Partitions[1].RulesID != ""
		})
	}
	differ(2)
	d.writeRules(badFile)
	differ(1)
	eventually(t, 20*time.Second, "both versions are noted", func() bool { return len(d.notes()) >= 2 })
	if v := ask[apiv1.RulesVersions](t, api, "rules", "versions").Versions; len(v) != 2 {
		t.Errorf("got %+v, want two versions, whoever noted them", v)
	}
}
