package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// TestChain is the way of those who write no code, with the programs that they run: nginx writes its log to rsyslog,
// rsyslog to Kafka, ingest makes entries of it, the analyzer counts and decides, and the sidecar answers nginx, which
// refuses the noisy client with 429 and nobody else. The topics are on Apache Kafka where there is one.
func TestChain(t *testing.T) {
	for _, name := range []string{"nginx", "rsyslogd"} {
		needs(t, name)
	}
	if found, err := filepath.Glob("/usr/lib/*/rsyslog/omkafka.so"); err != nil || len(found) == 0 {
		t.Skip("needs rsyslog-kafka")
	}
	t.Run("embedded", func(t *testing.T) { newChain(t, "").run() })
	t.Run("Apache", func(t *testing.T) {
		if os.Getenv("FLOODGATE_KAFKA") == "" {
			t.Skip("FLOODGATE_KAFKA does not name an Apache Kafka")
		}
		newChain(t, os.Getenv("FLOODGATE_KAFKA")).run()
	})
}

// chain is the programs, and where they are.
type chain struct {
	*beside

	dir   string // short enough for a Unix socket
	log   string // topic of nginx's lines
	names []string
}

func newChain(t *testing.T, kafka string) *chain {
	t.Helper()
	dir, err := os.MkdirTemp("", "chain")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // nginx's workers are other users
		t.Fatal(err)
	}
	suffix := fmt.Sprintf(".chain-%x", rand.Uint32())
	c := &chain{dir: dir, log: "nginx" + suffix, beside: &beside{daemon: &daemon{t: t, dir: dir, broker: kafka}}}
	if kafka == "" {
		c.broker = start(t, "broker", "--listen", "127.0.0.1:0", "--min-session-timeout", "1s").waitFor(`serving Kafka on (\S+)`, 10*time.Second)
	}
	c.client = kafkaio.New(kafkaio.Config{Brokers: []string{c.broker}})
	t.Cleanup(c.client.Close)
	if _, err := c.client.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: c.log, Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	c.names = []string{"--brokers", c.broker, "--topic-requests", "requests" + suffix, "--topic-decisions", "decisions" + suffix}
	all := append(c.names, "--topic-state", "state"+suffix, "--topic-rejects", "rejects"+suffix, "--topic-control", "control"+suffix, "--partitions", "2")
	c.writeRules("version: 1\nrules:\n  - {name: per-ip, callers: ip, limit: 10, window: 1h}\n")
	analyzer := start(t, append([]string{"analyze", "--rules", c.rulesPath(), "--data", filepath.Join(dir, "counts"), "--listen", "127.0.0.1:0", "--group", "analyze" + suffix}, all...)...)
	c.ready("http://" + analyzer.waitFor(`msg=listening address=(\S+)`, 30*time.Second))
	c.sidecar = start(t, append([]string{"sidecar", "--listen", "127.0.0.1:0"}, c.names...)...)
	c.url = "http://" + c.sidecar.waitFor(`msg=listening address=(\S+)`, 10*time.Second)
	c.ready(c.url)
	ingest := start(t, append([]string{"ingest", "--topic", c.log, "--format", "nginx", "--listen", "127.0.0.1:0", "--group", "ingest" + suffix}, all...)...)
	c.ready("http://" + ingest.waitFor(`msg=listening address=(\S+)`, 30*time.Second))
	c.backend = newBackend(t)
	return c
}

func (c *chain) ready(url string) {
	c.t.Helper()
	eventually(c.t, 30*time.Second, "ready", func() bool {
		_, status := get(c.t.Context(), url+"/readyz")
		return status == http.StatusOK
	})
}

func (c *chain) run() {
	c.t.Helper()
	socket := filepath.Join(c.dir, "log")
	conf := filepath.Join(c.dir, "rsyslog.conf")
	text := fmt.Sprintf("global(workDirectory=%q)\nmodule(load=\"imuxsock\" SysSock.Use=\"off\")\ninput(type=\"imuxsock\" Socket=%q RateLimit.Interval=\"0\")\n", c.dir, socket) +
		configured(c.t, "nginx/rsyslog.conf", "127.0.0.1:9092", c.broker, `topic="nginx"`, fmt.Sprintf("topic=%q", c.log), "/var/spool/rsyslog", c.dir)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	runForeign(c.t, "rsyslogd", "-n", "-f", conf, "-i", filepath.Join(c.dir, "pid"))
	eventually(c.t, 10*time.Second, "rsyslog listens", func() bool { _, err := os.Stat(socket); return err == nil })
	c.floodsThrough(c.nginxBefore("syslog:server=unix:"+socket+",facility=local7,tag=nginx,nohostname"), "203.0.113.1", "203.0.113.1")
	c.rejects()
}

// rejects sends through kcat what no nginx writes, and expects to be shown it.
func (c *chain) rejects() {
	c.t.Helper()
	if _, err := exec.LookPath("kcat"); err != nil {
		c.t.Skipf("needs kcat: %v", err)
	}
	cmd := exec.CommandContext(c.t.Context(), "kcat", "-P", "-b", c.broker, "-t", c.log)
	cmd.Stdin = strings.NewReader("{\"remote_addr\":\"\x1b[31mroot\",\"msec\":\"1.0\"}\nnot JSON\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("kcat: %v: %s", err, out)
	}
	suffix := strings.TrimPrefix(c.log, "nginx")
	eventually(c.t, 20*time.Second, "two rejects shown", func() bool {
		out, err := runCommand("rejects", "--brokers", c.broker, "--topic-rejects", "rejects"+suffix, "--output", "json")
		if err != nil {
			return false
		}
		lines := 0
		for line := range bytes.Lines([]byte(out)) {
			if !json.Valid(line) {
				c.t.Fatalf("got %q, want JSON", line)
			}
			lines++
		}
		return lines >= 2 && !strings.Contains(out, "\x1b") && strings.Contains(out, c.log)
	})
}
