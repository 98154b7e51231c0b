package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
)

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

// TestPortsInUseAreSaidTogether, each with its flag, by every daemon that listens on several. So nobody mends them one by one.
func TestPortsInUseAreSaidTogether(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	at := taken.Addr().String()
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("b "+strings.Repeat("0", 64)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ args, flags []string }{
		"analyze": {[]string{"--brokers", "127.0.0.1:1", "--rules", rulesFile(t), "--data", t.TempDir()}, []string{"listen", "api-listen"}},
		"sidecar": {[]string{"--brokers", "127.0.0.1:1", "--bouncer-keys", keys, "--feed-keys", keys}, []string{"listen", "feed-listen", "bouncer-listen", "grpc-listen"}},
		"demo":    {nil, []string{"api-listen"}},
		"broker":  {nil, []string{"listen"}},
	} {
		args, want := append([]string{name}, test.args...), ""
		for _, flag := range test.flags {
			args, want = append(args, "--"+flag, at), want+"--"+flag+": .*"+at+".* in use.*"
		}
		if _, err := runCommand(args...); command.ExitCode(err, io.Discard) != 1 || !matches("(?s)"+want, err.Error()) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}
