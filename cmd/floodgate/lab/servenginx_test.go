//go:build lab

package lab

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// nginxHost is a machine with nginx, and serve on a terminal, as a new user has them.
type nginxHost struct {
	t              *testing.T
	dir, log, url  string
	asked, metrics string // host:port
	serve          *processtest.Program
	requests       int
}

const nginxLimit = 20

func newNginxHost(t *testing.T) *nginxHost {
	t.Helper()
	h := &nginxHost{t: t, dir: t.TempDir(), asked: testenv.FreeAddress(t), metrics: testenv.FreeAddress(t)}
	h.log = filepath.Join(h.dir, "logs", "access.log")
	for _, dir := range []string{"logs", "www", "www/private", "data"} {
		if err := os.Mkdir(filepath.Join(h.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeIn(t, h.dir, "www/index.html", "served")
	writeIn(t, h.dir, "data/rules.yaml", fmt.Sprintf("version: 1\nrules:\n  - {name: per-address, callers: ip, limit: %d, window: 1h}\n", nginxLimit))
	return h
}

// run runs serve on a terminal, and returns what it says to a user of nginx.
func (h *nginxHost) run() (lines string) {
	h.t.Helper()
	line := strings.Join([]string{built(h.t, floodgate), "serve", "--file", h.log, "--data", filepath.Join(h.dir, "data"), "--listen", h.asked, "--metrics-listen", h.metrics, "--api-listen="}, " ")
	h.serve = startCommand(h.t, exec.Command(testenv.Program(h.t, "script"), "-qfec", "exec "+line, "/dev/null"))
	script := h.serve
	h.t.Cleanup(func() { h.kill(script) }) // serve takes the hang-up of its terminal for a wish to read its files again
	processtest.AwaitReady(h.t, "http://"+h.metrics, http.StatusOK, "")
	h.serve.WaitFor(`location @floodgate_away \{ (internal)`, 20*time.Second)
	for _, line := range h.serve.Lines() {
		line = strings.TrimSuffix(line, "\r")
		switch {
		case strings.HasPrefix(line, "To let nginx ask, in the server block"):
			lines = "\n"
		case lines != "" && line != "" && !strings.HasPrefix(line, " "):
			return lines
		case lines != "":
			lines += line + "\n"
		}
	}
	return lines
}

// kill is kill -9 of the serve that script has started.
func (h *nginxHost) kill(script *processtest.Program) {
	h.t.Helper()
	pid := script.Cmd.Process.Pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return // it has ended
	}
	for child := range strings.FieldsSeq(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL) // it may have ended
		}
	}
	<-script.Exited
}

// nginx runs nginx with these lines in its server block.
func (h *nginxHost) nginx(lines string) {
	h.t.Helper()
	listen := testenv.FreeAddress(h.t)
	temporary := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temporary += kind + "_temp_path " + h.dir + ";\n"
	}
	main := writeIn(h.t, h.dir, "nginx.conf", "daemon off;\nuser root;\nworker_processes 2;\npid "+h.dir+"/pid;\nerror_log stderr;\nevents {}\nhttp {\n"+temporary+
		"access_log "+h.log+" combined;\nserver {\nlisten "+listen+";\nroot "+h.dir+"/www;\n"+lines+"}\n}\n")
	h.url = begun(h.t, "http://"+listen+"/", "nginx", "-p", h.dir, "-c", main)
}

// get asks nginx from an address of this machine, which claims to be another one.
func (h *nginxHost) get(addr, path string) (status int, header http.Header) {
	h.t.Helper()
	h.requests++
	return processtest.GetFrom(h.t, addr, fmt.Sprintf("198.51.100.%d", h.requests%250), h.url+path)
}

// rotate runs logrotate with the settings of Debian's package of nginx.
func (h *nginxHost) rotate() {
	h.t.Helper()
	conf := writeIn(h.t, h.dir, "logrotate.conf", h.log+` {
	rotate 14
	compress
	delaycompress
	notifempty
	create 0640 root root
	sharedscripts
	postrotate
		kill -USR1 $(cat `+h.dir+`/pid)
	endscript
}
`)
	if out, err := exec.Command(testenv.Program(h.t, "logrotate"), "-f", "-s", filepath.Join(h.dir, "state"), conf).CombinedOutput(); err != nil {
		h.t.Fatalf("logrotate: %v %s", err, out)
	}
}

// hammer asks from an address until it is refused, and returns how many requests were answered after the one that reached the limit, and for
// how long. Others, who are below the limit, are served meanwhile.
func (h *nginxHost) hammer(addr string, others ...string) (more int, took time.Duration) {
	h.t.Helper()
	var reached time.Time
	for n := 1; ; n++ {
		status, header := h.get(addr, "/")
		switch {
		case status == http.StatusTooManyRequests && header.Get("Retry-After") != "" && n > nginxLimit:
			return n - 1 - nginxLimit, time.Since(reached)
		case status != http.StatusOK:
			h.t.Fatalf("%s, request %d: got %d and %v, want 200, or 429 and Retry-After above %d requests", addr, n, status, header, nginxLimit)
		case n == nginxLimit:
			reached = time.Now()
		case !reached.IsZero() && time.Since(reached) > 20*time.Second:
			h.t.Fatalf("%s: not refused within 20 s", addr)
		}
		if n%2 == 0 && n < nginxLimit {
			for _, other := range others {
				if status, _ := h.get(other, "/"); status != http.StatusOK {
					h.t.Errorf("%s: got %d, want 200", other, status)
				}
			}
		}
	}
}

// TestServeBesideNginx is what a new user does: floodgate serve on a terminal, the lines that it prints in the server block of nginx, and an
// address that hammers. It gets 429, and nobody else does, while logrotate rotates the log. Without serve, all pass.
func TestServeBesideNginx(t *testing.T) {
	for _, name := range []string{"nginx", "logrotate", "script"} {
		testenv.Program(t, name)
	}
	t.Parallel()
	h := newNginxHost(t)
	h.nginx(h.run())
	h.requests++ // the one that found that nginx serves
	processtest.Eventually(t, 20*time.Second, "the first line counted", func() bool { return h.lines() == 1 })
	var waits []time.Duration
	for i := range 8 {
		more, took := h.hammer(fmt.Sprintf("127.0.1.%d", 1+i), fmt.Sprintf("127.0.3.%d", 1+i))
		waits = append(waits, took)
		t.Logf("refused %v and %d requests after the one that reached the limit", took.Round(time.Millisecond), more)
		h.rotate()
	}
	slices.Sort(waits)
	t.Logf("refused after %v at most, %v as the median of %d", waits[len(waits)-1], waits[len(waits)/2], len(waits))
	if status, _ := h.get("127.0.3.1", "/private/"); status != http.StatusForbidden {
		t.Errorf("what nginx itself forbids: got %d, want 403", status)
	}
	processtest.Eventually(t, 30*time.Second, fmt.Sprintf("%d lines counted", h.requests), func() bool { return h.lines() == float64(h.requests) })

	h.kill(h.serve)
	if status, _ := h.get("127.0.1.1", "/"); status != http.StatusOK {
		t.Errorf("without serve: got %d, want 200", status)
	}
	h.run()
	processtest.Eventually(t, 20*time.Second, "refused again", func() bool {
		status, _ := h.get("127.0.1.1", "/")
		return status == http.StatusTooManyRequests
	})
}

// lines returns how many lines serve has counted.
func (h *nginxHost) lines() float64 {
	metrics, _ := processtest.Get(h.t.Context(), "http://"+h.metrics+"/metrics")
	return processtest.MetricSum(metrics, "floodgate_ingest_lines_total")
}
