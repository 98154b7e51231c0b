//go:build lab

package lab

import (
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/feed"
	"github.com/509da70d/floodgate/schemas"
)

// modulesOfNginx are where Debian has them.
const modulesOfNginx = "/usr/lib/nginx/modules/"

// boardFeed is a feed of a board on a Unix socket, as a sidecar has one. It can go away and come back.
type boardFeed struct {
	t      testing.TB
	board  *board.Board
	path   string
	server *httptest.Server
	feed   *feed.Server
}

func newBoardFeed(t testing.TB) *boardFeed {
	t.Helper()
	f := &boardFeed{t: t, path: filepath.Join(t.TempDir(), "feed.sock")}
	f.restart()
	t.Cleanup(f.stop)
	return f
}

// restart begins a new process's feed: with an empty board, and cursors of its own.
func (f *boardFeed) restart() {
	f.t.Helper()
	f.board = board.New(board.Options{FirstChange: uint64(time.Now().UnixNano())})
	f.board.Resize(1)
	f.board.Loaded(0)
	f.begin()
}

// begin serves the board that is there.
func (f *boardFeed) begin() {
	f.t.Helper()
	l, err := net.Listen("unix", f.path)
	if err != nil {
		f.t.Fatal(err)
	}
	f.feed = feed.New(feed.Options{Board: f.board})
	f.server = httptest.NewUnstartedServer(f.feed)
	f.server.Listener.Close()
	f.server.Listener = l
	f.server.Start()
}

func (f *boardFeed) stop() {
	f.feed.Close()
	f.server.CloseClientConnections()
	f.server.Close()
}

// closes closes a caller under a rule for a time.
func (f *boardFeed) closes(rule, caller string, length time.Duration) {
	f.decides(rule, caller, length, schemas.ModeEnforce)
}

func (f *boardFeed) decides(rule, caller string, length time.Duration, mode schemas.Mode) {
	f.t.Helper()
	c, err := schemas.ParseCaller(caller)
	if err != nil {
		f.t.Fatal(err)
	}
	now := time.Now()
	f.board.Apply([]schemas.Decision{{
		Rule: rule, Caller: c, Mode: mode, CloseAt: now.UnixNano(), Until: now.Add(length).UnixNano(),
		Evidence: schemas.Evidence{Limit: 10, Window: time.Hour.Nanoseconds()},
	}}, now)
}

func (f *boardFeed) opens(rule, caller string) { f.decides(rule, caller, 0, schemas.ModeEnforce) }

// luaNginx is nginx with the gate inside, as deploy/nginx has it.
type luaNginx struct {
	t        testing.TB
	dir, url string
	log      string
	pid      int // of the master
}

// withLua runs nginx with deploy/nginx/floodgate-lua.conf, before a backend and behind a feed. replace has more to replace in the file.
func withLua(t testing.TB, feed, backend string, workers int, replace ...string) *luaNginx {
	t.Helper()
	port, log := freePort(t), filepath.Join(t.TempDir(), "access.log")
	n := nginxWithLua(t, port, workers, configured(t, "nginx/floodgate-lua.conf", append([]string{
		"unix:/run/floodgate/feed.sock\",", feed + "\",", "127.0.0.1:3000", backend, "listen 8080", "listen 127.0.0.1:" + port,
		"lua_package_path", "# lua_package_path", "/var/log/nginx/access.log", log,
	}, replace...)...))
	n.log = log
	return n
}

// nginxWithLua runs nginx, whose http block has this text, and finds floodgate.lua.
func nginxWithLua(t testing.TB, port string, workers int, text string) *luaNginx {
	t.Helper()
	testenv.Program(t, "nginx")
	if _, err := os.Stat(modulesOfNginx + "ngx_http_lua_module.so"); err != nil {
		t.Fatalf("%v: want libnginx-mod-http-lua and lua-cjson", err)
	}
	n := &luaNginx{t: t, dir: t.TempDir()}
	folder, err := filepath.Abs("../../../deploy/nginx")
	if err != nil {
		t.Fatal(err)
	}
	temporary := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temporary += kind + "_temp_path " + n.dir + ";\n"
	}
	main := writeIn(t, n.dir, "nginx.conf", "load_module "+modulesOfNginx+"ndk_http_module.so;\nload_module "+modulesOfNginx+"ngx_http_lua_module.so;\n"+
		"env FAKETIME_TIMESTAMP_FILE;\nenv FAKETIME_NO_CACHE;\nenv DONT_FAKE_MONOTONIC;\ndaemon off;\nuser root;\nworker_processes "+strconv.Itoa(workers)+";\npid "+n.dir+"/pid;\nerror_log stderr;\nevents {}\nhttp {\n"+temporary+
		"large_client_header_buffers 4 1m;\nlua_package_path \""+folder+"/?.lua;;\";\n"+text+"\n}\n")
	n.url = begun(t, "http://127.0.0.1:"+port+"/", "nginx", "-p", n.dir, "-c", main)
	pid, err := os.ReadFile(filepath.Join(n.dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	if n.pid, err = strconv.Atoi(strings.TrimSpace(string(pid))); err != nil {
		t.Fatal(err)
	}
	return n
}

// status asks from an address.
func (n *luaNginx) status(t *testing.T, addr string) int {
	t.Helper()
	status, _ := processtest.GetFrom(t, addr, "", n.url)
	return status
}

// becomes waits until an address gets this status.
func (n *luaNginx) becomes(t *testing.T, what, addr string, want int) {
	t.Helper()
	processtest.Eventually(t, 10*time.Second, what, func() bool { return n.status(t, addr) == want })
}
