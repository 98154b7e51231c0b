//go:build lab

package lab

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// question is where a server asks and what it stands before.
type question struct {
	sidecar string // host:port of /auth and /auth_request
	envoy   string // host:port of the gRPC services
	backend string // host:port

	patience string // how long the server waits for the sidecar, where it is not as shipped
}

// shipped is a server with its configuration in deploy/.
type shipped struct {
	name, program string
	begin         func(*testing.T, question) (url string)
}

func shippedServers() []shipped {
	return []shipped{
		{"nginx", "nginx", beginNginx},
		{"Caddy", "caddy", beginCaddy},
		{"Traefik", "traefik", beginTraefik},
		{"Envoy", "envoy", beginEnvoy},
	}
}

// asks is what a server needs to know of a sidecar and its backend.
func asks(b *processtest.Sidecar) question {
	return question{sidecar: strings.TrimPrefix(b.URL, "http://"), envoy: b.Envoy, backend: b.Backend.Listener.Addr().String()}
}

// TestServersAskTheSidecar: behind each shipped configuration the noisy client is refused, whatever address it claims, and
// the quiet one is not.
func TestServersAskTheSidecar(t *testing.T) {
	for _, s := range shippedServers() {
		t.Run(s.name, func(t *testing.T) {
			testenv.Program(t, s.program)
			b := processtest.NewSidecar(t, start, "--record", "--trusted", "127.0.0.1/32") // clients are 127.0.0.2 and 127.0.0.3
			url := s.begin(t, asks(b))
			b.FloodsThrough(url, "203.0.113.1", "203.0.113.1")
		})
	}
}

// TestNginxLogsTheRefusal reads the log that ingest reads.
func TestNginxLogsTheRefusal(t *testing.T) {
	testenv.Program(t, "nginx")
	b := processtest.NewSidecar(t, start, "--record", "--trusted", "127.0.0.1/32") // clients are 127.0.0.2 and 127.0.0.3
	log := filepath.Join(t.TempDir(), "access.log")
	url := beginNginxLogging(t, asks(b), log)
	b.FloodsThrough(url, "203.0.113.1", "203.0.113.1")
	text, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(text), `"remote_addr":"127.0.0.2"`) || !strings.Contains(string(text), `"status":"429"`) {
		t.Errorf("got %v and log\n%s\nwant the refusal in it", err, text)
	}
}

// beginNginx is beginNginxLogging for those who don't read the log.
func beginNginx(t *testing.T, q question) string {
	t.Helper()
	return beginNginxLogging(t, q, filepath.Join(t.TempDir(), "access.log"))
}

// beginNginxLogging runs nginx with deploy/nginx.
func beginNginxLogging(t *testing.T, q question, accessLog string) string {
	t.Helper()
	port := freePort(t)
	return nginxWith(t, port, configured(t, "nginx/floodgate.conf",
		"127.0.0.1:9091", q.sidecar, "127.0.0.1:3000", q.backend, "listen 8080", "listen 127.0.0.1:"+port,
		"access_log /var/log/nginx/access.log floodgate;", "access_log "+accessLog+" floodgate;", "50ms", cmp.Or(q.patience, "50ms")))
}

// beginNginxByAFile runs nginx with a server that includes the file that serve's packages have.
func beginNginxByAFile(t *testing.T, q question) string {
	t.Helper()
	port := freePort(t)
	file := writeIn(t, t.TempDir(), "floodgate.conf", configured(t, "../cmd/floodgate/daemon/nginx.conf", "127.0.0.1:9091", q.sidecar))
	return nginxWith(t, port, "access_log off;\nserver {\nlisten 127.0.0.1:"+port+";\ninclude "+file+";\nlocation / { proxy_pass http://"+q.backend+"; }\n}\n")
}

// nginxWith runs nginx, whose http block has this text. It takes a header of up to 1 MiB, as the other servers do.
func nginxWith(t *testing.T, port, text string) string {
	t.Helper()
	dir := t.TempDir()
	site := writeIn(t, dir, "site.conf", text)
	main := writeIn(t, dir, "nginx.conf", "daemon off;\nworker_processes 1;\npid "+dir+"/pid;\nerror_log stderr;\nevents {}\nhttp {\n"+
		"client_body_temp_path "+dir+";\nproxy_temp_path "+dir+";\nfastcgi_temp_path "+dir+";\nuwsgi_temp_path "+dir+";\nscgi_temp_path "+dir+";\n"+
		"large_client_header_buffers 4 1m;\ninclude "+site+";\n}\n")
	return begun(t, "http://127.0.0.1:"+port+"/", "nginx", "-p", dir, "-c", main)
}

// beginCaddy runs Caddy with deploy/caddy.
func beginCaddy(t *testing.T, q question) string {
	t.Helper()
	port := freePort(t)
	file := writeIn(t, t.TempDir(), "Caddyfile", "{\n\tadmin off\n\tauto_https off\n}\n"+configured(t, "caddy/Caddyfile",
		":8080 {", ":"+port+" {\n\tbind 127.0.0.1", "127.0.0.1:9091", q.sidecar, ":9099", ":"+freePort(t), "127.0.0.1:3000", q.backend,
		"50ms", cmp.Or(q.patience, "50ms")))
	return begun(t, "http://127.0.0.1:"+port+"/", "caddy", "run", "--adapter", "caddyfile", "--config", file)
}

// beginTraefik runs Traefik with both files of deploy/traefik, and a router to protect.
func beginTraefik(t *testing.T, q question) string {
	t.Helper()
	dir, port, inner := t.TempDir(), freePort(t), testenv.FreeAddress(t)
	routes := filepath.Join(dir, "routes")
	if err := os.Mkdir(routes, 0o700); err != nil {
		t.Fatal(err)
	}
	writeIn(t, routes, "floodgate.yaml", configured(t, "traefik/floodgate.yaml", "127.0.0.1:9091", q.sidecar, "127.0.0.1:9099", inner,
		"50ms", cmp.Or(q.patience, "50ms")))
	writeIn(t, routes, "backend.yaml", "http:\n  routers:\n    backend: {rule: \"PathPrefix(`/`)\", middlewares: [floodgate], service: backend}\n"+
		"  services:\n    backend: {loadBalancer: {servers: [{url: \"http://"+q.backend+"\"}]}}\n")
	file := writeIn(t, dir, "traefik.yaml", configured(t, "traefik/traefik.yaml", `":8080"`, "127.0.0.1:"+port, "127.0.0.1:9099", inner,
		"/etc/traefik/routes", routes))
	return begun(t, "http://127.0.0.1:"+port+"/", "traefik", "--configFile="+file)
}

// beginEnvoy runs Envoy with deploy/envoy.
func beginEnvoy(t *testing.T, q question) string {
	t.Helper()
	url, args := envoyWith(t, "envoy/envoy.yaml", q, "0.05s", cmp.Or(q.patience, "0.05s"))
	return begun(t, url, "envoy", args...)
}

// envoyWith returns where Envoy serves with a file of deploy/, and its arguments. It takes a header of up to 1 MiB, as the other servers do.
func envoyWith(t testing.TB, path string, q question, replace ...string) (url string, args []string) {
	t.Helper()
	port := freePort(t)
	_, sidecar, _ := net.SplitHostPort(q.envoy)
	_, backend, _ := net.SplitHostPort(q.backend)
	file := writeIn(t, t.TempDir(), "envoy.yaml", configured(t, path, append([]string{"0.0.0.0", "127.0.0.1",
		"port_value: 8080", "port_value: " + port, "port_value: 9094", "port_value: " + sidecar, "port_value: 3000", "port_value: " + backend,
		"stat_prefix: public", "stat_prefix: public\n                max_request_headers_kb: 1024"}, replace...)...))
	return "http://127.0.0.1:" + port + "/", []string{"-c", file, "--use-dynamic-base-id", "--concurrency", "1", "-l", "warning"}
}

// begun runs a server and waits until it serves.
func begun(t *testing.T, url, program string, args ...string) string {
	t.Helper()
	runForeign(t, program, args...)
	processtest.Eventually(t, 60*time.Second, program+" serves", func() bool {
		_, status := processtest.Get(context.Background(), url)
		return status == http.StatusOK
	})
	return url
}

func writeIn(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// freePort returns a port on which nobody listens, for programs that take no 0.
func freePort(t testing.TB) string {
	t.Helper()
	_, port, _ := net.SplitHostPort(testenv.FreeAddress(t))
	return port
}

// configured returns a file of deploy/ with its addresses and paths replaced, by turns.
func configured(t testing.TB, path string, replace ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../deploy", path))
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

// runForeign runs a program of another maker, which is killed when the test ends.
func runForeign(t testing.TB, name string, args ...string) *os.Process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testenv.Program(t, name), args...)
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
	return cmd.Process
}
