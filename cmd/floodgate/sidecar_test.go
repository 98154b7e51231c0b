package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
)

func TestSidecarFlags(t *testing.T) {
	tests := []struct {
		name string
		args []string
		err  string // empty: it is fine
	}{
		{"no brokers", nil, "--brokers: got none"},
		{"the least", []string{"--brokers", "k:9092"}, ""},
		{"callers", []string{"--brokers", "k:9092", "--callers", "key=X-Api-Key", "--callers", "ip_key=ip+X-Api-Key", "--trusted", "10.0.0.0/8"}, ""},
		{"a caller without a header", []string{"--brokers", "k:9092", "--callers", "key="}, `--callers: got "key="`},
		{"a caller without a kind", []string{"--brokers", "k:9092", "--callers", "=X"}, `--callers: got "=X"`},
		{"a part that is empty", []string{"--brokers", "k:9092", "--callers", "a=ip+"}, "want no part empty"},
		{"a kind that is none", []string{"--brokers", "k:9092", "--callers", "API key=X"}, "--callers: "},
		{"too many", append([]string{"--brokers", "k:9092"}, strings.Split(strings.Repeat("--callers,a=X,", 7)+"--callers,a=X", ",")...), "--callers: got 8, want at most 7"},
		{"an address for a prefix", []string{"--brokers", "k:9092", "--trusted", "10.0.0.1"}, `--trusted: got "10.0.0.1"`},
		{"networks of nothing", []string{"--brokers", "k:9092", "--ipv6-prefix", "0"}, "--ipv6-prefix: got 0"},
		{"a policy of nobody", []string{"--brokers", "k:9092", "--stale", "panic"}, `--stale: got "panic"`},
		{"nowhere to listen", []string{"--brokers", "k:9092", "--listen", ""}, "--listen: got none"},
		{"bouncers", []string{"--brokers", "k:9092", "--bouncer-listen", ":8080", "--bouncer-keys", "keys", "--bouncer-min", "1s"}, ""},
		{"bouncers without keys", []string{"--brokers", "k:9092", "--bouncer-listen", ":8080"}, "--bouncer-keys: got none"},
		{"keys for nobody", []string{"--brokers", "k:9092", "--bouncer-keys", "keys"}, "--bouncer-listen: got none"},
		{"no closure too short", []string{"--brokers", "k:9092", "--bouncer-min", "999ms"}, "--bouncer-min: got 999ms"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var c sidecarConfig
			var cmd cobra.Command
			c.add(&cmd)
			err := cmd.ParseFlags(test.args)
			if err == nil {
				err = c.check()
			}
			switch {
			case test.err == "" && err != nil:
				t.Errorf("got %v, want none", err)
			case test.err != "" && (!command.IsUsage(err) || !strings.Contains(err.Error(), test.err)):
				t.Errorf("got %v, want a usage error with %q", err, test.err)
			}
		})
	}
}

func TestSidecarAnswersWithoutAProxyToo(t *testing.T) {
	b := processtest.NewSidecar(t, start, "--record")
	b.FloodsThrough(b.URL+"/auth", "203.0.113.1", "203.0.113.2")
	conn, err := grpc.NewClient(b.Envoy, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: "203.0.113.1"},
		}}},
	}})
	if err != nil || got.GetDeniedResponse().GetStatus().GetCode() != http.StatusTooManyRequests {
		t.Errorf("Envoy: got %v and %v, want 429: the proxy's claim was believed above", got, err)
	}
	if h, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || h.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: got %v and %v, want serving", h, err)
	}
	metrics, _ := processtest.Get(t.Context(), b.URL+"/metrics")
	if processtest.MetricSum(metrics, "floodgate_sidecar_refused_total") < 2 || processtest.MetricSum(metrics, "floodgate_gate_closed_callers") < 1 {
		t.Errorf("got metrics\n%s\nwant 2 refused and a closed gate", metrics)
	}
	if processtest.MetricSum(metrics, `floodgate_gate_requests_refused_total{mode="enforce",rule="per-ip"}`) < 2 {
		t.Errorf("got metrics\n%s\nwant 2 refused by the rule per-ip", metrics)
	}
	if code := b.Program.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0", code)
	}
}

// A sidecar starts and lets pass whether Kafka is there or not, and says that it is not ready.
func TestSidecarWithoutKafkaLetsPass(t *testing.T) {
	p := start(t, "sidecar", "--brokers", "127.0.0.1:1", "--listen", "127.0.0.1:0")
	url := "http://" + p.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
	for path, want := range map[string]int{"/auth": 200, "/auth_request": 200, "/healthz": 200, "/readyz": 503, "/": 404} {
		if text, status := processtest.Get(t.Context(), url+path); status != want {
			t.Errorf("%s: got %d, %s, want %d", path, status, text, want)
		}
	}
	if code := p.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0", code)
	}
}
