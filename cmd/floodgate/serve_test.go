package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
)

const hammered = "  - {name: per-address, callers: ip, limit: 5, window: 1h}\n"

// TestServe is what one host sees of serve: a proposal that blocks nobody, rules of its own, an address that hammers and is refused, and all
// of it again after a restart.
func TestServe(t *testing.T) {
	t.Parallel()
	h := processtest.NewHost(t, start)
	h.Requests("192.0.2.1", 400) // before serve: they do not count
	h.Start()
	h.Program.WaitFor(`level=WARN msg="wrote a proposal of rules, which block nobody: edit it" file=(\S+)`, time.Second)
	h.Requests("192.0.2.2", 299)
	h.Requests("192.0.2.3", 300)
	h.AwaitMetric("floodgate_ingest_lines_total", 599)
	h.AwaitMetric(`floodgate_gate_closed_callers{kind="ip",mode="shadow"}`, 1)
	h.Passes("192.0.2.1", "192.0.2.2", "192.0.2.3")

	h.WriteRules(hammered)
	send(t, h.Program, syscall.SIGHUP)
	processtest.Eventually(t, 20*time.Second, "the new rules in all partitions", func() bool { return strings.Count(h.Program.Text(), `msg="rules changed"`) == 4 })
	h.Requests("192.0.2.4", 4)
	h.Requests("192.0.2.5", 5)
	h.AwaitAnswer("192.0.2.5", http.StatusForbidden)
	status, header := h.Ask("192.0.2.5")
	if status != http.StatusForbidden || header.Get("Retry-After") == "" {
		t.Errorf("got %d and %v, want 403 and Retry-After", status, header)
	}
	h.Passes("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")

	other := h.Run()
	if code := other.Wait(10 * time.Second); code != 1 || !matches(`--data: .* in use by "process \d+ on .*want a directory for each process`, other.Text()) {
		t.Errorf("a second process: got %d and %s, want to be told who has the directory", code, other.Text())
	}

	if code := h.Program.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, h.Program.Text())
	}
	h.Requests("192.0.2.4", 1) // while it is away: the fifth
	h.Start()
	h.AwaitAnswer("192.0.2.4", http.StatusForbidden)
	h.Passes("192.0.2.1", "192.0.2.2", "192.0.2.3")
	if status, _ := h.Ask("192.0.2.5"); status != http.StatusForbidden {
		t.Errorf("after a restart: got %d, want it closed still", status)
	}
}

// TestServeForPersons: the API with the token of the data directory, the dashboard, webhooks and bouncers.
func TestServeForPersons(t *testing.T) {
	t.Parallel()
	h := processtest.NewHost(t, start)
	h.WriteRules(hammered)
	hook := newHooked(t)
	sum := sha256.Sum256([]byte("key of a bouncer"))
	keys := filepath.Join(t.TempDir(), "keys")
	processtest.WriteFile(t, keys, "firewall "+hex.EncodeToString(sum[:])+"\n")
	bouncer := testenv.FreeAddress(t)
	flags := []string{"--dashboard", "--notify", hook.settings, "--bouncer-listen", bouncer, "--bouncer-keys", keys}
	h.Start(flags...)
	link := h.Program.WaitFor(`^the dashboard, by a link that works once: (http\S+)`, 10*time.Second)
	if _, status := processtest.Get(t.Context(), link); status != http.StatusOK {
		t.Errorf("%s: got %d, want 200", link, status)
	}
	person := func(command string, args ...string) string {
		out, err := runCommand(append([]string{command, "--api", h.API, "--token-file", filepath.Join(h.Data, "api-token")}, args...)...)
		if err != nil {
			t.Errorf("%s: got %v", command, err)
		}
		return out
	}
	h.Requests("192.0.2.1", 5)
	h.AwaitAnswer("192.0.2.1", http.StatusForbidden)
	if out := person("explain", "ip:192.0.2.1"); !strings.Contains(out, "per-address") {
		t.Errorf("explain: got %s, want the rule that closes", out)
	}
	person("open", "ip:192.0.2.1", "--for", "1h", "--reason", "test")
	h.AwaitAnswer("192.0.2.1", http.StatusOK)
	person("close", "ip:192.0.2.2", "--for", "1h", "--reason", "test")
	h.AwaitAnswer("192.0.2.2", http.StatusForbidden)
	processtest.Eventually(t, 20*time.Second, "the bouncer's decision", func() bool {
		text := asBouncer(t, "http://"+bouncer+"/v1/decisions/stream?startup=true")
		return strings.Contains(text, `"192.0.2.2"`) && !strings.Contains(text, `"192.0.2.1"`)
	})
	hook.await("closed ip:192.0.2.1")
	if code := h.Program.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, h.Program.Text())
	}
	h.Start(flags...)
	h.Requests("192.0.2.3", 5)
	hook.await("closed ip:192.0.2.3")
	hook.wantOnce("")
	h.AwaitAnswer("192.0.2.2", http.StatusForbidden)
}

// TestServeFromStart counts what the log has already: whoever is above the limit now is closed, and of the past it says how often it would
// have closed somebody, and tells nobody else.
func TestServeFromStart(t *testing.T) {
	t.Parallel()
	h := processtest.NewHost(t, start)
	h.WriteRules(hammered)
	hook := newHooked(t)
	past, now := time.Now().Add(-3*time.Hour), time.Now()
	h.Append(strings.Repeat(processtest.Line("192.0.2.1", past), 7) + strings.Repeat(processtest.Line("192.0.2.2", now), 7))
	h.Start("--from-start", "--notify", hook.settings)
	h.Program.WaitFor(`msg="counted what was there already" rule=per-address would_have_closed=(2)$`, 20*time.Second)
	h.AwaitAnswer("192.0.2.2", http.StatusForbidden)
	h.Passes("192.0.2.1")
	hook.await("closed ip:192.0.2.2")
	hook.wantOnce("closed ip:192.0.2.2")
}

// TestServeIsKilled five times while its log grows and is renamed: its audit finds each line once. TestServeKills, of the laboratory, is the
// longer one.
func TestServeIsKilled(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	h := processtest.NewHost(t, start)
	h.WriteRules("  - {name: all, callers: ip, limit: 1000000000, window: 8760h, algorithm: fixed}\n")
	h.Start("--from-start")
	lines := 1
	for kill := range 5 {
		for n := range 20 + 10*kill {
			h.Requests(fmt.Sprintf("198.51.100.%d", n), 100)
			lines += 100
			if n == 15 {
				if err := os.Rename(h.Log, h.Log+"."+strconv.Itoa(kill)); err != nil {
					t.Fatal(err)
				}
			}
		}
		h.Program.Kill()
		h.Start("--from-start")
	}
	out := ""
	processtest.Eventually(t, time.Minute, fmt.Sprintf("%d lines counted once", lines), func() bool {
		if h.Metric("floodgate_ingest_lag") > 0 || h.Metric("floodgate_ingest_queued_bytes") > 0 {
			return false
		}
		if code := h.Program.Stop(syscall.SIGTERM); code != 0 {
			t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, h.Program.Text())
		}
		var err error
		if out, err = runCommand("audit", "--data", h.Data); err != nil || !strings.Contains(out, "to the unit") {
			t.Fatalf("audit: got %v and\n%s", err, out)
		}
		h.Start("--from-start") // what was renamed may not have been found yet
		return strings.Contains(out, fmt.Sprintf("%d requests", lines))
	})
}

// TestServeReadsByAnotherMapping after SIGHUP, and counts each line once.
func TestServeReadsByAnotherMapping(t *testing.T) {
	t.Parallel()
	h := processtest.NewHost(t, start)
	h.WriteRules(hammered)
	mapping := filepath.Join(t.TempDir(), "mapping.yaml")
	processtest.WriteFile(t, mapping, "version: 1\nformat: combined\n")
	h.Start("--mapping", mapping)
	h.Requests("192.0.2.1", 3)
	h.AwaitMetric("floodgate_ingest_lines_total", 3)
	send(t, h.Program, syscall.SIGHUP) // the mapping is the same: reading goes on
	h.Requests("192.0.2.9", 3)
	h.AwaitMetric("floodgate_ingest_lines_total", 6)
	processtest.WriteFile(t, mapping, "version: 1\nformat: combined\nforwarded: {trusted: [127.0.0.0/8], header: x}\n")
	send(t, h.Program, syscall.SIGHUP)
	h.Program.WaitFor(`msg="mapping not changed: the file cannot be used" error=(.*)`, 10*time.Second)
	if strings.Contains(h.Program.Text(), "reading by the new mapping") {
		t.Errorf("got\n%s\nwant no other mapping yet", h.Program.Text())
	}
	processtest.WriteFile(t, mapping, "version: 1\nformat: csv\ncolumns: [when, who]\ncallers: {ip: \"{who}\"}\ntime: {field: when, layout: unix_ms}\n")
	send(t, h.Program, syscall.SIGHUP)
	h.Program.WaitFor(`msg="reading by the new mapping" file=(\S+)`, 10*time.Second)
	h.Requests("192.0.2.1", 3)
	h.AwaitMetric("floodgate_ingest_rejected_total", 3)
	h.Passes("192.0.2.1")
	h.Append(strings.Repeat(fmt.Sprintf("%d,192.0.2.1\n", time.Now().UnixMilli()), 2))
	h.AwaitAnswer("192.0.2.1", http.StatusForbidden)
}

// TestServeRecords counts what proxies ask about.
func TestServeRecords(t *testing.T) {
	t.Parallel()
	h := processtest.NewHost(t, start)
	h.WriteRules(hammered)
	h.Start("--record")
	h.AwaitAnswer("192.0.2.1", http.StatusForbidden)
	h.Passes("192.0.2.2", "192.0.2.2", "192.0.2.2", "192.0.2.2")
	if code := h.Program.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, h.Program.Text())
	}
	h.Start("--record")
	h.AwaitAnswer("192.0.2.2", http.StatusForbidden) // the last four count before it stops
}

// TestServeRecordsBesideALogOfResponses: proxies ask about requests, which count then, and the log says how they ended. Another mapping that
// would count them twice is refused.
func TestServeRecordsBesideALogOfResponses(t *testing.T) {
	t.Parallel()
	h := processtest.NewHost(t, start)
	h.WriteRules("  - {name: hammered, callers: ip, limit: 4, window: 1h, overrides: {192.0.2.1: unlimited}}\n  - {name: traffic, callers: ip, limit: 1000, window: 1h, measure: cost}\n")
	mapping := filepath.Join(t.TempDir(), "mapping.yaml")
	processtest.WriteFile(t, mapping, "version: 1\nformat: combined\narrivals: none\n")
	h.Start("--mapping", mapping, "--record")
	h.Requests("192.0.2.1", 9) // lines of nine requests that no proxy has asked about
	h.AwaitMetric("floodgate_ingest_lines_total", 9)
	h.AwaitMetric("floodgate_requests_total", 0)
	h.AwaitAnswer("192.0.2.2", http.StatusForbidden) // a proxy asks
	h.Passes("192.0.2.1")
	processtest.WriteFile(t, mapping, "version: 1\nformat: combined\n")
	send(t, h.Program, syscall.SIGHUP)
	h.Program.WaitFor(`msg="mapping not changed: the file cannot be used" error=(.*twice.*)`, 10*time.Second)
	h.Append(strings.Replace(processtest.Line("192.0.2.1", time.Now()), " 200 5 ", " 200 1000 ", 1))
	h.AwaitAnswer("192.0.2.1", http.StatusForbidden) // by the cost in its log
	if code := h.Program.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, h.Program.Text())
	}
}

// TestServeRecordsItsLastAnswers: each request that serve has answered counts, and it answers until it stops.
func TestServeRecordsItsLastAnswers(t *testing.T) {
	t.Parallel()
	h := processtest.NewHost(t, start)
	h.WriteRules("  - {name: per-address, callers: ip, limit: 1000000, window: 1h}\n")
	h.Start("--record")
	answered := make(chan int)
	go func() {
		n := 0
		for {
			if _, status := processtest.Get(t.Context(), h.Asked+"/auth_request"); status != http.StatusOK {
				answered <- n
				return
			}
			n++
		}
	}()
	processtest.Eventually(t, 20*time.Second, "counts", func() bool { return h.Metric("floodgate_requests_total") > 0 })
	code := h.Program.Stop(syscall.SIGTERM)
	want := <-answered
	out, err := runCommand("audit", "--data", h.Data)
	if code != 0 || err != nil || !strings.Contains(out, fmt.Sprintf(" %d requests,", want)) {
		t.Errorf("got exit code %d, %v and\n%s\n%s\nwant %d requests", code, err, h.Program.Text(), out, want)
	}
}

// hooked is a receiver of webhooks.
type hooked struct {
	t        testing.TB
	settings string // path

	mu     sync.Mutex
	counts map[string]int // guarded by mu: by id
	events map[string]int // guarded by mu: by type and caller
}

func newHooked(t testing.TB) *hooked {
	t.Helper()
	h := &hooked{t: t, counts: make(map[string]int), events: make(map[string]int)}
	var secret string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := processtest.Verified(r, secret)
		var m struct {
			Data struct {
				Type   string
				Caller struct{ Kind, ID string }
			}
		}
		if err == nil {
			err = json.Unmarshal(body, &m)
		}
		if err != nil {
			t.Errorf("got %s, %v, want one event that is signed", body, err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.counts[r.Header.Get("Webhook-Id")]++
		h.events[m.Data.Type+" "+m.Data.Caller.Kind+":"+m.Data.Caller.ID]++
	}))
	t.Cleanup(server.Close)
	h.settings, secret = processtest.NotifySettings(t, server.URL, "")
	return h
}

func (h *hooked) await(event string) {
	h.t.Helper()
	processtest.Eventually(h.t, 20*time.Second, "webhook of "+event, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.events[event] > 0
	})
}

// wantOnce wants each event to have come once, and only those whose type and caller are as said, if anything is said.
func (h *hooked) wantOnce(only string) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for event := range h.events {
		if only != "" && event != only {
			h.t.Errorf("got %s, want only %s", event, only)
		}
	}
	for id, n := range h.counts {
		if n != 1 {
			h.t.Errorf("event %s: got it %d times, want once", id, n)
		}
	}
}

// asBouncer returns what a bouncer of CrowdSec's is told.
func asBouncer(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", "key of a bouncer")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func send(t *testing.T, p *processtest.Program, signal os.Signal) {
	t.Helper()
	if err := p.Cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}
