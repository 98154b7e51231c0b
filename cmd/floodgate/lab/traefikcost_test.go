//go:build lab

package lab

import (
	"flag"
	"net"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/feed"
	"github.com/509da70d/floodgate/schemas"
)

var traefikRounds = flag.Int("traefik.rounds", 1, "rounds of TestWhatAGateInTraefikCosts")

// TestWhatAGateInTraefikCosts measures requests through Traefik for a second each, by turns: without a gate; with the plugin, by address
// and by key and both as well, while 10,000 others are closed; and with forward auth. The figures come from
//
//	FLOODGATE_PROGRAMS=1 go test -tags lab ./cmd/floodgate/lab -run TestWhatAGateInTraefikCosts -v -count 1 -traefik.rounds 31
func TestWhatAGateInTraefikCosts(t *testing.T) {
	testenv.Program(t, "wrk")
	_, socket := feedOfThousands(t, 10_000)
	port := freePort(t)
	nginxWith(t, port, "access_log off;\nkeepalive_requests 1000000000;\nserver { listen 127.0.0.1:"+port+"; location / { return 200 served; } }\n")
	plugin, _ := traefikWithPlugin(t, socket, `http:
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
	processtest.Eventually(t, 20*time.Second, "the plugin knows who is closed", func() bool {
		status, _ := processtest.GetFrom(t, "127.0.0.2", "", plugin+"address")
		return status == 429
	})
	q := asks(processtest.NewSidecar(t, start))
	q.backend = "127.0.0.1:" + port
	urls := map[string]string{"none": plugin, "plugin, by address": plugin + "address", "plugin, three callers": plugin + "callers", "forward auth": beginTraefik(t, q)}
	got := map[string][]float64{}
	for range *traefikRounds {
		for name, url := range urls { // in random order
			got[name] = append(got[name], perSecond(t, url))
		}
	}
	none := median(got["none"])
	for name, list := range got {
		t.Logf("%s: %.0f requests/s, %.3f of none", name, median(list), median(list)/none)
	}
}

// feedOfThousands serves a feed of so many closed addresses, and 127.0.0.2, on a Unix socket.
func feedOfThousands(t *testing.T, n int) (f *feed.Server, socket string) {
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

// perSecond returns how many requests a second wrk gets answered.
func perSecond(t *testing.T, url string) float64 {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "wrk", "-t1", "-c16", "-d1s", "-H", "X-Api-Key: abc", url).CombinedOutput()
	rate := regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`).FindSubmatch(out)
	if err != nil || rate == nil || regexp.MustCompile(`Non-2xx|Socket errors`).Match(out) {
		t.Fatalf("wrk %s: %v\n%s", url, err, out)
	}
	n, _ := strconv.ParseFloat(string(rate[1]), 64)
	return n
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}
