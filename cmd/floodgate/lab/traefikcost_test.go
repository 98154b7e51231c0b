//go:build lab

package lab

import (
	"net"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/feed"
	"github.com/509da70d/floodgate/schemas"
)

// BenchmarkTraefik measures requests through Traefik, by turns: without a gate; with the plugin, by address and by key and both as well,
// while 10,000 others are closed; and with forward auth. It reports medians, as a part of those without a gate.
//
//	FLOODGATE_PROGRAMS=1 go test -tags lab ./cmd/floodgate/lab -run '^$' -bench Traefik -benchtime 25x
func BenchmarkTraefik(b *testing.B) {
	testenv.Program(b, "h2load")
	_, socket := feedOfThousands(b, 10_000)
	port := freePort(b)
	nginxWith(b, port, "access_log off;\nkeepalive_requests 1000000000;\nserver { listen 127.0.0.1:"+port+"; location / { return 200 served; } }\n")
	plugin, _ := traefikWithPlugin(b, socket, `http:
  middlewares:
    address: {plugin: {floodgate: {feed: "unix:`+socket+`"}}}
    callers: {plugin: {floodgate: {feed: "unix:`+socket+`", callers: [key=X-Api-Key, key_ip=X-Api-Key+ip]}}}
  routers:
    none: {rule: "PathPrefix(`+"`/`"+`)", service: backend}
    address: {rule: "PathPrefix(`+"`/address`"+`)", middlewares: [address], service: backend}
    callers: {rule: "PathPrefix(`+"`/callers`"+`)", middlewares: [callers], service: backend}
  services:
    backend: {loadBalancer: {servers: [{url: "http://127.0.0.1:`+port+`"}]}}
`)
	processtest.Eventually(b, 20*time.Second, "the plugin knows who is closed", func() bool {
		status, _ := processtest.GetFrom(b, "127.0.0.2", "", plugin+"address")
		return status == 429
	})
	sidecar := start(b, "sidecar", "--brokers", "127.0.0.1:1", "--listen", "127.0.0.1:0").WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
	q := question{sidecar: sidecar, backend: "127.0.0.1:" + port}
	urls := map[string]string{"none": plugin, "address": plugin + "address", "three-callers": plugin + "callers", "forward-auth": beginTraefik(b, q)}
	got := map[string][]float64{}
	for b.Loop() {
		for name, url := range urls { // in random order
			got[name] = append(got[name], h2load(b, "-n", "2000", "-H", "X-Api-Key: abc", url).rate)
		}
	}
	b.ReportMetric(0, "ns/op")
	for name, list := range got {
		b.ReportMetric(medianRatio(list, got["none"]), name+"/none")
	}
}

// feedOfThousands serves a feed of so many closed addresses, and 127.0.0.2, on a Unix socket.
func feedOfThousands(t testing.TB, n int) (f *feed.Server, socket string) {
	t.Helper()
	b, now := board.New(board.Options{FirstChange: 1}), time.Now()
	b.Resize(1)
	list := make([]schemas.Decision, n+1)
	for i := range list {
		id := "10.0." + strconv.Itoa(i>>8) + "." + strconv.Itoa(i&255)
		if i == n {
			id = "127.0.0.2"
		}
		list[i] = schemas.Decision{
			Rule: "per-ip", Caller: schemas.Caller{Kind: "ip", ID: id}, Mode: schemas.ModeEnforce, CloseAt: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(),
		}
	}
	b.Apply(list, now)
	b.Loaded(0)
	socket = filepath.Join(t.TempDir(), "feed.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	f = feed.New(feed.Options{Board: b})
	server := httptest.NewUnstartedServer(f)
	_ = server.Listener.Close() // it is replaced
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(f.Close)
	return f, socket
}
