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

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// counted runs an analyzer until it has counted these requests by key, and returns its data and rules.
func counted(t *testing.T, requests map[string]uint32) (data, rules string) {
	t.Helper()
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	data, rules = filepath.Join(t.TempDir(), "counts"), rulesFile(t)
	a := begin(t, "analyze", "--brokers", b.Addr(), "--rules", rules, "--data", data, "--listen", "127.0.0.1:0", "--partitions", "2", "--session-timeout", "2s")
	url := "http://" + a.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
	processtest.AwaitReady(t, url, 200, "ok")
	client := kafkaio.New(kafkaio.Config{Brokers: []string{b.Addr()}})
	defer client.Close()
	seq, sum := uint64(0), 0.0
	for id, n := range requests {
		seq++
		sum += float64(n)
		now := time.Now().UnixNano()
		p := schemas.Partition(schemas.DefaultPartitionKey().Hash("key", id), 2)
		f := schemas.Frame{
			Producer: schemas.ProducerID{9}, Seq: seq, Flushed: now, Partitions: 2, Fingerprint: schemas.DefaultPartitionKey().Fingerprint(),
			Entries: []schemas.Entry{{Time: now, Kind: "key", ID: id, Count: n}},
		}
		value, err := f.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Produce(t.Context(), "floodgate.requests", p, kafkaio.Message{Time: now, Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	processtest.Eventually(t, 20*time.Second, "requests counted", func() bool {
		metrics, _ := processtest.Get(t.Context(), url+"/metrics")
		return processtest.MetricSum(metrics, "floodgate_requests_total") == sum
	})
	if out, err := runCommand("store", "--data", data, "--rules", rules); err == nil || !strings.Contains(err.Error(), "store is in use") {
		t.Errorf("while the analyzer runs: got %v and\n%s\nwant that it is in use", err, out)
	}
	if _, err := a.End(); err != nil {
		t.Fatal(err)
	}
	return data, rules
}

// storeRow is what these tests read of a row of the store.
type storeRow struct {
	Rule, Caller string
	Count, Limit int64
	Closed       string `json:"closed_until"`
}

// TestStoreShowsWhatWasCounted: highest first, one caller or so many, for people and for machines; and asking changes
// nothing. It opens a store many times, so it is not parallel: a process that another test starts has a copy of the store's lock
// between fork and exec.
func TestStoreShowsWhatWasCounted(t *testing.T) {
	testenv.Long(t)
	requests := map[string]uint32{"a": 7, "b": 5, "c": 4, "d": 1}
	for i := range 30 {
		requests[fmt.Sprintf("low-%02d", i)] = 1
	}
	data, rules := counted(t, requests)
	ask := func(args ...string) (rows []storeRow, last map[string]any) {
		t.Helper()
		out, err := runCommand(append([]string{"store", "--data", data, "--rules", rules, "--output", "json"}, args...)...)
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		for line := range strings.Lines(out) {
			last = nil
			if err := json.Unmarshal([]byte(line), &last); err != nil {
				t.Fatalf("%v: %q: %v", args, line, err)
			}
			if last["type"] != "row" {
				continue
			}
			var r storeRow
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, r)
		}
		return rows, last
	}
	rows, sum := ask()
	if len(rows) != 20 || sum["type"] != "summary" || sum["rows"] != 34.0 || sum["partitions"] != 2.0 {
		t.Fatalf("got %d rows and %v, want 20 of 34 in 2 partitions", len(rows), sum)
	}
	for i, want := range []storeRow{{Caller: "key:a", Count: 7}, {Caller: "key:b", Count: 5}, {Caller: "key:c", Count: 4}, {Caller: "key:d", Count: 1}, {Caller: "key:low-00", Count: 1}} {
		r := rows[i]
		if r.Caller != want.Caller || r.Count != want.Count || r.Limit != 5 || r.Rule != "r" || (r.Closed != "") != (r.Count >= 5) {
			t.Errorf("row %d: got %+v, want %s at %d, closed if at 5", i, r, want.Caller, want.Count)
		}
	}
	if all, _ := ask("--most", "0"); len(all) != 34 {
		t.Errorf("--most 0: got %d rows, want all 34", len(all))
	}
	if few, _ := ask("--most", "3"); len(few) != 3 {
		t.Errorf("--most 3: got %d rows", len(few))
	}
	if out, err := runCommand("store", "--data", data, "--rules", rules, "--most", "3"); err != nil || !strings.HasSuffix(out, "\n3 of 34 rows; --most 0 prints all\n") {
		t.Errorf("--most 3: got %v and\n%s\nwant it to say how to see the others", err, out)
	}
	if one, sum := ask("--caller", "key:c"); len(one) != 1 || one[0].Caller != "key:c" || sum["rows"] != 1.0 {
		t.Errorf("--caller key:c: got %+v, %v, want it alone", one, sum)
	}
	if none, sum := ask("--caller", "key:nobody"); len(none) != 0 || sum["rows"] != 0.0 {
		t.Errorf("--caller key:nobody: got %+v, %v, want none", none, sum)
	}
	table, err := runCommand("store", "--data", data, "--rules", rules, "--caller", "key:a")
	if err != nil || !matches(`\| r +\| key:a +\| +7 \| +\| 5 +\| 140 % \| closed until \d{4}-\S+Z \| +\d \|`, table) || !matches(`(?m)^partition 1: next offset \d+, \d+ rows with those of producers, digest [0-9a-f]{16} verified$`, table) ||
		!strings.HasSuffix(table, "\n1 of 1 rows\n") {
		t.Errorf("got %v and\n%s", err, table)
	}
	again, err := runCommand("store", "--data", data, "--rules", rules, "--caller", "key:a")
	if err != nil || again != table {
		t.Errorf("asked twice: got %v and\n%s\nwant\n%s", err, again, table)
	}
}

// Rules that were not counted by have no rows; the digest is verified nevertheless.
func TestStoreLeavesOutRulesThatAreNotItsOwn(t *testing.T) {
	t.Parallel()
	data, _ := counted(t, map[string]uint32{"a": 3})
	other := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(other, []byte("version: 1\nrules: [{name: other, callers: key, limit: 5, window: day}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := runCommand("store", "--data", data, "--rules", other)
	if err != nil || !strings.HasSuffix(out, "\n0 of 0 rows\n") || strings.Count(out, " verified\n") != 2 {
		t.Errorf("got %v and\n%s\nwant no rows of two verified stores", err, out)
	}
}

func TestStoreSaysWhatItCannotRead(t *testing.T) {
	t.Parallel()
	data, rules := counted(t, map[string]uint32{"a": 3, "b": 2})
	dir := t.TempDir()
	foreign := t.TempDir() // directories with numbers for names, and nothing of ours in them
	for _, name := range []string{"1", "2026"} {
		if err := os.MkdirAll(filepath.Join(foreign, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		args  []string
		want  string
		usage bool
	}{
		"no data":         {[]string{"--rules", rules}, "want both", true},
		"no rules":        {[]string{"--data", data}, "want both", true},
		"no kind":         {[]string{"--data", data, "--rules", rules, "--caller", "k9"}, `--caller: got "k9", want kind:id, such as key:k9`, true},
		"no id":           {[]string{"--data", data, "--rules", rules, "--caller", "key:"}, "want kind:id", true},
		"no kind at all":  {[]string{"--data", data, "--rules", rules, "--caller", ":k9"}, "want kind:id", true},
		"a capital kind":  {[]string{"--data", data, "--rules", rules, "--caller", "Key:k9"}, "want kind:id", true},
		"an argument":     {[]string{"--data", data, "--rules", rules, "key:a"}, "want flags only", true},
		"bad rules":       {[]string{"--data", data, "--rules", data}, "is a directory", false},
		"nothing there":   {[]string{"--data", filepath.Join(dir, "none"), "--rules", rules}, "no such file", false},
		"an empty place":  {[]string{"--data", dir, "--rules", rules}, "holds no partition", false},
		"others' numbers": {[]string{"--data", foreign, "--rules", rules}, "holds no partition", false},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := runCommand(append([]string{"store"}, test.args...)...)
			if err == nil || !strings.Contains(err.Error(), test.want) || command.IsUsage(err) != test.usage || out != "" {
				t.Errorf("got %v and %q, want %q", err, out, test.want)
			}
		})
	}
	if left, err := os.ReadDir(filepath.Join(foreign, "1")); err != nil || len(left) > 0 {
		t.Errorf("got %v and %v, want nothing written into what is not ours", left, err)
	}
	damaged := 0
	for _, pattern := range []string{"*/*.sst", "*/*.mem"} {
		paths, err := filepath.Glob(filepath.Join(data, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			damaged++
			corrupt(t, path)
		}
	}
	out, err := runCommand("store", "--data", data, "--rules", rules)
	if damaged == 0 || err == nil || !matches(`partition \d: (open|load) store`, err.Error()) || command.ExitCode(err, io.Discard) != 1 {
		t.Errorf("%d files damaged: got %v and\n%s\nwant an error with the partition", damaged, err, out)
	}
}

// corrupt flips a bit in each of a file's bytes that is not zero.
func corrupt(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		if b[i] != 0 {
			b[i] ^= 0x20
		}
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestNobodyElseReadsTheData: what analyze, ingest and the broker keep names clients, and holds their API keys.
func TestNobodyElseReadsTheData(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	dir := t.TempDir()
	log, data, positions, topics := filepath.Join(dir, "access.log"), filepath.Join(dir, "data"), filepath.Join(dir, "positions"), filepath.Join(dir, "topics")
	if err := os.WriteFile(log, []byte("192.0.2.1 - - [02/Jan/2026:15:04:05 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := begin(t, "broker", "--listen", "127.0.0.1:0", "--data", topics, "--min-session-timeout", "1s")
	broker := b.WaitFor(`serving Kafka on (\S+)`, 10*time.Second)
	a := begin(t, "analyze", "--brokers", broker, "--rules", rulesFile(t), "--data", data, "--listen", "127.0.0.1:0", "--partitions", "1", "--session-timeout", "2s")
	url := "http://" + a.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
	processtest.AwaitReady(t, url, 200, "ok")
	if out, err := runCommand("ingest", "--brokers", broker, "--file", log, "--data", positions, "--once", "--listen", ""); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	processtest.Eventually(t, 20*time.Second, "a commit, and the offsets that are held", func() bool {
		metrics, _ := processtest.Get(t.Context(), url+"/metrics")
		held, err := filepath.Glob(filepath.Join(data, "*"))
		return processtest.MetricSum(metrics, "floodgate_committed_offset") > 0 && err == nil && len(held) > 1
	})
	for _, ended := range []bool{false, true} {
		if ended {
			if _, err := a.End(); err != nil {
				t.Fatal(err)
			}
		}
		for _, path := range []string{data, filepath.Join(data, "0"), positions, topics} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%s: got %v, %v, want a directory of its owner", path, info.Mode(), err)
			}
		}
		for _, pattern := range []string{filepath.Join(data, "*"), filepath.Join(data, "0", "*"), filepath.Join(positions, "*")} {
			files, err := filepath.Glob(pattern)
			if err != nil || len(files) == 0 {
				t.Fatalf("%s: got %v, %v, want files", pattern, files, err)
			}
			for _, path := range files {
				info, err := os.Stat(path)
				if errors.Is(err, os.ErrNotExist) {
					continue // Badger has deleted it
				}
				if err != nil || !info.IsDir() && info.Mode().Perm() != 0o600 && (ended || filepath.Ext(path) != ".sst" && filepath.Ext(path) != ".mem") { // those that Badger made since
					t.Errorf("%s: got %v, %v, want a file of its owner", path, info.Mode(), err)
				}
			}
		}
	}
}
