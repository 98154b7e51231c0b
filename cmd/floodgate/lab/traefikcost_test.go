//go:build lab

package lab

import (
	"fmt"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// BenchmarkTraefik measures requests through Traefik, by turns: without a gate; with the plugin, by address and by key and both as well,
// while 10,000 others are closed; and with forward auth. It reports medians, as a part of those without a gate.
//
//	FLOODGATE_PROGRAMS=1 go test -tags lab ./cmd/floodgate/lab -run '^$' -bench Traefik -benchtime 25x
func BenchmarkTraefik(b *testing.B) {
	testenv.Program(b, "h2load")
	f := newBoardFeed(b)
	socket := f.path
	f.closes("per-ip", "ip:127.0.0.2", time.Hour)
	for i := range 10_000 {
		f.closes("per-ip", fmt.Sprintf("ip:10.0.%d.%d", i>>8, i&255), time.Hour)
	}
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
