package main

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/audit"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/rows"
)

// auditSummary is what these tests read of the last line of an audit.
type auditSummary struct {
	Type                                                         string
	Exact                                                        bool
	Partitions, Failed, Differences, Requests, Agreed, Unaudited int
}

// auditArgs is how to audit what the analyzer has counted.
func auditArgs(d *processtest.Deployment, more ...string) []string {
	return append([]string{"audit", "--brokers", d.Broker, "--rules", d.RulesPath(), "--data", d.Counts()}, more...)
}

// tamper adds one to the last digit of the count of a key under a rule in a store, as a hand would that also keeps the store's digest right.
func tamper(t *testing.T, dir, rule, id string) {
	t.Helper()
	s, err := store.Open(dir, store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	var change store.Change
	err = s.Load(func(key, value []byte) error {
		if string(key) == string(fold.AppendRowKey(nil, rule, "key", id)) {
			change = store.Change{Key: append([]byte{}, key...), Value: append([]byte{}, value...), Old: rows.Sum(key, value)}
		}
		return nil
	})
	if err != nil || change.Key == nil {
		t.Fatalf("find row of %s: %v", id, err)
	}
	change.Value[len(change.Value)-1] += 2 // a varint of a small count, zigzag: one more
	if err := errors.Join(s.Commit(s.Checkpoint(), []store.Change{change}), s.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestAuditOfAnAnalyzerThatWasKilled(t *testing.T) {
	d := processtest.NewDeployment(t, start)
	d.WriteRules(processtest.Rules("1000"))
	d.Start()
	if _, err := runCommand(auditArgs(d)...); err == nil || !strings.Contains(err.Error(), "stop its analyzer first") {
		t.Errorf("a store in use: got %v, want to be told to stop the analyzer", err)
	}
	for i := range 20 {
		d.Send([]string{"a", "b", "c"}[i%3], 1)
		if i%7 == 6 {
			d.Seq-- // the next is taken for a duplicate
		}
		if i == 10 {
			d.Analyzer.Kill()
			d.Start()
		}
	}
	d.Counted()

	out, err := runCommand(auditArgs(d)...)
	if err != nil || !strings.Contains(out, "18 requests") || !strings.Contains(out, "2 duplicates") || !strings.Contains(out, "to the unit") {
		t.Errorf("audit: got %v,\n%s\nwant 18 requests without the 2 duplicates, to the unit", err, out)
	}

	tamper(t, filepath.Join(d.Counts(), "0"), "r", "b")
	out, err = runCommand(auditArgs(d)...)
	if command.ExitCode(err, &strings.Builder{}) != 1 || !strings.Contains(out, "key:b") || !strings.Contains(out, "+1") || !strings.Contains(out, "counts differ") ||
		strings.Contains(out, "key:a") {
		t.Errorf("audit of a changed row: got %v,\n%s\nwant key:b with one too many, alone", err, out)
	}
	out, err = runCommand(auditArgs(d, "--output", "json")...)
	if err == nil {
		t.Error("audit as JSON: got no error, want one")
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var found struct {
		Type, Caller, Why string
		Store, Log        int64
		From              string `json:"window_from"`
	}
	var sum auditSummary
	if err := errors.Join(json.Unmarshal([]byte(lines[0]), &found), json.Unmarshal([]byte(lines[len(lines)-1]), &sum)); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if found.Type != "difference" || found.Caller != "key:b" || found.Store != found.Log+1 || found.Why != audit.WhyCount || found.From == "" {
		t.Errorf("difference: got %+v", found)
	}
	if sum.Type != "summary" || sum.Exact || sum.Differences != 1 || sum.Requests != 18 || sum.Agreed == 0 || len(lines) != 3 {
		t.Errorf("summary: got %+v in %d lines", sum, len(lines))
	}
}

func TestAuditSaysWhatItCannotCompare(t *testing.T) {
	d := processtest.NewDeployment(t, start)
	d.Start()
	d.Send("a", 3)
	d.Counted()
	d.WriteRules(processtest.Rules("7"))
	if _, err := runCommand(auditArgs(d)...); !errors.Is(err, audit.ErrOtherRules) {
		t.Errorf("other rules: got %v, want %v", err, audit.ErrOtherRules)
	}
	d.WriteRules(processtest.Rules("5"))
	if _, err := runCommand(auditArgs(d, "--topic-name", "requests=nobody's")...); err == nil {
		t.Error("no such topic: got no error")
	}
	if _, err := runCommand("audit", "--brokers", d.Broker, "--rules", d.RulesPath(), "--data", t.TempDir()); err == nil || !strings.Contains(err.Error(), "holds no partition") {
		t.Errorf("an empty directory: got %v, want it said", err)
	}
	for _, args := range [][]string{
		{"audit", "--brokers", "x:1"}, {"audit", "--data", "d", "--rules", "r"}, auditArgs(d, "more"),
	} {
		if _, err := runCommand(args...); !command.IsUsage(err) {
			t.Errorf("%v: got %v, want a usage error", args, err)
		}
	}
}

// TestAuditGoesOnBesideAStalePartition: of four stores one was counted by other rules, one is of a partition that the topic
// does not have, one is in use, and one is right. Each is reported, and the exit code says that not all could be audited.
func TestAuditGoesOnBesideAStalePartition(t *testing.T) {
	d := processtest.NewDeployment(t, start)
	if out, err := runCommand("topics", "--brokers", d.Broker, "--create", "--partitions", "3"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d.Start() // with as many partitions as there are
	key := 0
	for schemas.Partition(schemas.DefaultPartitionKey().Hash("key", strconv.Itoa(key)), 3) != 0 {
		key++
	}
	sendTo(t, d.Broker, strconv.Itoa(key), 3, 1)
	d.Counted()
	counts := filepath.Join(d.Dir, "counts")
	for p, rules := range map[string]uint64{"1": 42, "2": 43, "7": 44} {
		s, err := store.Open(filepath.Join(counts, p), store.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(store.Checkpoint{Next: 1, RulesID: rules}, nil); err != nil {
			t.Fatal(err)
		}
		if p == "2" {
			t.Cleanup(func() { _ = s.Close() }) // in use
		} else if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	text, code := shown(auditArgs(d)...)
	for _, want := range []string{
		"partition 0: offsets 0 to 1,", "partition 1: NOT AUDITED: store was counted by other rules", "partition 2: NOT AUDITED: ", "stop its analyzer first",
		"partition 7: NOT AUDITED: topic floodgate.requests has 3 partitions", "3 MORE PARTITIONS COULD NOT BE AUDITED", "floodgate: audit: partition 1: store was counted by other rules", "    audit: partition 7: ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	if code != 1 || strings.Contains(text, "to the unit") {
		t.Errorf("got exit code %d and\n%s\nwant 1", code, text)
	}
	_, err := runCommand(auditArgs(d)...)
	if !errors.Is(err, audit.ErrOtherRules) || !errors.Is(err, store.ErrLocked) {
		t.Errorf("got %v, want both errors", err)
	}
	text, _ = shown(auditArgs(d, "--output", "json")...)
	var sum auditSummary
	failed := 0
	for line := range strings.Lines(text) {
		var p struct{ Type, Error string }
		if json.Unmarshal([]byte(line), &p) == nil && p.Type == "partition" && p.Error != "" {
			failed++
		}
		if p.Type == "summary" {
			if err := json.Unmarshal([]byte(line), &sum); err != nil {
				t.Fatal(err)
			}
		}
	}
	if failed != 3 || sum.Failed != 3 || sum.Partitions != 1 || sum.Exact {
		t.Errorf("got %d failed and %+v, want 3 failed, one audited:\n%s", failed, sum, text)
	}
}
