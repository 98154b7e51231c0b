package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// program is the path of floodgate, built once for all tests.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "floodgate-uitest-")
	if err != nil {
		panic(err)
	}
	if program, err = buildProgram(context.Background(), dir); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

const clusterRules = `version: 1
rules:
  - {name: per-key, callers: key, limit: LIMIT, window: 30s, predict: "off"}
  - {name: per-user, callers: user, limit: 50, window: 1m, predict: "off"}
  - {name: watched, callers: user, limit: 5, window: 1m, mode: shadow}
`

// cluster is a broker, analyzers with an API, and a server that reports requests.
type cluster struct {
	t         *testing.T
	kafka     string           // host:port of the broker
	broker    *embedded.Broker // nil: it is another process
	dir       string
	tokens    map[string]string // by role
	server    http.Handler      // a request to it is counted
	analyzers []*process
}

// process is a floodgate that runs.
type process struct {
	command *exec.Cmd
	log     *lockedBuilder
	url     string // of the API of an analyzer
}

// lockedBuilder is a log that is read while it is written.
type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newCluster starts a broker in this process, and analyzers with these flags more, and waits until all partitions are counted.
func newCluster(t *testing.T, analyzers int, flags ...string) *cluster {
	t.Helper()
	broker, err := embedded.Start(embedded.Options{MinSession: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Close() })
	c := newClusterOf(t, broker.Addr())
	c.broker = broker
	for range analyzers {
		c.analyzers = append(c.analyzers, c.analyze(flags...))
	}
	c.serve()
	return c
}

// newClusterOf writes the files of analyzers of a broker.
func newClusterOf(t *testing.T, kafka string) *cluster {
	t.Helper()
	c := &cluster{t: t, kafka: kafka, dir: t.TempDir(), tokens: make(map[string]string)}
	lines := ""
	for _, role := range []string{"read", "operate", "admin"} {
		text, sum := api.NewToken()
		c.tokens[role] = text
		c.write(role+".token", text)
		lines += fmt.Sprintf("%s-person %s %s\n", role, role, sum)
	}
	c.write("tokens", lines)
	c.write("cluster-key", strings.Repeat("0123456789abcdef", 4))
	c.rules(5)
	return c
}

func (c *cluster) write(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// rules writes the rules file, with another limit of each key.
func (c *cluster) rules(limit int) {
	c.write("rules.yaml", strings.ReplaceAll(clusterRules, "LIMIT", fmt.Sprint(limit)))
}

// analyze starts an analyzer and waits until its API is ready. It is killed when the test ends.
func (c *cluster) analyze(flags ...string) *process {
	c.t.Helper()
	data, err := os.MkdirTemp(c.dir, "counts")
	if err != nil {
		c.t.Fatal(err)
	}
	args := append([]string{
		"analyze", "--brokers", c.kafka, "--rules", filepath.Join(c.dir, "rules.yaml"), "--data", data, "--listen", "127.0.0.1:0",
		"--partitions", "4", "--session-timeout", "2s", "--api-listen", "127.0.0.1:0", "--api-tokens", filepath.Join(c.dir, "tokens"),
		"--api-cluster-key-file", filepath.Join(c.dir, "cluster-key"),
	}, flags...)
	p := c.run(args...)
	line := regexp.MustCompile(`listening for the API.* address=(\S+)`)
	eventually(c.t, "an analyzer listens", func() bool {
		found := line.FindStringSubmatch(p.log.String())
		if found != nil {
			p.url = "http://" + found[1]
		}
		return found != nil
	})
	eventually(c.t, "all partitions are counted", func() bool {
		body := c.get(p, "/v1/status")
		return strings.Count(body, `"state":"running"`) == 4 && strings.Contains(body, `"ready":true`)
	})
	return p
}

// run starts floodgate. It is killed when the test ends.
func (c *cluster) run(args ...string) *process {
	c.t.Helper()
	p := &process{log: new(lockedBuilder), command: exec.Command(program, args...)}
	p.command.Stdout, p.command.Stderr = p.log, p.log
	if err := p.command.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		p.kill()
		if c.t.Failed() {
			c.t.Logf("%s wrote:\n%s", args[0], last(p.log.String(), 3000))
		}
	})
	return p
}

// kill ends an analyzer as a power cut does.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
}

// get asks an analyzer with the token of role read, and returns what it answers; "" if it does not.
func (c *cluster) get(p *process, path string) string {
	return c.ask(p, http.MethodGet, path, "", c.tokens["read"])
}

func (c *cluster) ask(p *process, method, path, body, token string) string {
	r, err := http.NewRequestWithContext(c.t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text := new(strings.Builder)
	if err := resp.Write(text); err != nil {
		return ""
	}
	return text.String()
}

// act closes, opens, … by the API, as role operate.
func (c *cluster) act(action, body string) {
	c.t.Helper()
	if answer := c.ask(c.analyzers[0], http.MethodPost, "/v1/"+action, body, c.tokens["operate"]); !strings.Contains(answer, `"applied":`) {
		c.t.Fatalf("%s: got %s", action, answer)
	}
}

// closeByHand closes a key for an hour.
func (c *cluster) closeByHand(key string) {
	c.t.Helper()
	c.act("close", fmt.Sprintf(`{"caller":{"kind":"key","id":%q},"until":%q,"reason":"a test"}`, key, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
}

// serve starts a server with gates. A request names its caller in the headers Key and User.
func (c *cluster) serve() {
	c.t.Helper()
	set, rec := gate.New(gate.Options{}), record.New(record.Options{})
	link, err := kafkalink.Open(set, rec, kafkalink.Config{Brokers: []string{c.kafka}, Canary: 250 * time.Millisecond, Drain: time.Second})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(link.Close)
	c.server = gatehttp.New(gatehttp.Options{
		Set: set, Recorder: rec, Callers: []gatehttp.CallerFunc{gatehttp.Header("key", "Key"), gatehttp.Header("user", "User")},
	})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

// send sends n requests of a caller: header is Key or User.
func (c *cluster) send(header, id string, n int) {
	for range n {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set(header, id)
		c.server.ServeHTTP(httptest.NewRecorder(), r)
	}
}

// flood sends requests of a caller until a test ends.
func (c *cluster) flood(header, id string) {
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				c.send(header, id, 1)
			}
		}
	})
	c.t.Cleanup(func() { close(stop); running.Wait() })
}

// page returns the address of a page on the first analyzer, with the token of a role.
func (c *cluster) page(role, route string) string {
	return c.analyzers[0].url + "/ui/#token=" + c.tokens[role] + "&to=" + strings.ReplaceAll(route, "%", "%25")
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v: %s", patience, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func last(text string, n int) string { return text[max(0, len(text)-n):] }
