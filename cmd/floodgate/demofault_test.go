package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// TestDemoIsInterruptedInAnyPhase: whenever Ctrl-C comes, the demo ends soon, says what it did, and leaves no file.
func TestDemoIsInterruptedInAnyPhase(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond, 150 * time.Millisecond, 700 * time.Millisecond, 1500 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			tmp := t.TempDir()
			t.Setenv("TMPDIR", tmp)
			d := begin(t, "demo", "--duration", "1200ms", "--quiet", "5", "--noisy-rate", "200", "--window", "1s")
			select {
			case <-time.After(after):
			case <-d.ended:
			}
			took, err := d.end()
			if took > 10*time.Second {
				t.Errorf("took %v to end, want it soon", took)
			}
			text := d.text()
			switch {
			case err == nil && !strings.Contains(text, ": exact\n"):
				t.Errorf("got no error, and no exact audit:\n%s", text)
			case err != nil && !errors.Is(err, errInterrupted):
				t.Errorf("got %v, want an audit or that it was too early for one", err)
			}
			left, err := os.ReadDir(tmp)
			if err != nil || len(left) != 0 {
				t.Errorf("got %v and %v left behind, want nothing", left, err)
			}
		})
	}
}

// TestDemoAuditCatchesALiar: somebody else writes one frame into the demo's log. That is one request too many of one
// caller, and one caller whom nobody sent: the demo says both, and fails.
func TestDemoAuditCatchesALiar(t *testing.T) {
	d := begin(t, "demo", "--duration", "1500ms", "--quiet", "3", "--partitions", "1", "--data", filepath.Join(t.TempDir(), "demo"))
	broker := d.waitFor(`starting a broker on ([^,]+),`, 10*time.Second)
	d.waitFor(`admitted +\d+`, 20*time.Second)
	client := kafkaio.New(kafkaio.Config{Brokers: []string{broker}})
	defer client.Close()
	now := time.Now().UnixNano()
	f := schemas.Frame{
		Producer: schemas.ProducerID{6, 6, 6}, Seq: 1, Flushed: now, Partitions: 1, Fingerprint: schemas.DefaultPartitionKey().Fingerprint(),
		Entries: []schemas.Entry{{Time: now, Kind: "key", ID: "quiet-01", Count: 1}, {Time: now, Kind: "key", ID: "stranger", Count: 3}},
	}
	value, err := f.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Produce(t.Context(), "floodgate.requests", 0, kafkaio.Message{Time: now, Value: value}); err != nil {
		t.Fatal(err)
	}
	err = d.wait(30 * time.Second)
	if err == nil || exitCode(err, io.Discard) != 1 || !strings.Contains(err.Error(), "the audit found differences") {
		t.Errorf("got %v, want exit code 1 and why", err)
	}
	for _, want := range []string{`(?m)^audit: quiet-01: generator saw (\d+) admitted and 0 blocked, the log \d+ and 0$`, `(?m)^audit: stranger: in the log, but never sent$`, `(?m)^audit: generator \d+ = log \d+ = store \d+: WRONG$`} {
		if !matches(want, d.text()) {
			t.Errorf("got no line %s in\n%s", want, d.text())
		}
	}
}

func TestDemoViewFitsATerminal(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 5e6, time.UTC)
	callers := func(n int) (list []closedCaller) {
		for i := range n {
			list = append(list, closedCaller{fmt.Sprintf("key:noisy-%d", i+1), at})
		}
		return list
	}
	tests := map[int]string{
		0:    "",
		1:    "closed: key:noisy-1 until 12:00:00.005",
		2:    "closed: key:noisy-1 until 12:00:00.005, key:noisy-2 until 12:00:00.005",
		3:    "closed: key:noisy-1 until 12:00:00.005, key:noisy-2 until 12:00:00.005 and 1 more",
		9999: "closed: key:noisy-1 until 12:00:00.005, key:noisy-2 until 12:00:00.005 and 9997 more",
	}
	for n, want := range tests {
		var out strings.Builder
		v := newDemoView(inside(&out, nil), false)
		v.tick(3*time.Second, loadTotals{admitted: 123, blocked: 45}, callers(n), []time.Duration{2 * time.Millisecond})
		line := strings.TrimSuffix(out.String(), "\n")
		if !strings.HasPrefix(line, "   3s  admitted    123  blocked     45  lag p50 2.0 ms") || !strings.HasSuffix(line, want) || strings.ContainsAny(line, "\n\x1b") || len(line) > 160 {
			t.Errorf("%d closed: got %q of %d columns, want one line with %q", n, line, len(line), want)
		}
	}
}

func TestDemoViewInJSONIsOneObjectALine(t *testing.T) {
	var out strings.Builder
	v := newDemoView(inside(&out, nil), true)
	v.say("not shown: %d", 1)
	v.tick(1234*time.Millisecond, loadTotals{}, nil, nil)
	v.tick(2*time.Second, loadTotals{admitted: 5, blocked: 6}, []closedCaller{{"key:a", time.Unix(9, 0)}}, []time.Duration{time.Millisecond, 3 * time.Millisecond})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		`{"admitted":0,"blocked":0,"closed":[],"lag_ms":{"p50":0,"p99":0,"samples":0},"seconds":1.2,"type":"tick"}`,
		`{"admitted":5,"blocked":6,"closed":["key:a"],"lag_ms":{"p50":3,"p99":3,"samples":2},"seconds":2,"type":"tick"}`,
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

func TestDemoSummary(t *testing.T) {
	sum := demoSummary{
		Type: "summary", Closed: []demoClosed{{"key:noisy-1", 101, 2000, 0.01, 3}}, Requests: 2101, Lag: demoLag{1.5, 9.25, 3}, Canaries: demoLag{1, 2, 40}, HotPath: 41.6,
		Audit: audit{Generator: 2101, Log: 2101, Store: 2101},
	}
	var table, object strings.Builder
	if err := errors.Join(sum.print(inside(&table, nil), false), sum.print(inside(&object, nil), true)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| key:noisy-1   |      3 |      101 |    2000 | 1.0 %     |", "innocents closed: 0\n", "p50 1.5 ms, p99 9.2 ms (3 samples)", "p50 1.0 ms, p99 2.0 ms (40 samples, worst server)",
		"hot path: 42 ns", "audit: generator 2101 = log 2101 = store 2101: exact\n",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("want %q in:\n%s", want, &table)
		}
	}
	width := 0
	for line := range strings.Lines(table.String()) {
		width = max(width, len([]rune(line)))
	}
	if width > 100 {
		t.Errorf("got %d columns, want at most 100:\n%s", width, &table)
	}
	var back demoSummary
	if err := json.Unmarshal([]byte(object.String()), &back); err != nil || fmt.Sprint(back) != fmt.Sprint(sum) {
		t.Errorf("got %+v and %v, want %+v again", back, err, sum)
	}
	if strings.Count(object.String(), "\n") != 1 || strings.Contains(object.String(), `"wrong"`) {
		t.Errorf("got %s, want one line, and nothing wrong in it", &object)
	}
}

func TestQuantiles(t *testing.T) {
	ms := func(n ...int) (list []time.Duration) {
		for _, v := range n {
			list = append(list, time.Duration(v)*time.Millisecond)
		}
		return list
	}
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100-i) * time.Millisecond
	}
	for name, c := range map[string]struct {
		lags []time.Duration
		want demoLag
	}{
		"none": {nil, demoLag{}}, "one": {ms(7), demoLag{7, 7, 1}}, "out of order": {ms(9, 1, 5), demoLag{5, 9, 3}}, "a hundred": {hundred, demoLag{51, 100, 100}},
	} {
		if got := quantiles(c.lags); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// demo's flags: what can't be run is refused before anything starts, and nothing is left.
func TestDemoRefusesWhatItCannotRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, args := range [][]string{
		{"--duration", "0s"}, {"--duration", "-1s"}, {"--duration", "25h"}, {"--quiet", "-1"}, {"--quiet", "0", "--noisy", "0"}, {"--quiet", "10001"}, {"--noisy-rate", "0"},
		{"--noisy-rate", "NaN"}, {"--quiet-rate", "+Inf"}, {"--quiet-rate", "-5"}, {"--servers", "0"}, {"--servers", "101"}, {"--partitions", "0"}, {"--partitions", "101"},
		{"--limit", "0"}, {"--limit", "-1"}, {"--limit", "1000000000000000000"}, {"--window", "0s"}, {"--window", "-1s"}, {"--window", "1us"}, {"--window", "9000h"}, {"--output", "xml"}, {"--limit", "many"}, {"more"},
	} {
		out, err := runCommand(append([]string{"demo"}, args...)...)
		if !isUsage(err) || out != "" {
			t.Errorf("%v: got %v and %q, want a usage error", args, err, out)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v left behind, want nothing", left, err)
	}
}
