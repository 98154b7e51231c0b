//go:build lab

package lab

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// serversOfOthers are servers with a gate inside, which follows a feed on a Unix socket. Its caller is a key in X-Api-Key.
func serversOfOthers() []struct {
	name, program string
	begin         func(t testing.TB, socket string) (url string)
} {
	return []struct {
		name, program string
		begin         func(t testing.TB, socket string) (url string)
	}{
		{"Python", "python3", beginPython},
		{"Node", "node", beginNode},
		{"Traefik", "traefik", beginTraefikWithPlugin},
	}
}

// beginPython runs a server of Python's own with the middleware for WSGI.
func beginPython(t testing.TB, socket string) string {
	t.Helper()
	port := freePort(t)
	return begun(t, "http://127.0.0.1:"+port+"/", "python3", "-B", "-c", `
import sys, wsgiref.simple_server
sys.path.insert(0, sys.argv[1])
import floodgate, floodgate_web
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"served"]
def callers(environ):
    key = floodgate_web.identifier(floodgate_web.header(environ, "X-Api-Key"))
    return [("ip", floodgate_web.address(floodgate_web.peer(environ))), ("key", key)]
app = floodgate_web.WSGI(app, floodgate.Gate("unix:" + sys.argv[2]), callers)
wsgiref.simple_server.make_server("127.0.0.1", int(sys.argv[3]), app).serve_forever()
`, inDeploy(t, "clients/python"), socket, port)
}

// beginNode runs a server of Node's own with the middleware for Express.
func beginNode(t testing.TB, socket string) string {
	t.Helper()
	port := freePort(t)
	return begun(t, "http://127.0.0.1:"+port+"/", "node", "-e", `
const [directory, socket, port] = process.argv.slice(1);
const { Gate } = require(directory + '/floodgate.js');
const web = require(directory + '/floodgate-web.js');
const callers = (request) => [['ip', web.address(request.socket.remoteAddress)], ['key', web.identifier(request.headers['x-api-key'])]];
const gate = web.middleware(new Gate('unix:' + socket).start(), callers);
require('http').createServer((request, response) => gate(request, response, () => response.end('served'))).listen(port, '127.0.0.1');
`, inDeploy(t, "clients/node"), socket, port)
}

// beginTraefikWithPlugin runs Traefik with the plugin, as deploy/traefik has it, and a router to protect.
func beginTraefikWithPlugin(t testing.TB, socket string) string {
	t.Helper()
	backend := processtest.NewBackend(t).Listener.Addr().String()
	url, _ := traefikWithPlugin(t, socket, "http:\n  routers:\n    backend: {rule: \"PathPrefix(`/`)\", middlewares: [floodgate], service: backend}\n"+
		"  services:\n    backend: {loadBalancer: {servers: [{url: \"http://"+backend+"\"}]}}\n")
	return url
}

// traefikWithPlugin runs Traefik with the plugin and a file of routers.
func traefikWithPlugin(t testing.TB, socket, routers string) (url, file string) {
	t.Helper()
	dir, port := t.TempDir(), freePort(t)
	routes := filepath.Join(dir, "routes")
	local := filepath.Join(dir, "plugins-local/src/github.com/509da70d/floodgate/deploy/traefik")
	for _, d := range []string{routes, local} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(inDeploy(t, "traefik/plugin"), filepath.Join(local, "plugin")); err != nil {
		t.Fatal(err)
	}
	writeIn(t, routes, "floodgate.yaml", configured(t, "traefik/floodgate-plugin.yaml", "/run/floodgate/feed.sock", socket))
	file = writeIn(t, routes, "routers.yaml", routers)
	main := writeIn(t, dir, "traefik.yaml", configured(t, "traefik/traefik-plugin.yaml", `":8080"`, "127.0.0.1:"+port,
		"/var/log/traefik/access.log", filepath.Join(dir, "access.log"), "/etc/traefik/routes", routes))
	runForeignIn(t, dir, "traefik", "--configFile="+main)
	return serves(t, "http://127.0.0.1:"+port+"/", "traefik"), file
}

// inDeploy returns the absolute path of a file of deploy/.
func inDeploy(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../../deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// gatesInside are the servers of one test, by name: their URLs.
type gatesInside struct {
	t    *testing.T
	urls map[string]string
}

// ask asks a server about a key.
func (g *gatesInside) ask(name, key string) (int, http.Header) {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, g.urls[name], http.NoBody)
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		g.t.Fatalf("%s: %v", name, err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusTooManyRequests {
		g.t.Fatalf("%s: got %d, want 200 or 429", name, resp.StatusCode)
	}
	return resp.StatusCode, resp.Header
}

// await waits until each server answers this status about a key, and returns how long the last one took. Meanwhile they refuse another key,
// unless it is empty.
func (g *gatesInside) await(what, key string, want int, refused string) time.Duration {
	g.t.Helper()
	began := time.Now()
	for name := range g.urls {
		processtest.Eventually(g.t, 20*time.Second, name+": "+what, func() bool {
			if refused != "" {
				g.answer(what, refused, http.StatusTooManyRequests)
			}
			status, _ := g.ask(name, key)
			return status == want
		})
	}
	return time.Since(began)
}

// answer fails if a server answers another status about a key.
func (g *gatesInside) answer(what, key string, want int) {
	g.t.Helper()
	for name := range g.urls {
		if status, _ := g.ask(name, key); status != want {
			g.t.Errorf("%s: %s: key %s: got %d, want %d", name, what, key, status, want)
		}
	}
}

// TestGatesInsideOtherServers: a gate in another language closes and opens as the analyzer decides. While the sidecar is away its server
// serves; what is closed stays so until it ends, and then opens. Once the sidecar is back all is as decided, and meanwhile nobody opens.
func TestGatesInsideOtherServers(t *testing.T) {
	t.Parallel()
	for _, s := range serversOfOthers() {
		testenv.Program(t, s.program)
	}
	d := newDesk(t, 1, "{name: brief, callers: key, limit: 3, window: 1s, close_for: 6s}\n  - {name: per-key, callers: key, limit: 5, window: 1h}")
	a := d.analyze("counts")
	d.awaitRunning(a, 1, 1)
	socket := filepath.Join(t.TempDir(), "feed.sock")
	sidecar := func() *processtest.Program {
		p := start(t, "sidecar", "--brokers", d.broker, "--listen", "127.0.0.1:0", "--feed-listen", "unix:"+socket)
		processtest.AwaitReady(t, "http://"+p.WaitFor(`msg=listening address=(\S+)`, time.Minute), http.StatusOK, "")
		return p
	}
	first := sidecar()
	g := &gatesInside{t, map[string]string{}}
	for _, s := range serversOfOthers() {
		g.urls[s.name] = s.begin(t, socket)
	}

	d.send("abc", 5)
	g.await("closed", "abc", http.StatusTooManyRequests, "")
	for name := range g.urls {
		_, header := g.ask(name, "abc")
		if header.Get("Retry-After") == "" || !strings.HasPrefix(header.Get("RateLimit"), `"per-key";r=0;t=`) || header.Get("RateLimit-Policy") != `"per-key";q=5;w=3600` {
			t.Errorf("%s: got %v, want Retry-After, RateLimit and RateLimit-Policy", name, header)
		}
	}
	g.answer("nobody has closed it", "other", http.StatusOK)
	d.act(a, "open", "key:abc", "--for", "1h")
	g.await("opened", "abc", http.StatusOK, "")

	d.send("long", 5)
	d.send("brief", 3)
	g.await("closed", "long", http.StatusTooManyRequests, "")
	g.await("closed", "brief", http.StatusTooManyRequests, "")
	first.Kill()
	ends := time.Now()
	for name := range g.urls {
		_, header := g.ask(name, "brief")
		seconds, err := strconv.Atoi(header.Get("Retry-After"))
		if err != nil {
			t.Fatalf("%s: got %v, want Retry-After", name, header)
		}
		ends = time.Now().Add(time.Duration(seconds-1) * time.Second) // at the earliest
	}
	d.send("later", 5)
	for time.Until(ends) > 100*time.Millisecond {
		g.answer("the sidecar is away", "brief", http.StatusTooManyRequests)
	}
	g.await("the closure ends while the sidecar is away", "brief", http.StatusOK, "long")
	g.answer("decided while the sidecar is away", "later", http.StatusOK)

	sidecar()
	took := g.await("the sidecar is back", "later", http.StatusTooManyRequests, "long")
	t.Logf("as decided %v after the sidecar is ready", took)
	if took > 3*time.Second { // a gate connects again each second
		t.Errorf("got %v until all is as decided, want a second or so", took)
	}
	g.answer("opened before", "abc", http.StatusOK)
	g.answer("ended before", "brief", http.StatusOK)
}

// TestAPluginOutlivesTheRouters: Traefik makes the middleware anew when its configuration changes. It keeps its connection to the feed and its
// memory: the new router refuses who is closed from its first request on.
func TestAPluginOutlivesTheRouters(t *testing.T) {
	t.Parallel()
	testenv.Program(t, "traefik")
	f := newBoardFeed(t)
	f.closes("per-ip", "ip:127.0.0.2", time.Hour)
	backend := processtest.NewBackend(t).Listener.Addr().String()
	routers := func(path string) string {
		return "http:\n  routers:\n    backend: {rule: \"PathPrefix(`" + path + "`)\", middlewares: [floodgate], service: backend}\n" +
			"  services:\n    backend: {loadBalancer: {servers: [{url: \"http://" + backend + "\"}]}}\n"
	}
	url, file := traefikWithPlugin(t, f.path, routers("/"))
	status := func(addr, path string) int {
		status, _ := processtest.GetFrom(t, addr, "", url+path)
		return status
	}
	processtest.Eventually(t, 20*time.Second, "closed", func() bool { return status("127.0.0.2", "") == http.StatusTooManyRequests })
	processtest.WriteFile(t, file, routers("/two"))
	processtest.Eventually(t, 20*time.Second, "the new router in force", func() bool { return status("127.0.0.3", "") == http.StatusNotFound })
	if closed, open := status("127.0.0.2", "two"), status("127.0.0.3", "two"); closed != http.StatusTooManyRequests || open != http.StatusOK {
		t.Errorf("got %d for who is closed and %d for another, want 429 and 200", closed, open)
	}
	if n := f.feed.Stats().Readers; n != 1 {
		t.Errorf("got %d readers of the feed, want 1", n)
	}
}
