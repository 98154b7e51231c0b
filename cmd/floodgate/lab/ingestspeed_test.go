//go:build lab

package lab

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/store/kafkaio"
)

const speedRules = `
version: 1
rules:
  - {name: per-ip, callers: ip, limit: 1000000000, window: 1h}
`

// BenchmarkIngest measures the whole way of a line in three processes on this machine: file → ingest → Kafka → analyzer,
// counted and in its store. An operation is a line; run it with -benchtime 2000000x. lines/s is by the wall, cpu-us/line
// is the processor time of all three together, which is what is left of it on a machine that others use too: two cores
// have 2 000 000 of them a second.
func BenchmarkIngest(b *testing.B) {
	dir := b.TempDir()
	rules, log := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "access.log")
	if err := os.WriteFile(rules, []byte(speedRules), 0o600); err != nil {
		b.Fatal(err)
	}
	writeZipf(b, log, b.N)
	broker := start(b, "broker", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "log"))
	address := broker.WaitFor(`serving Kafka on (\S+)`, 10*time.Second)
	counting := start(b, "analyze", "--brokers", address, "--rules", rules, "--data", filepath.Join(dir, "counts"), "--listen", "127.0.0.1:0")
	url := "http://" + counting.WaitFor(`msg=listening address=(\S+)`, 30*time.Second)
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	for ready := false; !ready && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		_, status := processtest.Get(ctx, url+"/readyz")
		ready = status == 200
	}
	client := kafkaio.New(kafkaio.Config{Brokers: []string{address}})
	defer client.Close()
	b.ResetTimer()
	began := time.Now()
	feeding := start(b, "ingest", "--brokers", address, "--file", log, "--format", "combined", "--data", filepath.Join(dir, "positions"), "--once", "--listen", "")
	<-feeding.Exited
	for counted := false; !counted && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		metrics, _ := processtest.Get(ctx, url+"/metrics")
		ends := int64(0)
		for p := range 4 {
			_, end, err := client.Range(ctx, "floodgate.requests", p)
			if err != nil {
				b.Fatal(err)
			}
			ends += end
		}
		counted = processtest.MetricSum(metrics, "floodgate_next_offset") == float64(ends)
	}
	counting.Stop(syscall.SIGTERM) // which also commits what was counted last
	took := time.Since(began)
	b.StopTimer()
	broker.Stop(syscall.SIGTERM)
	cpu := time.Duration(0)
	for _, p := range []*processtest.Program{broker, counting, feeding} {
		cpu += p.Cmd.ProcessState.UserTime() + p.Cmd.ProcessState.SystemTime()
	}
	if ctx.Err() != nil {
		b.Fatalf("not counted: %v\n%s", ctx.Err(), feeding.Text())
	}
	b.ReportMetric(float64(b.N)/took.Seconds(), "lines/s")
	b.ReportMetric(cpu.Seconds()*1e6/float64(b.N), "cpu-us/line")
}

// writeZipf writes a combined log of n lines about a hundred thousand addresses, few of which have most of the lines.
func writeZipf(b *testing.B, path string, n int) {
	b.Helper()
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	rnd := rand.New(rand.NewPCG(1, 1))
	zipf, now := rand.NewZipf(rnd, 1.1, 1, 99_999), time.Now().UTC().Add(-time.Minute)
	for i := range n {
		if i%1000 == 0 {
			now = now.Add(time.Millisecond)
		}
		a := zipf.Uint64()
		fmt.Fprintf(w, "10.%d.%d.%d - - [%s] \"GET /api/items/%d?page=2 HTTP/1.1\" 200 %d \"-\" \"Mozilla/5.0 (X11; Linux x86_64)\"\n",
			a>>16&255, a>>8&255, a&255, now.Format("02/Jan/2006:15:04:05 -0700"), i%100, i%5000)
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
}
