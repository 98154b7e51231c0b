//go:build lab

package lab

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// aiGateway is Envoy, a sidecar, ingest and an analyzer, with the files of deploy/recipes/envoy-ai-gateway.
type aiGateway struct {
	gateway
	ingest string // the URL of its metrics
}

func newAIGateway(t *testing.T, m *model) *aiGateway {
	t.Helper()
	testenv.Program(t, "envoy")
	d := processtest.NewDeployment(t, start)
	secret := writeIn(t, d.Dir, "secret", strings.Repeat("s", 32))
	hashed := []string{"--hash-kinds", "key", "--hash-secret-file", secret}
	d.WriteRules(recipeRules(t, "envoy-ai-gateway"))
	d.Start(hashed...)
	ids := append([]string{"--brokers", d.Broker, "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"}, hashed...)
	sidecar := start(t, append([]string{"sidecar", "--callers", "key=Authorization", "--record", "--holds"}, ids...)...)
	mapping := writeIn(t, d.Dir, "mapping.yaml", configured(t, "recipes/envoy-ai-gateway/mapping.yaml"))
	ingest := start(t, append([]string{"ingest", "--mapping", mapping}, ids...)...)
	g := &aiGateway{ingest: "http://" + ingest.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)}
	processtest.AwaitReady(t, g.ingest, http.StatusOK, "")
	processtest.AwaitReady(t, "http://"+sidecar.WaitFor(`msg=listening address=(\S+)`, 10*time.Second), http.StatusOK, "")

	port := func(address string) string {
		_, port, _ := net.SplitHostPort(address)
		return "port_value: " + port
	}
	listen := testenv.FreeAddress(t)
	file := writeIn(t, t.TempDir(), "envoy.yaml", configured(t, "recipes/envoy-ai-gateway/envoy.yaml", "0.0.0.0", "127.0.0.1",
		"port_value: 8080", port(listen), "port_value: 3000", port(m.Listener.Addr().String()),
		"port_value: 9094", port(sidecar.WaitFor(`msg="listening for Envoy" address=(\S+)`, 10*time.Second)),
		"port_value: 9097", port(ingest.WaitFor(`msg="listening for Envoy and OpenTelemetry" address=(\S+)`, 10*time.Second))))
	runForeign(t, "envoy", "-c", file, "--use-dynamic-base-id", "--concurrency", "1", "-l", "warning")
	g.gateway = gateway{t, "http://" + listen + "/v1/chat/completions", "gpt-4o"}
	processtest.Eventually(t, 60*time.Second, "envoy serves", func() bool {
		c, err := net.Dial("tcp", listen)
		return err == nil && c.Close() == nil
	})
	return g
}

// awaitLines waits until ingest has read so many lines, and none that it could not read.
func (g *aiGateway) awaitLines(n int) {
	g.t.Helper()
	var text string
	processtest.Eventually(g.t, 20*time.Second, "the lines of Envoy", func() bool {
		text, _ = processtest.Get(g.t.Context(), g.ingest+"/metrics")
		return processtest.MetricSum(text, "floodgate_ingest_lines_total") >= float64(n)
	})
	if rejected := processtest.MetricSum(text, "floodgate_ingest_rejected_total"); rejected != 0 {
		g.t.Errorf("got %v lines rejected, want none", rejected)
	}
}

// TestEnvoyAIGateway: Envoy, with the metadata that AI Gateway sets, tells floodgate of the tokens of each call, and refuses the calls of a key
// that has spent its limit, and no others. What AI Gateway does not know of, such as a stream that its client leaves, costs nothing.
func TestEnvoyAIGateway(t *testing.T) {
	t.Parallel()
	const leaving = 8 // clients, each of a call of 5000 tokens
	m := newModel(t)
	g := newAIGateway(t, m)

	for i := range leaving {
		m.stall()
		g.leaves("sk-leaver")
		m.letEnd()
		g.awaitLines(i + 1)
	}

	_, calls := g.spends("sk-alice", 990, 1000)
	running := g.fills(m, "sk-carol")
	for _, key := range []string{"sk-bob", "sk-leaver"} {
		if status, _, used := g.streams(key, 10, 10); status != http.StatusOK || used != 20 {
			t.Errorf("%s: got %d and %d tokens, want 200 and 20", key, status, used)
		}
	}
	if n := m.calls.Load(); n != int64(leaving+calls+running+2) {
		t.Errorf("got %d calls of the model, want the %d that were not refused", n, leaving+calls+running+2)
	}
}
