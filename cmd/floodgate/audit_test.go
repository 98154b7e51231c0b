package main

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/store"
)

// auditArgs is how to audit what the daemon has counted.
func (d *daemon) auditArgs(more ...string) []string {
	return append([]string{"audit", "--brokers", d.broker, "--rules", d.rulesPath(), "--data", filepath.Join(d.dir, "counts")}, more...)
}

// counted waits until the daemon has counted all, then stops it.
func (d *daemon) counted() {
	d.t.Helper()
	_, end, err := d.client.Range(d.t.Context(), "floodgate.requests", 0)
	if err != nil {
		d.t.Fatal(err)
	}
	eventually(d.t, 30*time.Second, "all counted", func() bool {
		metrics, _ := get(d.t.Context(), d.url+"/metrics")
		return metricSum(metrics, "floodgate_next_offset") == float64(end)
	})
	if code := d.prog.stop(syscall.SIGTERM); code != 0 {
		d.t.Fatalf("SIGTERM: got exit code %d, want 0:\n%s", code, d.prog.text())
	}
}

// tamper adds one to the last digit of the count of a caller, as a hand would that also keeps the store's digest right.
func (d *daemon) tamper(caller string) {
	d.t.Helper()
	s, err := store.Open(filepath.Join(d.dir, "counts", "0"), store.Options{NoSync: true})
	if err != nil {
		d.t.Fatal(err)
	}
	var change store.Change
	err = s.Load(func(key, value []byte) error {
		if strings.HasSuffix(string(key), "\x00key:"+caller) {
			change = store.Change{Key: append([]byte{}, key...), Value: append([]byte{}, value...), Old: store.Sum(key, value)}
		}
		return nil
	})
	if err != nil || change.Key == nil {
		d.t.Fatalf("find row of %s: %v", caller, err)
	}
	change.Value[len(change.Value)-1] += 2 // a varint of a small count, zigzag: one more
	if err := errors.Join(s.Commit(s.Checkpoint(), []store.Change{change}), s.Close()); err != nil {
		d.t.Fatal(err)
	}
}

func TestAuditOfAnAnalyzerThatWasKilled(t *testing.T) {
	d := newDaemon(t)
	d.writeRules(strings.ReplaceAll(daemonRules, "LIMIT", "1000"))
	d.start()
	if _, err := runCommand(d.auditArgs()...); err == nil || !strings.Contains(err.Error(), "stop its analyzer first") {
		t.Errorf("a store in use: got %v, want to be told to stop the analyzer", err)
	}
	for i := range 20 {
		d.send([]string{"a", "b", "c"}[i%3], 1)
		if i%7 == 6 {
			d.seq-- // the next is taken for a duplicate
		}
		if i == 10 {
			d.prog.kill()
			d.start()
		}
	}
	d.counted()

	out, err := runCommand(d.auditArgs()...)
	if err != nil || !strings.Contains(out, "18 requests") || !strings.Contains(out, "2 duplicates") || !strings.Contains(out, "to the unit") {
		t.Errorf("audit: got %v,\n%s\nwant 18 requests without the 2 duplicates, to the unit", err, out)
	}

	d.tamper("b")
	out, err = runCommand(d.auditArgs()...)
	if exitCode(err, &strings.Builder{}) != 1 || !strings.Contains(out, "key:b") || !strings.Contains(out, "+1") || !strings.Contains(out, "counts differ") ||
		strings.Contains(out, "key:a") {
		t.Errorf("audit of a changed row: got %v,\n%s\nwant key:b with one too many, alone", err, out)
	}
	out, err = runCommand(d.auditArgs("--output", "json")...)
	if err == nil {
		t.Error("audit as JSON: got no error, want one")
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var found auditLine
	var sum auditSummary
	if err := errors.Join(json.Unmarshal([]byte(lines[0]), &found), json.Unmarshal([]byte(lines[len(lines)-1]), &sum)); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if found.Type != "difference" || found.Caller != "key:b" || found.Store != found.Log+1 || found.Why != analyzer.WhyCount || found.From == "" {
		t.Errorf("difference: got %+v", found)
	}
	if sum.Type != "summary" || sum.Exact || sum.Differences != 1 || sum.Requests != 18 || sum.Agreed == 0 || len(lines) != 3 {
		t.Errorf("summary: got %+v in %d lines", sum, len(lines))
	}
}

func TestAuditSaysWhatItCannotCompare(t *testing.T) {
	d := newDaemon(t)
	d.start()
	d.send("a", 3)
	d.counted()
	d.writeRules(strings.ReplaceAll(daemonRules, "LIMIT", "7"))
	if _, err := runCommand(d.auditArgs()...); !errors.Is(err, analyzer.ErrOtherRules) {
		t.Errorf("other rules: got %v, want %v", err, analyzer.ErrOtherRules)
	}
	d.writeRules(strings.ReplaceAll(daemonRules, "LIMIT", "5"))
	if _, err := runCommand(d.auditArgs("--topic-requests", "nobody's")...); err == nil {
		t.Error("no such topic: got no error")
	}
	if _, err := runCommand("audit", "--brokers", d.broker, "--rules", d.rulesPath(), "--data", t.TempDir()); err == nil || !strings.Contains(err.Error(), "holds no partition") {
		t.Errorf("an empty directory: got %v, want it said", err)
	}
	for _, args := range [][]string{
		{"audit", "--brokers", "x:1"}, {"audit", "--data", "d", "--rules", "r"}, d.auditArgs("--skew", "0"), d.auditArgs("--max-rows", "0"), d.auditArgs("more"),
	} {
		if _, err := runCommand(args...); !isUsage(err) {
			t.Errorf("%v: got %v, want a usage error", args, err)
		}
	}
}

func TestVerdictsOfAudits(t *testing.T) {
	for name, c := range map[string]struct {
		r    analyzer.AuditReport
		want string
	}{
		"nothing counted": {analyzer.AuditReport{}, ""},
		"agreed":          {analyzer.AuditReport{Agreed: 3}, ""},
		"partly":          {analyzer.AuditReport{Agreed: 3, Unaudited: make([]analyzer.Difference, 2)}, ""},
		"not at all":      {analyzer.AuditReport{Unaudited: make([]analyzer.Difference, 2)}, "nothing could be compared"},
		"differs":         {analyzer.AuditReport{Agreed: 3, Differences: make([]analyzer.Difference, 2)}, "2 rows"},
		"damaged":         {analyzer.AuditReport{Agreed: 3, Damage: store.ErrDigest}, "not those that were committed"},
	} {
		sum := sumAudit([]analyzer.AuditReport{c.r})
		err := sum.verdict()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestAuditSaysWhatWasNeverCounted(t *testing.T) {
	var out strings.Builder
	r := analyzer.AuditReport{Agreed: 1, Log: analyzer.FoldStats{Uncounted: 7, Rejected: map[string]uint64{"crc": 2, "misplaced": 1}}}
	sum := sumAudit([]analyzer.AuditReport{r})
	if err := renderAudit(inside(&out, nil), []analyzer.AuditReport{r}, sum, 0); err != nil || sum.verdict() != nil {
		t.Fatalf("got %v and %v, want no error", err, sum.verdict())
	}
	if want := "3 records or entries that were refused, and a weight of 7"; !strings.Contains(out.String(), want) {
		t.Errorf("got\n%s\nwant %q in it", out.String(), want)
	}
	if err := encodeAudit(inside(&out, nil), []analyzer.AuditReport{r}, sum); err != nil || !strings.Contains(out.String(), `"uncounted":7`) {
		t.Errorf("JSON: got %v,\n%s\nwant the weight that was not counted", err, out.String())
	}
}

func TestLongTablesAreCut(t *testing.T) {
	var out strings.Builder
	r := analyzer.AuditReport{Differences: make([]analyzer.Difference, 9), Damage: store.ErrDigest}
	if err := renderAudit(inside(&out, nil), []analyzer.AuditReport{r}, sumAudit([]analyzer.AuditReport{r}), 4); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"4 of 9 rows", "NOT WHAT THE LOG SAYS", store.ErrDigest.Error()} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant %q in it", out.String(), want)
		}
	}
}
