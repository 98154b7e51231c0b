package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/filelog"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/solo"
)

// servePartitions is how many partitions a floodgate serve has.
const servePartitions = 4

// serveData is a directory of data as floodgate serve keeps it: a log, rules, and an analyzer at work on them. Its requests happen on a day
// long ago, so that a test can say when.
type serveData struct {
	t     *testing.T
	dir   string
	log   *filelog.Log
	names schemas.TopicNames
	seq   [servePartitions]uint64
}

const serveRules = `
version: 1
rules:
  - {name: minute, callers: key, limit: 5, window: 1m, algorithm: fixed, close_for: 1m, escalate: {factor: 2, max: 1h, forget: 24h}}
  - {name: day, callers: key, limit: 1000, window: day}
`

// morning is when the requests begin.
func morning() time.Time { return time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC) }

func newServeData(t *testing.T) *serveData {
	t.Helper()
	d := &serveData{t: t, dir: t.TempDir(), names: schemas.DefaultTopicNames()}
	if err := os.WriteFile(filepath.Join(d.dir, "rules.yaml"), []byte(serveRules), 0o600); err != nil {
		t.Fatal(err)
	}
	d.open()
	return d
}

// open opens the log, as serve does at its start.
func (d *serveData) open() {
	d.t.Helper()
	log, err := filelog.Open(filepath.Join(d.dir, "log"), filelog.Options{SegmentBytes: 2000})
	if err != nil {
		d.t.Fatal(err)
	}
	d.log = log
	d.t.Cleanup(func() { _ = log.Close() })
	var specs []kafkaio.TopicSpec
	for _, name := range []string{d.names.Requests, d.names.Decisions, d.names.State, d.names.Events} {
		specs = append(specs, kafkaio.TopicSpec{Name: name, Partitions: servePartitions})
	}
	specs = append(specs, kafkaio.TopicSpec{Name: d.names.Control, Partitions: 1}, kafkaio.TopicSpec{Name: d.names.Rejects, Partitions: 1})
	if _, err := log.EnsureTopics(d.t.Context(), specs...); err != nil {
		d.t.Fatal(err)
	}
}

// keyIn returns a key of a partition, whose name begins so.
func keyIn(partition int, name string) string {
	for i := 0; ; i++ {
		key := name + strconv.Itoa(i)
		if schemas.Partition(schemas.DefaultPartitionKey().Hash("key", key), servePartitions) == partition {
			return key
		}
	}
}

// send sends one request, of a key of each partition whose name begins so.
func (d *serveData) send(at time.Time, name string) {
	d.t.Helper()
	for p := range servePartitions {
		d.seq[p]++
		f := schemas.Frame{
			Producer: schemas.ProducerID{byte(p + 1)}, Seq: d.seq[p], Partitions: servePartitions, Fingerprint: schemas.DefaultPartitionKey().Fingerprint(),
			Flushed: at.UnixNano(), Entries: []schemas.Entry{{Time: at.UnixNano(), Kind: "key", ID: keyIn(p, name), Count: 1}},
		}
		value, err := f.AppendTo(nil)
		if err != nil {
			d.t.Fatal(err)
		}
		d.produce(p, kafkaio.Message{Time: at.UnixNano(), Value: value})
	}
}

func (d *serveData) produce(partition int, m kafkaio.Message) {
	d.t.Helper()
	if _, err := d.log.Produce(d.t.Context(), d.names.Requests, partition, m); err != nil {
		d.t.Fatal(err)
	}
}

// count runs an analyzer, as serve does, until all is counted and in a snapshot. Then it calls f, and stops.
func (d *serveData) count(f func()) {
	d.t.Helper()
	set, err := rules.Load(filepath.Join(d.dir, "rules.yaml"))
	if err != nil {
		d.t.Fatal(err)
	}
	lock, err := store.Lock(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	a := analyzer.New(d.log, analyzer.Config{
		Dir: d.dir, Join: func() (analyzer.Membership, error) { return solo.New(servePartitions), nil },
		Owner: analyzer.OwnerConfig{
			Fold: fold.Options{Partitions: servePartitions}, Rules: set, Name: "serve", Store: store.Options{NoSync: true}, Sync: d.log.Sync,
			Requests: d.names.Requests, Decisions: d.names.Decisions, State: d.names.State, Rejects: d.names.Rejects, Control: d.names.Control,
			Events: d.names.Events, Checkpoint: 10 * time.Millisecond, Snapshot: 100 * time.Millisecond,
		},
	})
	ctx, stop := context.WithCancel(d.t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	d.counted(a)
	f()
	stop()
	if err := errors.Join(<-done, d.log.Sync(), lock.Close()); err != nil {
		d.t.Fatal(err)
	}
}

// counted waits until all is counted, and two snapshots have ended since: the second of them has all.
func (d *serveData) counted(a *analyzer.Analyzer) {
	d.t.Helper()
	all := func(ok func(s *analyzer.OwnerStats) bool) func() bool {
		return func() bool {
			n := 0
			for _, s := range a.Stats() {
				if ok(&s) {
					n++
				}
			}
			return n == servePartitions
		}
	}
	processtest.Eventually(d.t, 30*time.Second, "all counted", all(func(s *analyzer.OwnerStats) bool {
		_, end, err := d.log.Range(d.t.Context(), d.names.Requests, s.Partition)
		return err == nil && s.State == analyzer.Running && s.Next == end
	}))
	before := make(map[int]uint64)
	for _, s := range a.Stats() {
		before[s.Partition] = s.Snapshots
	}
	processtest.Eventually(d.t, 30*time.Second, "a snapshot of all", all(func(s *analyzer.OwnerStats) bool { return s.Snapshots >= before[s.Partition]+2 }))
}

// trim removes what is in snapshots from the log of requests, and returns the first offset of partition 0.
func (d *serveData) trim() (start int64) {
	d.t.Helper()
	for p := range servePartitions {
		_, end, err := d.log.Range(d.t.Context(), d.names.Requests, p)
		if err = errors.Join(err, d.log.Trim(d.names.Requests, p, end)); err != nil {
			d.t.Fatal(err)
		}
	}
	start, _, err := d.log.Range(d.t.Context(), d.names.Requests, 0)
	if err != nil || start == 0 {
		d.t.Fatalf("got start %d, %v, want a log that was trimmed", start, err)
	}
	return start
}

// audit audits the directory, and returns the text and the summary.
func (d *serveData) audit() (text string, sum auditSummary, err error) {
	d.t.Helper()
	text, err = runCommand("audit", "--data", d.dir)
	lines, _ := runCommand("audit", "--data", d.dir, "--output", "json")
	lines = strings.TrimSpace(lines)
	if failed := json.Unmarshal([]byte(lines[strings.LastIndexByte(lines, '\n')+1:]), &sum); failed != nil {
		d.t.Fatalf("%v:\n%s", failed, lines)
	}
	return text, sum, err
}

// TestTheDataOfAServe: audit, store and rejects work on a floodgate serve's directory as they do on an analyzer's and its cluster.
func TestTheDataOfAServe(t *testing.T) {
	t.Parallel()
	d := newServeData(t)
	for i := range 7 {
		d.send(morning().Add(time.Duration(i)*time.Second), "a")
	}
	d.send(morning().Add(10*time.Second), "b")
	d.produce(2, kafkaio.Message{Time: morning().UnixNano(), Value: []byte("not a frame")})
	rejects := func(when string) {
		processtest.Eventually(t, 10*time.Second, "the reject "+when, func() bool {
			out, err := runCommand("rejects", "--data", d.dir)
			return err == nil && strings.Contains(out, "| kafka:floodgate.requests/2 |      8 | short  | not a frame |") && strings.HasSuffix(out, "\n1 rejects\n")
		})
	}
	d.count(func() {
		rejects("while it runs")
		out, err := runCommand("audit", "--data", d.dir)
		if !errors.Is(err, store.ErrLocked) || command.IsUsage(err) || !strings.Contains(out, "NO PARTITION COULD BE AUDITED") {
			t.Errorf("audit while it runs: got %v and\n%s\nwant %v", err, out, store.ErrLocked)
		}
		if _, err := runCommand("store", "--data", d.dir); !errors.Is(err, store.ErrLocked) {
			t.Errorf("store while it runs: got %v, want %v", err, store.ErrLocked)
		}
	})
	rejects("when it is stopped")
	out, sum, err := d.audit()
	if want := "4 partitions, 32 requests, 20 rows: the store agrees with the log, to the unit\n"; err != nil || !strings.HasSuffix(out, want) || !sum.Exact {
		t.Errorf("audit: got %v, %+v and\n%s\nwant %s", err, sum, out, want)
	}
	if out, err := runCommand("store", "--data", d.dir, "--caller", "key:"+keyIn(3, "a")); err != nil || strings.Count(out, keyIn(3, "a")) != 2 {
		t.Errorf("store: got %v and\n%s\nwant both rows of one caller", err, out)
	}
	if out, err := runCommand("audit", "--data", d.dir, "--rules", rulesFile(t)); err == nil || !strings.Contains(out, "counted by other rules") {
		t.Errorf("other rules: got %v and\n%s\nwant that they are used", err, out)
	}
	tamper(t, filepath.Join(d.dir, "0"), "minute", keyIn(0, "b"))
	if out, sum, err := d.audit(); err == nil || !strings.Contains(out, "THE STORE DIFFERS FROM THE LOG") || sum.Exact || sum.Differences == 0 {
		t.Errorf("a count that was changed by hand: got %v, %+v and\n%s", err, sum, out)
	}
}

// TestAuditOfAServeWhoseLogWasTrimmed: what retention has removed makes no difference between log and store, and an audit claims no more
// than it has compared. A store that was rebuilt from a snapshot is audited in the same way.
func TestAuditOfAServeWhoseLogWasTrimmed(t *testing.T) {
	t.Parallel()
	d := newServeData(t)
	at := morning()
	send := func(n int, name string) {
		for range n {
			at = at.Add(time.Second)
			d.send(at, name)
		}
	}
	send(40, "old")
	d.count(func() {})
	start := d.trim()
	at = at.Add(time.Hour)
	send(80, "noon") // an audit looks at some messages to find out how new the ones before them may be
	at = at.Add(5 * time.Minute)
	send(4, "late")
	d.count(func() {})
	partly := func(when string) {
		out, sum, err := d.audit()
		if err != nil || !strings.HasSuffix(out, ": the store agrees with the log, as far back as the log reaches\n") || strings.Contains(out, "approximate") {
			t.Errorf("%s: got %v and\n%s\nwant that the log does not reach back far enough", when, err, out)
		}
		if sum.Exact || sum.Unaudited != servePartitions || sum.Differences != 0 || sum.Agreed == 0 {
			t.Errorf("%s: got %+v, want it not exact: one day in each partition began before the log does", when, sum)
		}
		if want := "partition 0: offsets " + strconv.FormatInt(start, 10) + " to 124, "; !strings.Contains(out, want) {
			t.Errorf("%s: got\n%s\nwant %s", when, out, want)
		}
	}
	partly("trimmed")
	for p := range servePartitions {
		if err := os.RemoveAll(filepath.Join(d.dir, strconv.Itoa(p))); err != nil {
			t.Fatal(err)
		}
	}
	d.count(func() {})
	partly("rebuilt from a snapshot")
	tamper(t, filepath.Join(d.dir, "0"), "minute", keyIn(0, "late"))
	if out, sum, err := d.audit(); err == nil || !strings.Contains(out, "THE STORE DIFFERS FROM THE LOG") || sum.Exact || sum.Differences != 1 {
		t.Errorf("a minute within the log that was changed by hand: got %v, %+v and\n%s", err, sum, out)
	}
}

// TestAuditOfATrimmedLogWhoseWindowsHaveEnded: all windows have ended that began before the log does. On the day after, rows still know
// how often their callers were closed, and what the log holds cannot prove that. Later nothing is left but what it can prove.
func TestAuditOfATrimmedLogWhoseWindowsHaveEnded(t *testing.T) {
	t.Parallel()
	for later, want := range map[time.Duration]string{20 * time.Hour: "as far back as the log reaches", 100 * time.Hour: "to the unit"} {
		d := newServeData(t)
		for i := range 40 {
			d.send(morning().Add(time.Duration(i)*time.Second), "old")
		}
		d.count(func() {})
		d.trim()
		for i := range 80 {
			d.send(morning().Add(later+time.Duration(i)*time.Second), "new")
		}
		d.count(func() {})
		out, sum, err := d.audit()
		if err != nil || !strings.HasSuffix(out, ": the store agrees with the log, "+want+"\n") || sum.Exact != (want == "to the unit") || sum.Unaudited != 0 {
			t.Errorf("%v later: got %v, %+v and\n%s\nwant %s", later, err, sum, out, want)
		}
	}
}

// TestAuditOfATrimmedLogAfterTheClockWasSetBack: what the log no longer holds is newer than what it does hold, and proves no difference.
func TestAuditOfATrimmedLogAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	d := newServeData(t)
	for i := range 40 {
		d.send(morning().Add(time.Duration(i)*time.Second), "old")
	}
	for i := range 40 {
		d.send(morning().Add(time.Duration(i)*time.Second-time.Hour), "back")
	}
	d.count(func() {})
	if start := d.trim(); start < 40 {
		t.Fatalf("got a log from offset %d, want none of the first 40", start)
	}
	out, sum, err := d.audit()
	if err != nil || sum.Differences != 0 || sum.Unaudited == 0 || sum.Exact || !strings.Contains(out, "as far back as the log reaches") {
		t.Errorf("got %v, %+v and\n%s\nwant no difference", err, sum, out)
	}
}
