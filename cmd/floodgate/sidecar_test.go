package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
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
		{"a directory in the way", []string{"--brokers", "k:9092", "--record", "--shadow", "sidecar"}, "want flags only"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := parseSidecar(inside(new(strings.Builder), nil), test.args)
			switch {
			case test.err == "" && err != nil:
				t.Errorf("got %v, want none", err)
			case test.err != "" && (!isUsage(err) || !strings.Contains(err.Error(), test.err)):
				t.Errorf("got %v, want a usage error with %q", err, test.err)
			}
		})
	}
}

func TestAUnixSocketThatADeadProcessLeftIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := listenOn("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listenOn("unix:" + path); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("beside a living one: got %v, want it to say so", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // it is one
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := listenOn("unix:" + path)
	if err != nil {
		t.Fatalf("after it: got %v, want to take its place", err)
	}
	_ = again.Close()
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenOn("unix:" + file); err == nil {
		t.Error("over a file: got a listener, want an error")
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("got %q and %v, want the file as it was", b, err)
	}
}

// beside is a sidecar and its analyzer, which closes addresses at the tenth request, and a server behind a proxy.
type beside struct {
	*daemon

	sidecar *program
	url     string // of the sidecar
	envoy   string // its gRPC address
	backend *httptest.Server
}

func newBeside(t *testing.T, args ...string) *beside {
	t.Helper()
	b := &beside{daemon: newDaemon(t)}
	b.writeRules("version: 1\nrules:\n  - {name: per-ip, callers: ip, limit: 10, window: 1h}\n")
	b.start()
	b.sidecar = start(t, append([]string{"sidecar", "--brokers", b.broker, "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"}, args...)...)
	b.url = "http://" + b.sidecar.waitFor(`msg=listening address=(\S+)`, 10*time.Second)
	b.envoy = b.sidecar.waitFor(`msg="listening for Envoy" address=(\S+)`, 10*time.Second)
	eventually(t, 20*time.Second, "the sidecar is ready", func() bool {
		_, status := get(t.Context(), b.url+"/readyz")
		return status == 200
	})
	b.backend = newBackend(t)
	return b
}

// newBackend returns a server for proxies to stand before.
func newBackend(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("served")) }))
	t.Cleanup(s.Close)
	return s
}

// from asks a URL from a loopback address of one's own, so that a proxy sees several clients, and claims another.
func from(t *testing.T, addr, claim, url string) *http.Response {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}).DialContext,
	}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Forwarded-For", claim)
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp
}

// floodsThrough sends requests through a proxy from one address until it is refused, and sees that another is not.
func (b *beside) floodsThrough(url, noisyClaim, quietClaim string) {
	b.t.Helper()
	admitted := 0
	eventually(b.t, 20*time.Second, "the noisy client refused", func() bool {
		resp := from(b.t, "127.0.0.2", noisyClaim, url)
		switch resp.StatusCode {
		case http.StatusOK:
			admitted++
			return false
		case http.StatusTooManyRequests:
			if resp.Header.Get("Retry-After") == "" || !strings.Contains(resp.Header.Get("RateLimit"), "per-ip") {
				b.t.Errorf("got %v, want Retry-After and RateLimit", resp.Header)
			}
			return true
		}
		b.t.Fatalf("got %s, want 200 or 429", resp.Status)
		return false
	})
	if admitted < 10 {
		b.t.Errorf("got %d admitted, want 10 at least", admitted)
	}
	for range 9 {
		if resp := from(b.t, "127.0.0.3", quietClaim, url); resp.StatusCode != http.StatusOK {
			b.t.Fatalf("the quiet client: got %s, want 200", resp.Status)
		}
	}
}

func TestSidecarAnswersWithoutAProxyToo(t *testing.T) {
	b := newBeside(t, "--record")
	b.floodsThrough(b.url+"/auth", "203.0.113.1", "203.0.113.2")
	conn, err := grpc.NewClient(b.envoy, grpc.WithTransportCredentials(insecure.NewCredentials()))
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
	metrics, _ := get(t.Context(), b.url+"/metrics")
	if metricSum(metrics, "floodgate_sidecar_refused_total") < 2 || metricSum(metrics, "floodgate_gate_closed_callers") < 1 {
		t.Errorf("got metrics\n%s\nwant 2 refused and a closed gate", metrics)
	}
	if code := b.sidecar.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0", code)
	}
}

// A sidecar starts and lets pass whether Kafka is there or not, and says that it is not ready.
func TestSidecarWithoutKafkaLetsPass(t *testing.T) {
	p := start(t, "sidecar", "--brokers", "127.0.0.1:1", "--listen", "127.0.0.1:0")
	url := "http://" + p.waitFor(`msg=listening address=(\S+)`, 10*time.Second)
	for path, want := range map[string]int{"/auth": 200, "/auth_request": 200, "/healthz": 200, "/readyz": 503, "/": 404} {
		if text, status := get(t.Context(), url+path); status != want {
			t.Errorf("%s: got %d, %s, want %d", path, status, text, want)
		}
	}
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0", code)
	}
}

// freePort returns a port on which nobody listens, for programs that take no 0.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// configured returns a file of deploy/ with its addresses and paths replaced, by turns.
func configured(t *testing.T, path string, replace ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deploy", path))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(text), replace[i]) {
			t.Fatalf("%s: got no %q to replace", path, replace[i])
		}
	}
	return strings.NewReplacer(replace...).Replace(string(text))
}

// program of another maker, which is killed when the test ends.
func runForeign(t *testing.T, name string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("needs %s: %v", name, err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Wait() // it was told to end
		if t.Failed() {
			t.Logf("%s said: %s", name, out.String())
		}
	})
}

// nginxBefore runs nginx with the configuration of deploy/nginx and returns its URL. The log is a file.
func (b *beside) nginxBefore(accessLog string) string {
	b.t.Helper()
	dir, port := b.t.TempDir(), freePort(b.t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.t.Fatal(err)
		}
		return path
	}
	site := write("floodgate.conf", configured(b.t, "nginx/floodgate.conf",
		"127.0.0.1:9091", strings.TrimPrefix(b.url, "http://"), "127.0.0.1:3000", b.backend.Listener.Addr().String(),
		"listen 8080", "listen 127.0.0.1:"+port, "syslog:server=unix:/dev/log,facility=local7,tag=nginx,nohostname", accessLog))
	main := write("nginx.conf", "daemon off;\nworker_processes 1;\npid "+dir+"/pid;\nerror_log stderr;\nevents {}\nhttp {\n"+
		"client_body_temp_path "+dir+";\nproxy_temp_path "+dir+";\nfastcgi_temp_path "+dir+";\nuwsgi_temp_path "+dir+";\nscgi_temp_path "+dir+";\n"+
		"include "+site+";\n}\n")
	runForeign(b.t, "nginx", "-p", dir, "-c", main)
	url := "http://127.0.0.1:" + port + "/"
	eventually(b.t, 10*time.Second, "nginx serves", func() bool { _, status := get(context.Background(), url); return status != 0 })
	return url
}

func needs(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("needs %s: %v", name, err)
	}
}

func TestNginxAsksTheSidecar(t *testing.T) {
	needs(t, "nginx")
	b := newBeside(t, "--record")
	log := filepath.Join(t.TempDir(), "access.log")
	url := b.nginxBefore(log)
	b.floodsThrough(url, "203.0.113.1", "203.0.113.1")
	if code := b.sidecar.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0", code)
	}
	if resp := from(t, "127.0.0.2", "", url); resp.StatusCode != http.StatusOK {
		t.Errorf("without a sidecar: got %s, want 200", resp.Status)
	}
	text, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(text), `"remote_addr":"127.0.0.2"`) || !strings.Contains(string(text), `"status":"429"`) {
		t.Errorf("got %v and log\n%s\nwant the refusal in it", err, text)
	}
}

func TestCaddyAsksTheSidecar(t *testing.T) {
	needs(t, "caddy")
	b := newBeside(t, "--record")
	port := freePort(t)
	file := filepath.Join(t.TempDir(), "Caddyfile")
	text := "{\n\tadmin off\n\tauto_https off\n}\n" + configured(t, "caddy/Caddyfile",
		":8080 {", "http://127.0.0.1:"+port+" {", "127.0.0.1:9091", strings.TrimPrefix(b.url, "http://"), "127.0.0.1:3000", b.backend.Listener.Addr().String())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	runForeign(t, "caddy", "run", "--adapter", "caddyfile", "--config", file)
	url := "http://127.0.0.1:" + port + "/"
	eventually(t, 10*time.Second, "Caddy serves", func() bool { _, status := get(t.Context(), url); return status != 0 })
	b.floodsThrough(url, "203.0.113.1", "203.0.113.1")
}
