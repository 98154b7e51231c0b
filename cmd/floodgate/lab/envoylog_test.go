//go:build lab

package lab

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// TestEnvoySendsItsAccessLog: with the shipped configuration, ingest counts what Envoy sends, each request once, and a noisy client is
// refused. Envoy serves while ingest is away, and after its return the rest counts.
func TestEnvoySendsItsAccessLog(t *testing.T) {
	testenv.Program(t, "envoy")
	b := processtest.NewSidecar(t, start, "--trusted", "127.0.0.1/32") // clients have other loopback addresses
	listen, metrics := testenv.FreeAddress(t), ""
	ingest := func() *processtest.Program {
		p := start(t, "ingest", "--brokers", b.Broker, "--grpc-listen", listen, "--listen", "127.0.0.1:0")
		metrics = "http://" + p.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
		processtest.AwaitReady(t, metrics, http.StatusOK, "")
		return p
	}
	metric := func(name string) float64 {
		text, _ := processtest.Get(context.Background(), metrics+"/metrics")
		return processtest.MetricSum(text, name)
	}
	running := ingest()
	url := beginEnvoyLogging(t, asks(b), listen)
	b.FloodsThrough(url, "203.0.113.1", "203.0.113.1")

	clients := 0
	requests := func(n int) { // each of a client that has sent none before
		for range n {
			clients++
			if status, _ := processtest.GetFrom(t, fmt.Sprintf("127.1.%d.%d", clients>>8, clients&255), "203.0.113.1", url); status != http.StatusOK {
				t.Errorf("got %d, want that a new client is served", status)
			}
		}
	}
	before := settled(t, func() float64 { return metric("floodgate_ingest_lines_total") })
	requests(50)
	processtest.Eventually(t, 10*time.Second, "50 more lines", func() bool { return metric("floodgate_ingest_lines_total") >= before+50 })
	if got := settled(t, func() float64 { return metric("floodgate_ingest_lines_total") }); got != before+50 || metric("floodgate_ingest_rejected_total") != 0 {
		t.Errorf("got %v lines after %v, and %v rejected; want 50 more and none", got, before, metric("floodgate_ingest_rejected_total"))
	}

	running.Kill()
	served := clients
	requests(50)
	ingest()
	processtest.Eventually(t, 20*time.Second, "Envoy sends to the new ingest", func() bool {
		requests(1)
		return metric("floodgate_ingest_lines_total") > 0
	})
	before = settled(t, func() float64 { return metric("floodgate_ingest_lines_total") })
	t.Logf("while ingest was away, and until Envoy had found the new one, %d requests were served, of which %v count", clients-served, before)
	requests(50)
	processtest.Eventually(t, 10*time.Second, "50 more lines", func() bool { return metric("floodgate_ingest_lines_total") == before+50 })
}

// settled returns a number when it has stayed the same for five flushes of Envoy's buffer.
func settled(t *testing.T, number func() float64) (n float64) {
	t.Helper()
	since := time.Now()
	processtest.Eventually(t, 20*time.Second, "a number that stays", func() bool {
		if now := number(); now != n {
			n, since = now, time.Now()
		}
		return time.Since(since) > 500*time.Millisecond
	})
	return n
}

// beginEnvoyLogging runs Envoy with deploy/envoy/accesslog.yaml, whose ingest listens at an address, and in which more is replaced.
func beginEnvoyLogging(t testing.TB, q question, ingest string, replace ...string) string {
	t.Helper()
	port := freePort(t)
	_, sidecar, _ := net.SplitHostPort(q.envoy)
	_, backend, _ := net.SplitHostPort(q.backend)
	_, log, _ := net.SplitHostPort(ingest)
	file := writeIn(t, t.TempDir(), "envoy.yaml", configured(t, "envoy/accesslog.yaml", append(replace, "0.0.0.0", "127.0.0.1",
		"port_value: 8080", "port_value: "+port, "port_value: 9094", "port_value: "+sidecar, "port_value: 3000", "port_value: "+backend,
		"port_value: 9097", "port_value: "+log)...))
	return begun(t, "http://127.0.0.1:"+port+"/", "envoy", "-c", file, "--use-dynamic-base-id", "--concurrency", "1", "-l", "warning")
}
