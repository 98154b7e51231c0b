package processtest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// Host is a machine with an access log, and serve, a Program that reads it.
type Host struct {
	T       *testing.T
	Log     string // of a server, in format combined
	Data    string // directory of serve
	Program *Program
	Asked   string // URL of what proxies ask
	Metrics string // URL
	API     string // host:port

	starter Starter
}

// NewHost makes the directories, and a log with one line. Start runs serve.
func NewHost(t *testing.T, start Starter) *Host {
	t.Helper()
	dir := t.TempDir()
	h := &Host{T: t, Log: filepath.Join(dir, "access.log"), Data: filepath.Join(dir, "data"), API: testenv.FreeAddress(t), starter: start}
	h.Requests("192.0.2.99", 1)
	return h
}

// Run runs serve, and does not wait for anything. Without arguments it reads the log.
func (h *Host) Run(args ...string) *Program {
	h.T.Helper()
	if len(args) == 0 || args[0] != "--record" {
		args = append([]string{"--file", h.Log}, args...)
	}
	return h.starter(h.T, append([]string{"serve", "--data", h.Data, "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--api-listen", h.API}, args...)...)
}

// Start runs serve, and waits until it reads and decides.
func (h *Host) Start(args ...string) {
	h.T.Helper()
	h.Program = h.Run(args...)
	h.Program.WaitFor(`msg="listening for the API" address=(\S+)`, 30*time.Second)
	h.Asked = "http://" + h.Program.WaitFor(`msg=listening address=(\S+) flag=--listen`, time.Second)
	h.Metrics = "http://" + h.Program.WaitFor(`msg=listening address=(\S+) flag=--metrics-listen`, time.Second)
	AwaitReady(h.T, h.Metrics, http.StatusOK, "")
	if len(args) == 0 || args[0] != "--record" {
		h.Program.WaitFor(`msg=reading path=(\S+)`, 30*time.Second)
	}
}

// WriteRules writes the rules that serve uses without a flag.
func (h *Host) WriteRules(rules string) {
	h.T.Helper()
	if err := os.MkdirAll(h.Data, 0o700); err != nil {
		h.T.Fatal(err)
	}
	WriteFile(h.T, filepath.Join(h.Data, "rules.yaml"), "version: 1\nrules:\n"+rules)
}

// Append writes to the log's end.
func (h *Host) Append(text string) {
	h.T.Helper()
	f, err := os.OpenFile(h.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		h.T.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		h.T.Fatal(err)
	}
}

// Line is a request of an address, as a server logs it in format combined. Its path is made of the time: logs that begin alike would be taken
// for one log.
func Line(addr string, at time.Time) string {
	return fmt.Sprintf("%s - - [%s] \"GET /%d HTTP/1.1\" 200 5 \"-\" \"test\"\n", addr, at.UTC().Format("02/Jan/2006:15:04:05 -0700"), at.UnixNano())
}

// Requests logs n requests of an address, which happen now.
func (h *Host) Requests(addr string, n int) {
	h.T.Helper()
	h.Append(strings.Repeat(Line(addr, time.Now()), n))
}

// Ask asks as nginx does whether an address may pass.
func (h *Host) Ask(addr string) (status int, header http.Header) {
	h.T.Helper()
	return GetFrom(h.T, "127.0.0.1", addr, h.Asked+"/auth_request")
}

// AwaitAnswer asks until the status of the answer about an address is as wanted.
func (h *Host) AwaitAnswer(addr string, want int) {
	h.T.Helper()
	Eventually(h.T, 20*time.Second, fmt.Sprintf("%d about %s", want, addr), func() bool { status, _ := h.Ask(addr); return status == want })
}

// Passes fails the test if an address is refused.
func (h *Host) Passes(addrs ...string) {
	h.T.Helper()
	for _, addr := range addrs {
		if status, _ := h.Ask(addr); status != http.StatusOK {
			h.T.Errorf("%s: got %d, want 200", addr, status)
		}
	}
}

// Metric returns the sum of a metric.
func (h *Host) Metric(name string) float64 {
	h.T.Helper()
	text, _ := Get(h.T.Context(), h.Metrics+"/metrics")
	return MetricSum(text, name)
}

// AwaitMetric waits until the sum of a metric is as wanted.
func (h *Host) AwaitMetric(name string, want float64) {
	h.T.Helper()
	Eventually(h.T, 20*time.Second, fmt.Sprintf("%s of %v", name, want), func() bool { return h.Metric(name) == want })
}

// WriteFile replaces a file at once.
func WriteFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
