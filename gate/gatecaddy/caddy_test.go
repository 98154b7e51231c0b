package gatecaddy_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/509da70d/floodgate/gate/gatecaddy"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/logging"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	_ "github.com/caddyserver/caddy/v2/modules/logging"
	_ "github.com/caddyserver/caddy/v2/modules/metrics"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// TestMain is also Caddy itself: tests run this program again, so that CI links one Caddy only.
func TestMain(m *testing.M) {
	if os.Getenv("GATECADDY") != "" {
		caddycmd.Main() // exits by itself only if it fails
		return
	}
	os.Exit(m.Run())
}

// command returns a command of Caddy, with directories of its own.
func command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], args...)
	dir := t.TempDir()
	c.Env = append(os.Environ(), "GATECADDY=1", "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
	return c
}

// output is what a process has printed so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// caddy is a Caddy that runs.
type caddy struct {
	t      testing.TB
	admin  string // host:port
	url    string // of its site
	cmd    *exec.Cmd
	log    output
	client *http.Client

	mu     sync.Mutex        // protects what follows
	sent   map[string]uint64 // requests that were answered, by key
	resets time.Time         // until then Caddy may reset connections
}

// begin runs Caddy until the test ends. In the configuration, ADMIN stands for the address of its admin endpoint, and SITE for the one
// at which it serves.
func begin(t testing.TB, caddyfile string) *caddy {
	t.Helper()
	site := testenv.FreeAddress(t)
	c := &caddy{t: t, admin: testenv.FreeAddress(t), url: "http://" + site, sent: map[string]uint64{}, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}}
	file := c.write(caddyfile)
	c.cmd = command(t, "run", "--config", file, "--adapter", "caddyfile")
	c.cmd.Stderr, c.cmd.Stdout = &c.log, &c.log
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.end()
		if t.Failed() {
			t.Logf("Caddy's log:\n%s", c.log.String())
		}
	})
	c.eventually("Caddy serves", func() error {
		conn, err := net.Dial("tcp", site)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, c.log.String())
		}
		return conn.Close()
	})
	return c
}

func (c *caddy) fill(caddyfile string) string {
	return strings.NewReplacer("ADMIN", c.admin, "SITE", c.url).Replace(caddyfile)
}

func (c *caddy) write(caddyfile string) (path string) {
	c.t.Helper()
	path = filepath.Join(c.t.TempDir(), "Caddyfile")
	if err := os.WriteFile(path, []byte(c.fill(caddyfile)), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// end stops Caddy as systemd does, and waits until it has ended. Further calls do nothing.
func (c *caddy) end() {
	c.t.Helper()
	if c.cmd.ProcessState != nil {
		return
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	kill := time.AfterFunc(20*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("Caddy: got %v, want a clean end", err)
	}
}

// load gives Caddy another configuration, and returns what it says against it.
func (c *caddy) load(caddyfile string) error {
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, "http://"+c.admin+"/load", strings.NewReader(c.fill(caddyfile)))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "text/caddyfile")
	c.mayReset(time.Hour)
	defer c.mayReset(time.Second)
	fresh := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // a reload ends the connections of the admin endpoint, too
	resp, err := fresh.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(string(text))
	}
	return err
}

// mayReset lets Caddy reset connections for a time.
func (c *caddy) mayReset(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resets = time.Now().Add(d)
}

// isReset reports whether an error is no fault: a reload closes a listener, and with it the connections that it has not accepted, up to a
// moment after the reload is answered.
func (c *caddy) isReset(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)) && time.Now().Before(c.resets)
}

func (c *caddy) reload(caddyfile string) {
	c.t.Helper()
	if err := c.load(caddyfile); err != nil {
		c.t.Fatalf("reload: %v", err)
	}
}

// get sends a request with a key, and returns its status, or 0 and the error.
func (c *caddy) get(path, key string) (int, http.Header, error) {
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.url+path, nil)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("X-Api-Key", key)
	resp, err := c.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	c.mu.Lock()
	c.sent[key]++
	c.mu.Unlock()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header, err
}

// answers expects a status for a key at once.
func (c *caddy) answers(key string, want int) {
	c.t.Helper()
	got, _, err := c.get("/", key)
	for c.isReset(err) {
		got, _, err = c.get("/", key)
	}
	if got != want || err != nil {
		c.t.Fatalf("%s: got status %d, %v, want %d", key, got, err, want)
	}
}

// becomes waits for a status for a key.
func (c *caddy) becomes(key string, want int) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("%s is answered with %d", key, want), func() error {
		if got, _, err := c.get("/", key); got != want {
			return fmt.Errorf("got %d, %w", got, err)
		}
		return nil
	})
}

func (c *caddy) eventually(what string, ask func() error) {
	c.t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(90 * time.Second); ; <-again.C {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: not within 90 s: %v", what, err)
		}
	}
}

// metric returns a metric of Caddy's admin endpoint, added up over its labels.
func (c *caddy) metric(name string) (sum float64) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "http://"+c.admin+"/metrics", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		series, value, _ := strings.Cut(lines.Text(), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil && (series == name || strings.HasPrefix(series, name+"{")) {
			sum += n
		}
	}
	return sum
}

// linked waits until Caddy has reached Kafka.
func (c *caddy) linked() {
	c.t.Helper()
	c.eventually("the link is up", func() error {
		if c.metric("floodgate_link_up") != 1 {
			return errors.New("it is down")
		}
		return nil
	})
}

// backend answers each request with 200, or with the status in its query.
func backend(t testing.TB) (address string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("teapot") {
			w.WriteHeader(http.StatusTeapot)
		}
		fmt.Fprintln(w, "hello")
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}
