package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/demo"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
	"github.com/509da70d/floodgate/store/rows"
)

// hostileIDs is what an attacker who has read the source puts into its id. None may do anything but stand in its cell.
func hostileIDs() []string {
	ids := []string{
		"plain", "\x1b[2J\x1b[H", "\x1b]0;title\x07", "\x9b2J", "\u009b2J", "a\x00b", "a\x7fb", "\r| r | key:forged | 999 |",
		"x\n| r | key:forged | 999 | 5 |  | 0 |", "x\n\n0 of 0 rows", "x\nlevel=ERROR msg=forged", "x\nfloodgate: forged", "y |   999 |     5 |  |         0 |", "│ forged │",
		"\u202egnp.exe", "\u2066x", "a\u200bb", "a\u2028b", "a\u3164b", "\u05d0\u05d1", "a\u0301", "\u0430dmin", "a", "a ", " a", "a  ", "a\tb",
		"\xff", "\xfe", "a\xff", "\ufffd", `\xff`, `\x1b[2J`, `\ufffd`, `\`, `\\`, `a" b="c`, `{"type":"summary"}`, "%s%d%n",
		strings.Repeat("x", 256), strings.Repeat("x", 255) + "y", strings.Repeat(" ", 250), strings.Repeat("\x1b", 256), strings.Repeat("\u202e", 80),
	}
	return ids
}

// shown runs a subcommand and returns all that a terminal would show of it.
func shown(args ...string) (text string, code int) {
	var out strings.Builder
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // for what waits where it should refuse
	defer cancel()
	err := realMain(ctx, args, inside(&out, nil))
	code = command.ExitCode(err, &out)
	return out.String(), code
}

// mustBeSafe fails if text holds anything that a terminal acts upon, that hides, or that a person can't see as it is. The
// frames of tables are allowed.
func mustBeSafe(t *testing.T, what, text string) {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if i := strings.IndexFunc(line, func(r rune) bool {
			return (r < ' ' || r > '~') && !strings.ContainsRune("┌┐└┘├┤┬┴┼─│…", r)
		}); i >= 0 {
			t.Errorf("%s: got %q, at byte %d, want what is printable", what, line, i)
		}
		if strings.HasPrefix(line, "level=ERROR msg=forged") || strings.HasPrefix(line, "floodgate: forged") || strings.HasPrefix(line, "0 of 0 rows") {
			t.Errorf("%s: got the line %q, which a client has written", what, line)
		}
	}
}

// column returns a column of a table's rows. Each row must have as many columns as the header.
func column(t *testing.T, text, edge, name string) []string {
	t.Helper()
	var cells []string
	columns, at := 0, -1
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, edge) || !strings.Contains(line, " "+edge+" ") {
			continue
		}
		row := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, edge+" "), " "+edge), " "+edge+" ")
		if columns == 0 {
			columns, at = len(row), slices.IndexFunc(row, func(c string) bool { return strings.TrimSpace(c) == name })
			if at < 0 {
				t.Fatalf("got the header %q, want a column %s", line, name)
			}
			continue
		}
		if len(row) != columns {
			t.Errorf("got the row %q of %d columns, want %d", line, len(row), columns)
			continue
		}
		cells = append(cells, strings.TrimSpace(row[at]))
	}
	return cells
}

// mustBeCallers fails unless the cells are one for each id.
func mustBeCallers(t *testing.T, what string, cells, ids []string) {
	t.Helper()
	var want []string
	for _, id := range ids {
		want = append(want, string(terminal.Caller("key:"+id)))
	}
	for _, c := range cells {
		if len(c) > 72 {
			t.Errorf("%s: got %d characters of %s, want 72 at most: on a terminal a longer line breaks", what, len(c), c)
		}
	}
	slices.Sort(want)
	slices.Sort(cells)
	if !slices.Equal(cells, want) || len(slices.Compact(want)) != len(ids) {
		t.Errorf("%s: got\n%s\nwant a row for each of\n%s", what, strings.Join(cells, "\n"), strings.Join(want, "\n"))
	}
}

// mustBeInJSON fails unless JSON names each id once, as it is, in objects of a type.
func mustBeInJSON(t *testing.T, text, kind string, ids []string) {
	t.Helper()
	var got []string
	for line := range strings.Lines(text) {
		var v struct {
			Type   string `json:"type"`
			Caller string `json:"caller"`
			Base64 []byte `json:"caller_base64"`
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			continue // the error behind it
		}
		if v.Base64 != nil {
			v.Caller = string(v.Base64)
		}
		if v.Type == kind {
			got = append(got, strings.TrimPrefix(v.Caller, "key:"))
		}
	}
	want := slices.Sorted(slices.Values(ids))
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got %d callers in JSON\n%q\nwant\n%q", len(got), got, want)
	}
}

// tamperAll adds one to the count of each caller, so that audit names all of them.
func tamperAll(d *processtest.Deployment) {
	d.T.Helper()
	s, err := store.Open(filepath.Join(d.Dir, "counts", "0"), store.Options{NoSync: true})
	if err != nil {
		d.T.Fatal(err)
	}
	var changes []store.Change
	err = s.Load(func(key, value []byte) error {
		if strings.Contains(string(key), "\x00key:") {
			c := store.Change{Key: slices.Clone(key), Value: slices.Clone(value), Old: rows.Sum(key, value)}
			c.Value[len(c.Value)-1] += 2 // a varint of a small count, zigzag: one more
			changes = append(changes, c)
		}
		return nil
	})
	if err := errors.Join(err, s.Commit(s.Checkpoint(), changes), s.Close()); err != nil {
		d.T.Fatal(err)
	}
}

// TestNoCommandPrintsWhatClientsWrote: callers with ids that clear a screen, forge rows, hide or pass for others are
// counted, warned of, closed, stored, audited and refused, and each command that prints them does so harmlessly: one row
// each, and no two alike.
func TestNoCommandPrintsWhatClientsWrote(t *testing.T) {
	d := processtest.NewDeployment(t, start)
	d.WriteRules("version: 1\nrules: [{name: r, callers: key, limit: 8, window: 8760h, algorithm: fixed, warn: [0.5]}]\n")
	d.Start()
	ids := hostileIDs()
	for _, id := range ids {
		d.Send(id, 5)
	}
	for _, value := range append(ids, "no frame") {
		if _, err := d.Client.Produce(t.Context(), "floodgate.requests", 0, kafkaio.Message{Time: time.Now().UnixNano(), Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}
	d.Counted()
	logs := d.Analyzer.Text()
	mustBeSafe(t, "analyze", logs)
	if n := strings.Count(logs, "msg=warning partition=0 rule=r caller="); n != len(ids) {
		t.Errorf("analyze: got %d warnings, want %d:\n%s", n, len(ids), logs)
	}

	data := filepath.Join(d.Dir, "counts")
	text, code := shown("store", "--data", data, "--rules", d.RulesPath(), "--most", "0")
	mustBeSafe(t, "store", text)
	mustBeCallers(t, "store", column(t, text, "|", "CALLER"), ids)
	if code != 0 || !strings.HasSuffix(text, fmt.Sprintf("\n%d of %d rows\n", len(ids), len(ids))) {
		t.Errorf("store: got %d and\n%s", code, text)
	}
	text, _ = shown("store", "--data", data, "--rules", d.RulesPath(), "--most", "0", "--output", "json")
	mustBeSafe(t, "store as JSON", text)
	mustBeInJSON(t, text, "row", ids)
	for _, id := range []string{"\x1b[2J\x1b[H", `\x1b[2J`, "\xff", "a ", "│ forged │"} { // what was printed can be asked for
		text, code := shown("store", "--data", data, "--rules", d.RulesPath(), "--caller", string(terminal.Caller("key:"+id)))
		mustBeCallers(t, "store --caller", column(t, text, "|", "CALLER"), []string{id})
		if code != 0 || !strings.HasSuffix(text, "\n1 of 1 rows\n") {
			t.Errorf("store --caller %q: got %d and\n%s", id, code, text)
		}
	}

	tamperAll(d)
	text, code = shown(auditArgs(d, "--most", "0")...)
	mustBeSafe(t, "audit", text)
	mustBeCallers(t, "audit", column(t, text, "|", "CALLER"), ids)
	if code != 1 {
		t.Errorf("audit: got exit code %d, want 1:\n%s", code, text)
	}
	text, _ = shown(auditArgs(d, "--output", "json")...)
	mustBeSafe(t, "audit as JSON", text)
	mustBeInJSON(t, text, "difference", ids)

	text, _ = shown("rejects", "--brokers", d.Broker)
	mustBeSafe(t, "rejects", text)
	if rows := column(t, text, "|", "LINE"); len(rows) != len(ids)+1 {
		t.Errorf("rejects: got %d rows, want %d:\n%s", len(rows), len(ids)+1, text)
	}
	text, _ = shown("rejects", "--brokers", d.Broker, "--output", "json")
	mustBeSafe(t, "rejects as JSON", text)
}

// TestReplayPrintsNoIDsRaw: also of logs that nobody has looked at yet.
func TestReplayPrintsNoIDsRaw(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("version: 1\nrules: [{name: r, callers: key, limit: 1, window: 1m}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	var ids []string
	for i, id := range hostileIDs() {
		// A reader of JSON need not take what is no UTF-8.
		if text, err := json.Marshal(id); err == nil && printable.Base64(id) == "" {
			ids = append(ids, id)
			fmt.Fprintf(&log, `{"time":%d,"key":%s}`+"\n", 1_700_000_000+i, text)
		}
	}
	path := filepath.Join(t.TempDir(), "\x1b[2J\n\xff.log")
	if err := os.WriteFile(path, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"replay", "--rules", rules, "--format", "json", "--callers", "key=key", path}
	text, code := shown(args...)
	mustBeSafe(t, "replay", text)
	mustBeCallers(t, "replay", column(t, text, "│", "CALLER"), ids)
	if code != 0 {
		t.Errorf("got exit code %d:\n%s", code, text)
	}
	text, _ = shown(append(args, "--output", "json")...)
	mustBeSafe(t, "replay as JSON", text)
	mustBeInJSON(t, text, "close", ids)
	text, code = shown(append(args, path+".gone\nfloodgate: forged")...)
	if mustBeSafe(t, "replay of no file", text); code != 1 {
		t.Errorf("no such file: got exit code %d", code)
	}
}

// TestTheDemoPrintsNoIDsRaw, should its callers ever be chosen by somebody else.
func TestTheDemoPrintsNoIDsRaw(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		var out strings.Builder
		var ids []string
		sum := demo.Summary{Type: "summary"}
		for _, id := range hostileIDs() {
			sum.Closed = append(sum.Closed, demo.Closed{Caller: "key:" + id})
			sum.Audit.Wrong = append(sum.Audit.Wrong, id+": in the log, but never sent")
			ids = append(ids, id)
		}
		if err := sum.Print(&out, asJSON); err != nil {
			t.Fatal(err)
		}
		mustBeSafe(t, "demo", out.String())
		if !asJSON {
			mustBeCallers(t, "demo", column(t, out.String(), "|", "CLOSED CALLER"), ids)
		}
	}
}

// TestProbePrintsNoAnswerRaw: whoever listens there may answer anything.
func TestProbePrintsNoAnswerRaw(t *testing.T) {
	for _, status := range []string{"200 OK", "503 \x1b[2J\u202e"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		body := strings.Join(hostileIDs(), "\n")
		done := make(chan error, 1)
		go func() {
			c, err := l.Accept()
			if err == nil {
				_, err = c.Read(make([]byte, 4096))
			}
			if err == nil {
				_, err = fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, len(body), body)
			}
			if c != nil {
				err = errors.Join(err, c.Close())
			}
			done <- err
		}()
		text, code := shown("probe", "http://"+l.Addr().String())
		if err := errors.Join(<-done, l.Close()); err != nil {
			t.Fatal(err)
		}
		mustBeSafe(t, "probe", strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(text, "\nfloodgate: forged", ""), "\n0 of 0 rows", ""), "\nlevel=ERROR msg=forged", ""))
		if want := map[bool]int{true: 0, false: 1}[status == "200 OK"]; code != want || !strings.Contains(text, `x1b[2J`) || code == 0 && strings.Count(text, "\n") != strings.Count(body, "\n") {
			t.Errorf("%q: got %d and\n%s", status, code, text)
		}
	}
}

// TestNoErrorPrintsItsArgumentRaw: every subcommand, given what is hostile where it wants a value.
func TestNoErrorPrintsItsArgumentRaw(t *testing.T) {
	for _, id := range hostileIDs() {
		if strings.ContainsRune(id, 0) {
			continue // no argument can hold it
		}
		for _, args := range [][]string{
			{id}, {"analyze", id}, {"analyze", "--rules", id, "--data", t.TempDir(), "--brokers", "127.0.0.1:1", "--listen", ""}, {"analyze", "--brokers", id},
			{"store", "--data", id, "--rules", id}, {"store", "--data", "x", "--rules", "x", "--caller", id + `\`}, {"audit", "--brokers", "127.0.0.1:1", "--data", id, "--rules", id},
			{"replay", "--rules", id}, {"replay", "--format", id, "--rules", id}, {"replay", "--callers", id, "--rules", id},
			{"ingest", "--brokers", id}, {"ingest", "--format", id, "--brokers", "127.0.0.1:1", "--topic", "t"}, {"ingest", "--mapping", id, "--brokers", "127.0.0.1:1", "--topic", "t"},
			{"rejects", "--brokers", id}, {"rejects", "--" + id}, {"sidecar", "--brokers", "127.0.0.1:1", "--trusted", id}, {"sidecar", "--brokers", "127.0.0.1:1", "--callers", id},
			{"sidecar", "--brokers", "127.0.0.1:1", "--listen", id}, {"sidecar", "--brokers", "127.0.0.1:1", "--partition-key-file", id}, {"topics", "--brokers", id},
			{"repartition", "--brokers", "127.0.0.1:1", "--partition-key-file", id, "--to-requests", id}, {"rules", "check", id}, {"rules", id}, {"demo", "--data", id + "\x1b", id},
			{"probe", id}, {"probe", id, id}, {"broker", "--listen", id}, {"version", id},
		} {
			text, code := shown(args...)
			if mustBeSafe(t, fmt.Sprintf("%q", args), text); code == 0 && args[0] != "version" {
				t.Errorf("%q: got exit code 0 and\n%s", args, text)
			}
		}
	}
}

// TestBase64IsTheWholeCaller as the store names it.
func TestBase64IsTheWholeCaller(t *testing.T) {
	c := schemas.Caller{Kind: "key", ID: "a\xff"}
	if got := printable.Base64(c.String()); got != base64.StdEncoding.EncodeToString([]byte("key:a\xff")) {
		t.Errorf("got %q", got)
	}
}

// TestIngestOfAFileWithAnyName: a path may hold any byte but two. Metrics stay readable, and logs and rejects harmless.
func TestIngestOfAFileWithAnyName(t *testing.T) {
	b := serveKafka(t, embedded.Options{})
	dir := t.TempDir()
	args := []string{"ingest", "--brokers", b.Addr(), "--data", filepath.Join(dir, "positions"), "--listen", "127.0.0.1:0"}
	names := []string{"a\xff.log", "a\xfe.log", "a\ufffd.log", `a\xff.log`, "\x1b[2J\n\u202e.log", "plain.log"}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("no log\x1b[2J\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--file", path)
	}
	s := begin(t, args...)
	url := "http://" + s.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
	var metrics string
	processtest.Eventually(t, 20*time.Second, "all files read to their ends", func() bool {
		var status int
		metrics, status = processtest.Get(t.Context(), url+"/metrics")
		if status != 200 {
			t.Fatalf("got %d and\n%s\nwant metrics", status, metrics)
		}
		return processtest.MetricSum(metrics, "floodgate_ingest_position") == float64(len(names)*len("no log\x1b[2J\n")) && processtest.MetricSum(metrics, "floodgate_ingest_lag") == 0
	})
	mustBeSafe(t, "metrics", metrics)
	for _, label := range []string{`/a\\xff.log"`, `/a\\xfe.log"`, `/a\\ufffd.log"`, `/a\\\\xff.log"`, `/\\x1b[2J\\n\\u202e.log"`, `/plain.log"`} {
		if strings.Count(metrics, label) != 2 { // position and lag
			t.Errorf("want a source %s in\n%s", label, metrics)
		}
	}
	if _, err := s.End(); err != nil {
		t.Fatal(err)
	}
	mustBeSafe(t, "ingest", s.Text())
	text, code := shown("rejects", "--brokers", b.Addr())
	mustBeSafe(t, "rejects", text)
	if rows := column(t, text, "|", "SOURCE"); code != 0 || len(slices.Compact(slices.Sorted(slices.Values(rows)))) != len(names) {
		t.Errorf("rejects: got %d and\n%s\nwant one of each file", code, text)
	}
}
