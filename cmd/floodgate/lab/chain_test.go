//go:build lab

package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// TestChainOfAFile is the first way of those who write no code, with the configuration and the mapping that they copy: nginx writes a file,
// ingest follows it, the analyzer counts and decides, and the sidecar answers nginx, which refuses the noisy client and nobody else.
func TestChainOfAFile(t *testing.T) {
	testenv.Program(t, "nginx")
	c := newChain(t, "", true)
	c.FloodsThrough(beginNginxLogging(c.T, asks(c.Sidecar), c.file), "203.0.113.1", "203.0.113.1")
}

// TestChain is the second way, with rsyslog: nginx writes its log to rsyslog,
// rsyslog to Kafka, ingest makes entries of it, the analyzer counts and decides, and the sidecar answers nginx, which
// refuses the noisy client with 429 and nobody else. The topics are on Apache Kafka where there is one.
func TestChain(t *testing.T) {
	for _, name := range []string{"nginx", "rsyslogd"} {
		testenv.Program(t, name)
	}
	needsRsyslogKafka(t)
	t.Run("embedded", func(t *testing.T) { newChain(t, "", false).run() })
	t.Run("Apache", func(t *testing.T) {
		if os.Getenv("FLOODGATE_KAFKA") == "" {
			t.Skip("FLOODGATE_KAFKA does not name an Apache Kafka")
		}
		newChain(t, os.Getenv("FLOODGATE_KAFKA"), false).run()
	})
}

func needsRsyslogKafka(t *testing.T) {
	t.Helper()
	if found, err := filepath.Glob("/usr/lib/*/rsyslog/omkafka.so"); err != nil || len(found) == 0 {
		t.Fatal("got no omkafka.so, want the package rsyslog-kafka")
	}
}

// chain is the programs, and where they are.
type chain struct {
	*processtest.Sidecar

	dir   string // short enough for a Unix socket
	log   string // topic of nginx's lines
	file  string // log of nginx, where ingest follows one
	names []string
}

// newChain starts all but nginx. followed says that ingest follows a file; otherwise it reads a topic.
func newChain(t *testing.T, kafka string, followed bool) *chain {
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
	c := &chain{dir: dir, log: "nginx" + suffix, Sidecar: &processtest.Sidecar{Deployment: &processtest.Deployment{T: t, Dir: dir, Broker: kafka}}}
	if kafka == "" {
		c.Broker = start(t, "broker", "--listen", "127.0.0.1:0", "--min-session-timeout", "1s").WaitFor(`serving Kafka on (\S+)`, 10*time.Second)
	}
	c.Client = kafkaio.New(kafkaio.Config{Brokers: []string{c.Broker}})
	t.Cleanup(c.Client.Close)
	if _, err := c.Client.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: c.log, Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	c.names = []string{"--brokers", c.Broker, "--topic-name", "requests=requests" + suffix, "--topic-name", "decisions=decisions" + suffix}
	all := append(c.names, "--topic-name", "state=state"+suffix, "--topic-name", "rejects=rejects"+suffix, "--topic-name", "control=control"+suffix,
		"--topic-name", "events=events"+suffix, "--partitions", "2")
	c.WriteRules("version: 1\nrules:\n  - {name: per-ip, callers: ip, limit: 10, window: 1h}\n")
	analyzer := start(t, append([]string{"analyze", "--rules", c.RulesPath(), "--data", filepath.Join(dir, "counts"), "--listen", "127.0.0.1:0", "--group", "analyze" + suffix}, all...)...)
	c.ready("http://" + analyzer.WaitFor(`msg=listening address=(\S+)`, 30*time.Second))
	c.Program = start(t, append([]string{"sidecar", "--listen", "127.0.0.1:0"}, c.names...)...)
	c.URL = "http://" + c.Program.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
	c.ready(c.URL)
	c.file = filepath.Join(dir, "access.log")
	source := []string{"--topic", c.log, "--format", "nginx", "--group", "ingest" + suffix}
	if followed {
		source = []string{"--file", c.file, "--data", filepath.Join(dir, "positions"), "--mapping", filepath.Join("..", "..", "..", "deploy", "nginx", "mapping.yaml")}
	}
	ingest := start(t, slices.Concat([]string{"ingest", "--listen", "127.0.0.1:0"}, source, all)...)
	c.ready("http://" + ingest.WaitFor(`msg=listening address=(\S+)`, 30*time.Second))
	c.Backend = processtest.NewBackend(t)
	return c
}

func (c *chain) ready(url string) {
	c.T.Helper()
	processtest.Eventually(c.T, 30*time.Second, "ready", func() bool {
		_, status := processtest.Get(c.T.Context(), url+"/readyz")
		return status == http.StatusOK
	})
}

func (c *chain) run() {
	c.T.Helper()
	c.FloodsThrough(beginNginxLogging(c.T, asks(c.Sidecar), "syslog:server=unix:"+c.beginRsyslog()+",facility=local7,tag=nginx,nohostname"), "203.0.113.1", "203.0.113.1")
	c.rejects()
}

// TestHAProxyRefusesByItsLog is the same way with HAProxy, which refuses by itself: what its log says comes back as entries of its maps. The
// sidecar is stopped, killed and started again meanwhile.
func TestHAProxyRefusesByItsLog(t *testing.T) {
	for _, name := range []string{"haproxy", "rsyslogd"} {
		testenv.Program(t, name)
	}
	needsRsyslogKafka(t)
	c := newChain(t, "", false)
	port, socket, ips := freePort(t), filepath.Join(c.dir, "haproxy.sock"), writeIn(t, c.dir, "closed_ip.map", "")
	writeIn(t, c.dir, "closed_key.map", "")
	file := writeIn(t, c.dir, "haproxy.cfg", configured(t, "haproxy/haproxy.cfg", "/run/haproxy.sock group haproxy", socket, "/etc/haproxy", c.dir,
		"/dev/log", c.beginRsyslog(), "bind :8080", "bind 127.0.0.1:"+port, "127.0.0.1:3000", c.Backend.Listener.Addr().String()))
	url := begun(t, "http://127.0.0.1:"+port+"/", "haproxy", "-db", "-f", file)
	beside := func() *processtest.Program {
		t.Helper()
		p := start(t, append([]string{"sidecar", "--listen", "127.0.0.1:0", "--haproxy-socket", socket, "--haproxy-map", "ip=" + ips + ",key=" + c.dir + "/closed_key.map"}, c.names...)...)
		p.WaitFor(`msg="filling HAProxy's maps"`, 20*time.Second)
		return p
	}
	ask := func(addr string) int {
		t.Helper()
		status, _ := processtest.GetFrom(t, addr, "203.0.113.1", url)
		return status
	}
	sidecar := beside()
	c.FloodsThrough(url, "203.0.113.1", "203.0.113.1")
	for range 10 {
		forged := "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Api-Key: \",\"remote_addr\":\"127.0.0.5\r\n\r\n"
		if status := sendRaw(t, url, "127.0.0.4", forged); status != http.StatusOK && status != http.StatusTooManyRequests {
			t.Fatalf("got %d, want 200 or 429", status)
		}
	}
	processtest.Eventually(t, 20*time.Second, "the forger closed", func() bool { return ask("127.0.0.4") == http.StatusTooManyRequests })
	if status := ask("127.0.0.5"); status != http.StatusOK {
		t.Errorf("127.0.0.5: got %d, want 200: it was only claimed", status)
	}
	holds := func(when string) {
		t.Helper()
		if noisy, forger, quiet := ask("127.0.0.2"), ask("127.0.0.4"), ask("127.0.0.6"); noisy != 429 || forger != 429 || quiet != 200 {
			t.Errorf("%s: got %d, %d and %d, want 429, 429 and 200", when, noisy, forger, quiet)
		}
	}
	if err := sidecar.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	processtest.Eventually(t, 20*time.Second, "the sidecar stopped", func() bool { return allStopped(t, sidecar.Cmd.Process.Pid) })
	holds("stopped")
	sidecar.Kill()
	holds("killed")
	beside()
	time.Sleep(time.Second) // in which it might do harm
	holds("started again")
}

// debianHAProxy is /etc/rsyslog.d/49-haproxy.conf of Debian, without its socket: it keeps HAProxy's lines from the files behind it.
const debianHAProxy = ":programname, startswith, \"haproxy\" {\n  %s\n  stop\n}\n"

// beginRsyslog runs rsyslog as Debian sets it up, with deploy/nginx/rsyslog.conf under the name that the file asks for, and returns
// the socket that it reads.
func (c *chain) beginRsyslog() string {
	c.T.Helper()
	socket := filepath.Join(c.dir, "log")
	conf := filepath.Join(c.dir, "rsyslog.conf")
	ours := configured(c.T, "nginx/rsyslog.conf", `["kafka:9092"]`, fmt.Sprintf("[%q]", c.Broker), `topic="nginx"`, fmt.Sprintf("topic=%q", c.log), "/var/spool/rsyslog", c.dir)
	name := regexp.MustCompile(`/etc/(rsyslog\.d/\S+\.conf)`).FindStringSubmatch(ours)
	if name == nil {
		c.T.Fatalf("got no name for rsyslog.d in\n%s", ours)
	}
	if err := os.MkdirAll(filepath.Join(c.dir, "rsyslog.d"), 0o700); err != nil {
		c.T.Fatal(err)
	}
	for name, text := range map[string]string{
		"rsyslog.conf":              fmt.Sprintf("global(workDirectory=%q)\nmodule(load=\"imuxsock\" SysSock.Use=\"off\")\ninput(type=\"imuxsock\" Socket=%q RateLimit.Interval=\"0\")\n$IncludeConfig %s/rsyslog.d/*.conf\n", c.dir, socket, c.dir),
		"rsyslog.d/49-haproxy.conf": fmt.Sprintf(debianHAProxy, filepath.Join(c.dir, "haproxy.log")),
		name[1]:                     ours,
	} {
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
			c.T.Fatal(err)
		}
	}
	runForeign(c.T, "rsyslogd", "-n", "-f", conf, "-i", filepath.Join(c.dir, "pid"))
	processtest.Eventually(c.T, 10*time.Second, "rsyslog listens", func() bool { _, err := os.Stat(socket); return err == nil })
	return socket
}

// rejects sends through kcat what no nginx writes, and expects to be shown it.
func (c *chain) rejects() {
	c.T.Helper()
	cmd := exec.CommandContext(c.T.Context(), testenv.Program(c.T, "kcat"), "-P", "-b", c.Broker, "-t", c.log)
	cmd.Stdin = strings.NewReader("{\"remote_addr\":\"\x1b[31mroot\",\"msec\":\"1.0\"}\nnot JSON\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		c.T.Fatalf("kcat: %v: %s", err, out)
	}
	suffix := strings.TrimPrefix(c.log, "nginx")
	processtest.Eventually(c.T, 20*time.Second, "two rejects shown", func() bool {
		out, err := runCommand("rejects", "--brokers", c.Broker, "--topic-name", "rejects=rejects"+suffix, "--output", "json")
		if err != nil {
			return false
		}
		lines := 0
		for line := range bytes.Lines([]byte(out)) {
			if !json.Valid(line) {
				c.T.Fatalf("got %q, want JSON", line)
			}
			lines++
		}
		return lines >= 2 && !strings.Contains(out, "\x1b") && strings.Contains(out, c.log)
	})
}
