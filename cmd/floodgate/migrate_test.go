package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// stoppedServe returns the data of a serve that has closed the keys whose names begin with a, and is stopped.
func stoppedServe(t *testing.T) *serveData {
	t.Helper()
	d := newServeData(t)
	if err := os.WriteFile(filepath.Join(d.dir, "serve.json"), []byte(`{"version":1,"partitions":4}`), 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for range 7 {
		d.send(now, "a")
	}
	d.send(now, "b")
	d.count(func() {})
	if err := d.log.Close(); err != nil {
		t.Fatal(err)
	}
	return d
}

// migration is what migrate prints as JSON.
type migration struct {
	Partitions []struct{ Rows, Senders, Closures int }
	Again      bool
	Next       []string
}

// migrate runs migrate to its end, without answering proxies.
func (d *serveData) migrate(b *embedded.Broker, to string, more ...string) (m migration, err error) {
	d.t.Helper()
	out, err := runCommand(append([]string{"migrate", "--data", d.dir, "--brokers", b.Addr(), "--to", to, "--listen", "", "--output", "json"}, more...)...)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal([]byte(out), &m); err != nil {
		d.t.Fatalf("%v:\n%s", err, out)
	}
	return m, nil
}

// TestMigrate: what a serve has counted is in Kafka, once, however often migrate is called. An audit of the new directory says that the
// topics cannot prove what began before. A sidecar refuses who was closed.
func TestMigrate(t *testing.T) {
	t.Parallel()
	d, b, to := stoppedServe(t), serveKafka(t, embedded.Options{MinSession: time.Second}), filepath.Join(t.TempDir(), "counts")
	for _, again := range []bool{false, true} {
		m, err := d.migrate(b, to)
		if err != nil || m.Again != again || len(m.Partitions) != servePartitions {
			t.Fatalf("got %+v, %v, want %d partitions, again %v", m, err, servePartitions, again)
		}
		for p, part := range m.Partitions {
			if part.Rows != 4 || part.Senders != 1 || part.Closures != 1 {
				t.Errorf("partition %d: got %+v, want 4 rows of 2 keys, 1 sender and 1 closure", p, part)
			}
		}
		want := []string{
			"floodgate analyze --brokers " + b.Addr() + " --rules " + filepath.Join(d.dir, "rules.yaml") + " --data " + to,
			"floodgate sidecar --brokers " + b.Addr() + " --record",
		}
		if !slices.Equal(m.Next, want) {
			t.Errorf("got next\n%s\nwant\n%s", strings.Join(m.Next, "\n"), strings.Join(want, "\n"))
		}
	}
	out, err := runCommand("audit", "--brokers", b.Addr(), "--rules", filepath.Join(d.dir, "rules.yaml"), "--data", to)
	if err == nil || !strings.Contains(err.Error(), "nothing could be compared") || !strings.Contains(out, "0 rows agree, 0 differ, 4 can't be audited") {
		t.Errorf("audit: got %v and\n%s", err, out)
	}
	side := begin(t, "sidecar", "--brokers", b.Addr(), "--listen", "127.0.0.1:0", "--callers", "key=X-Api-Key")
	url := "http://" + side.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
	processtest.AwaitReady(t, url, 200, "")
	for p := range servePartitions {
		wantAnswer(t, url, keyIn(p, "a"), 403)
		wantAnswer(t, url, keyIn(p, "b"), 200)
	}
}

// wantAnswer asks about a key as nginx would.
func wantAnswer(t *testing.T, url, key string, want int) {
	t.Helper()
	if got := processtest.Ask(t.Context(), url, "X-Api-Key", key); got != want {
		t.Errorf("%s: got status %d, want %d", key, got, want)
	}
}

// TestMigrateAnswersProxies while it works, although Kafka is away, and afterwards, until it is stopped.
func TestMigrateAnswersProxies(t *testing.T) {
	t.Parallel()
	d, b := stoppedServe(t), serveKafka(t, embedded.Options{MinSession: time.Second})
	address := b.Addr()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	p := begin(t, "migrate", "--data", d.dir, "--brokers", address, "--to", filepath.Join(t.TempDir(), "counts"), "--listen", "127.0.0.1:0", "--callers", "key=X-Api-Key")
	url := "http://" + p.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
	p.WaitFor("cannot reach Kafka", 20*time.Second)
	closed := func(when string) {
		processtest.Eventually(t, 10*time.Second, "refusals "+when, func() bool {
			return processtest.Ask(t.Context(), url, "X-Api-Key", keyIn(3, "a")) == 403
		})
		wantAnswer(t, url, keyIn(3, "b"), 200)
	}
	closed("while Kafka is away")
	serveKafka(t, embedded.Options{MinSession: time.Second, Listen: address})
	p.WaitFor(`Then stop this process, which answers them at 127.0.0.1`, 30*time.Second)
	closed("when all is migrated")
	if took, err := p.End(); err != nil {
		t.Errorf("got %v after %v, want none", err, took)
	}
}

// TestMigrateRefuses says why in a line, exits with 2, and leaves serve able to go on.
func TestMigrateRefuses(t *testing.T) {
	t.Parallel()
	d, b, dir := stoppedServe(t), serveKafka(t, embedded.Options{MinSession: time.Second}), t.TempDir()
	client := kafkaio.New(kafkaio.Config{Brokers: []string{b.Addr()}})
	t.Cleanup(client.Close)
	topics := func(prefix string, partitions int) {
		if _, err := client.EnsureTopics(t.Context(), kafkaio.Specs(schemas.TopicNamesOf(prefix), partitions)...); err != nil {
			t.Fatal(err)
		}
	}
	topics("many", 8)
	topics("full", servePartitions)
	if _, err := client.Produce(t.Context(), "full.state", 2, kafkaio.Message{Time: time.Now().UnixNano(), Value: []byte("something")}); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no data":          {[]string{"--data", ""}, "--data: got none"},
		"not a serve":      {[]string{"--data", dir}, "--data: got no serve.json in " + dir},
		"no directory":     {[]string{"--to", ""}, "--to: got none"},
		"that of serve":    {[]string{"--to", d.dir}, "--to: got " + d.dir + ", which has the counts of floodgate serve"},
		"other rules":      {[]string{"--rules", rulesFile(t)}, "want the rules that floodgate serve had when it was stopped"},
		"no rules":         {[]string{"--rules", filepath.Join(dir, "none")}, "--rules: "},
		"other partitions": {[]string{"--topic-prefix", "many"}, "got 8 partitions of many.requests, and the counts in " + d.dir + " have 4"},
		"records":          {[]string{"--topic-prefix", "full"}, "got records in full.state/2, want none"},
	} {
		to := filepath.Join(t.TempDir(), "counts")
		_, err := d.migrate(b, to, tc.args...)
		if err == nil || command.ExitCode(err, io.Discard) != 2 || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want exit code 2 and %q", name, err, tc.want)
		}
		if left, _ := filepath.Glob(to + "*/*.json"); len(left) > 0 {
			t.Errorf("%s: got %q, want nothing that says what the directory belongs to", name, left)
		}
	}
	lock, err := store.Lock(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.migrate(b, filepath.Join(dir, "counts")); !command.IsUsage(err) || !strings.Contains(err.Error(), "floodgate serve still runs: stop it first") {
		t.Errorf("serve runs: got %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if m, err := d.migrate(b, filepath.Join(dir, "counts")); err != nil || m.Again {
		t.Errorf("in the end: got %+v, %v", m, err)
	}
	other := serveKafka(t, embedded.Options{MinSession: time.Second})
	if _, err := d.migrate(other, filepath.Join(dir, "counts")); !command.IsUsage(err) || !strings.Contains(err.Error(), "--to: the counts in") {
		t.Errorf("another cluster: got %v", err)
	}
}

// TestMigrateSaysWhatToRunNext: with the files that serve has followed, and with the flags that were given. Called
// again when ingest has gone on from there, it leaves the positions alone.
func TestMigrateSaysWhatToRunNext(t *testing.T) {
	t.Parallel()
	d, b, dir := stoppedServe(t), serveKafka(t, embedded.Options{MinSession: time.Second}), t.TempDir()
	log := filepath.Join(dir, "it's a log")
	if err := os.WriteFile(log, []byte("192.0.2.1 - - [02/Mar/2026:08:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// As serve does, ingest takes note of the log at its first look.
	files := filepath.Join(d.dir, "files")
	if _, err := runCommand("ingest", "--brokers", b.Addr(), "--topic-prefix", "other", "--file", log, "--data", files, "--listen", "", "--once"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(files, "cluster.json")); err != nil {
		t.Fatal(err)
	}
	p := begin(t, "migrate", "--data", d.dir, "--brokers", b.Addr(), "--to", filepath.Join(dir, "counts"), "--positions", filepath.Join(dir, "positions"), "--listen", "127.0.0.1:0",
		"--callers", "key=X-Api-Key", "--callers", "agent=User-Agent", "--trusted", "10.0.0.0/8", "--format", `nginx:$remote_addr "$request"`, "--topic-prefix", "new")
	p.WaitFor("Then stop this process", 30*time.Second)
	kafka := " --brokers " + b.Addr()
	for _, want := range []string{
		"    floodgate analyze" + kafka + " --topic-prefix new --rules " + filepath.Join(d.dir, "rules.yaml") + " --data " + filepath.Join(dir, "counts"),
		"    floodgate ingest" + kafka + ` --trusted 10.0.0.0/8 --format 'nginx:$remote_addr "$request"' --topic-prefix new --file '` + dir + `/it'\''s a log' --data ` + filepath.Join(dir, "positions"),
		"    floodgate sidecar" + kafka + " --callers key=X-Api-Key --callers agent=User-Agent --trusted 10.0.0.0/8 --topic-prefix new --trusted 127.0.0.0/8,::1/128 --listen 127.0.0.1:9098",
	} {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(want) + `$`).MatchString(p.Text()) {
			t.Errorf("got no line\n%s\nin\n%s", want, p.Text())
		}
	}
	if _, err := p.End(); err != nil {
		t.Error(err)
	}
	if err := appendTo(log, "192.0.2.1 - - [02/Mar/2026:08:00:01 +0000] \"GET / HTTP/1.1\" 200 1\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := runCommand("ingest", "--brokers", b.Addr(), "--topic-prefix", "new", "--file", log, "--data", filepath.Join(dir, "positions"), "--listen", "", "--once"); err != nil {
		t.Fatal(err)
	}
	m, err := d.migrate(b, filepath.Join(dir, "counts"), "--positions", filepath.Join(dir, "positions"), "--topic-prefix", "new")
	if err != nil || !m.Again {
		t.Errorf("again, when ingest has gone on: got %+v, %v", m, err)
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// TestMigrateIsInterrupted while it waits for Kafka: it says how to go on.
func TestMigrateIsInterrupted(t *testing.T) {
	t.Parallel()
	d := stoppedServe(t)
	p := begin(t, "migrate", "--data", d.dir, "--brokers", "127.0.0.1:1", "--to", filepath.Join(t.TempDir(), "counts"), "--listen", "127.0.0.1:0")
	p.WaitFor("cannot reach Kafka", 20*time.Second)
	if _, err := p.End(); err == nil || command.ExitCode(err, io.Discard) != 1 || !strings.Contains(err.Error(), "interrupted: give the same command again") {
		t.Errorf("got %v, want exit code 1, and that it was interrupted", err)
	}
}
