//go:build lab

package lab

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
)

// servedHost is a serve that follows one log.
type servedHost struct {
	*processtest.Program

	b                        testing.TB
	log, data, asked, metric string
	opened                   time.Duration // from its start to its first answer
}

// serveHost starts serve on a log of a directory.
func serveHost(b testing.TB, dir string, more ...string) *servedHost {
	b.Helper()
	h := &servedHost{b: b, log: filepath.Join(dir, "access.log"), data: filepath.Join(dir, "data")}
	began := time.Now()
	h.Program = start(b, append([]string{"serve", "--file", h.log, "--data", h.data, "--format", "combined", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--api-listen", ""}, more...)...)
	h.asked = "http://" + h.WaitFor(`msg=listening address=(\S+) flag=--listen`, 30*time.Second)
	if status := h.ask("203.0.113.1"); status != http.StatusOK {
		b.Fatalf("got status %d, want 200", status)
	}
	h.opened = time.Since(began)
	h.metric = "http://" + h.WaitFor(`msg=listening address=(\S+) flag=--metrics`, 30*time.Second)
	return h
}

// ask returns the status that nginx would get for an address.
func (h *servedHost) ask(ip string) int {
	r, err := http.NewRequestWithContext(h.b.Context(), http.MethodGet, h.asked+"/auth_request", nil)
	if err != nil {
		h.b.Fatal(err)
	}
	r.Header.Set("X-Forwarded-For", ip)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		h.b.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// counted waits until so many requests are counted.
func (h *servedHost) counted(n int) {
	h.b.Helper()
	processtest.Eventually(h.b, 5*time.Minute, "all lines counted", func() bool {
		metrics, _ := processtest.Get(h.b.Context(), h.metric+"/metrics")
		return processtest.MetricSum(metrics, "floodgate_requests_total") >= float64(n)
	})
}

// ready waits until it decides.
func (h *servedHost) ready() {
	h.b.Helper()
	processtest.AwaitReady(h.b, h.metric, http.StatusOK, "")
}

func (h *servedHost) resident() float64 {
	metrics, _ := processtest.Get(h.b.Context(), h.metric+"/metrics")
	return processtest.MetricSum(metrics, "process_resident_memory_bytes") / (1 << 20)
}

// BenchmarkServeReads measures how fast serve reads and counts a log that is there already, and what that takes on disk. An operation is a
// line; run it with -benchtime 4000000x.
func BenchmarkServeReads(b *testing.B) {
	dir := b.TempDir()
	rules := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(rules, []byte(speedRules), 0o600); err != nil {
		b.Fatal(err)
	}
	writeZipf(b, filepath.Join(dir, "access.log"), b.N)
	b.ResetTimer()
	began := time.Now()
	h := serveHost(b, dir, "--rules", rules, "--from-start")
	h.counted(b.N)
	took := time.Since(began)
	b.StopTimer()
	b.ReportMetric(h.resident(), "MiB")
	h.Stop(syscall.SIGTERM)
	cpu := h.Cmd.ProcessState.UserTime() + h.Cmd.ProcessState.SystemTime()
	b.ReportMetric(float64(b.N)/took.Seconds(), "lines/s")
	b.ReportMetric(cpu.Seconds()*1e6/float64(b.N), "cpu-us/line")
	b.ReportMetric(float64(onDisk(b, filepath.Join(h.data, "log")))/float64(b.N), "MB/million")
}

// BenchmarkServeLag measures the time from the line that reaches a limit until the proxy's question about its address is refused, while
// 5,000 lines a second come of other addresses. An operation is such a line; run it with -benchtime 200x.
func BenchmarkServeLag(b *testing.B) {
	dir := b.TempDir()
	rules := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(rules, []byte("version: 1\nrules:\n  - {name: r, callers: ip, limit: 1000, window: 1h}\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "access.log"))
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	h := serveHost(b, dir, "--rules", rules)
	h.ready()
	line := func(ip string) string {
		return fmt.Sprintf("%s - - [%s] \"GET /api/items HTTP/1.1\" 200 512 \"-\" \"Mozilla/5.0 (X11; Linux x86_64)\"\n", ip, time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700"))
	}
	write := func(text string) {
		if _, err := log.WriteString(text); err != nil {
			b.Error(err)
		}
	}
	ended, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n += 50 {
			select {
			case <-stop:
				return
			case <-tick.C:
				var text strings.Builder
				for i := range 50 {
					text.WriteString(line(fmt.Sprintf("10.0.%d.%d", (n+i)>>8&63, (n+i)&255)))
				}
				write(text.String())
			}
		}
	}()
	var took []time.Duration
	b.ResetTimer()
	for i := range b.N {
		ip := fmt.Sprintf("192.0.%d.%d", i>>8&255, i&255)
		write(strings.Repeat(line(ip), 1000))
		began := time.Now()
		for h.ask(ip) != http.StatusForbidden {
			if time.Since(began) > 10*time.Second {
				b.Fatal("not refused within 10 s")
			}
		}
		took = append(took, time.Since(began))
	}
	b.StopTimer()
	close(stop)
	<-ended
	slices.Sort(took)
	b.ReportMetric(millis(quantile(took, 0.5)), "p50-ms")
	b.ReportMetric(millis(quantile(took, 0.99)), "p99-ms")
	b.ReportMetric(h.resident(), "MiB")
}

// BenchmarkServeStart measures how long it takes from the start of the process to the first answer, and until it decides, and how much memory
// it has then, with as many rows as there are operations; run it with -benchtime 1000000x.
func BenchmarkServeStart(b *testing.B) {
	dir := b.TempDir()
	rules := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(rules, []byte(speedRules), 0o600); err != nil {
		b.Fatal(err)
	}
	h := serveHost(b, dir, "--rules", rules)
	h.ready()
	opened, resident := h.opened, h.resident()
	h.Stop(syscall.SIGTERM)
	writeEach(b, filepath.Join(dir, "access.log"), b.N)
	h = serveHost(b, dir, "--rules", rules, "--from-start")
	h.counted(b.N)
	h.Stop(syscall.SIGTERM)
	b.ResetTimer()
	began := time.Now()
	h = serveHost(b, dir, "--rules", rules)
	h.ready()
	b.StopTimer()
	b.ReportMetric(millis(opened), "empty-ms")
	b.ReportMetric(resident, "empty-MiB")
	b.ReportMetric(millis(h.opened), "answers-ms")
	b.ReportMetric(millis(time.Since(began)), "decides-ms")
	b.ReportMetric(h.resident(), "MiB")
	h.Stop(syscall.SIGTERM)
}

// writeEach writes a combined log of a line for each of n addresses.
func writeEach(b *testing.B, path string, n int) {
	b.Helper()
	var text strings.Builder
	stamp := time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700")
	for i := range n {
		fmt.Fprintf(&text, "%d.%d.%d.%d - - [%s] \"GET / HTTP/1.1\" 200 1\n", 11+i>>24, i>>16&255, i>>8&255, i&255, stamp)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
}
