//go:build lab

package lab

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// verdicts is testdata/verdicts.json: what an owner decides, and what each server answers then.
type verdicts struct {
	Decisions []struct {
		Rule, Caller, Mode string
		Opens              bool
	}
	Requests []struct {
		From, Claims, Key string
		Rule              string // that refuses the request; empty: it is served
	}
}

// TestEachServerGivesTheSameVerdicts: one sidecar, and each server that it stands beside, by a gate inside or by a question.
func TestEachServerGivesTheSameVerdicts(t *testing.T) {
	t.Parallel()
	var table verdicts
	text, err := os.ReadFile("../../../testdata/verdicts.json")
	if err == nil {
		err = json.Unmarshal(text, &table)
	}
	if err != nil {
		t.Fatal(err)
	}
	o, dir, backend := newOwner(t), t.TempDir(), processtest.NewBackend(t).Listener.Addr().String()
	feed, maps, grpc := filepath.Join(dir, "feed"), filepath.Join(dir, "haproxy"), testenv.FreeAddress(t)
	p := start(t, "sidecar", "--brokers", o.broker.Addr(), "--listen", "127.0.0.1:0", "--grpc-listen", grpc, "--feed-listen", "unix:"+feed,
		"--callers", "key=X-Api-Key", "--trusted", "127.0.0.1/32", "--haproxy-socket", maps,
		"--haproxy-map", "ip="+dir+"/closed_ip.map,key="+dir+"/closed_key.map")
	q := question{sidecar: p.WaitFor(`msg=listening address=(\S+)`, 20*time.Second), envoy: grpc, backend: backend, feed: "unix:" + feed}
	for _, d := range table.Decisions {
		o.decide(table.decision(t, d.Rule, d.Caller, d.Mode, d.Opens))
	}
	var asking sync.WaitGroup
	inside := func(begin func(testing.TB, string) string) func(testing.TB, question) string {
		return func(t testing.TB, q question) string {
			t.Helper()
			return begin(t, strings.TrimPrefix(q.feed, "unix:"))
		}
	}
	for _, s := range append(shippedServers(),
		shipped{name: "HAProxy", program: "haproxy", begin: func(t testing.TB, q question) string { t.Helper(); return beginHAProxy(t, dir, q.backend) }},
		shipped{name: "Traefik with the plugin", program: "traefik", begin: inside(beginTraefikWithPlugin)},
		shipped{name: "Envoy's quota service", program: "envoy", begin: beginEnvoyQuota},
		shipped{name: "Python", program: "python3", begin: inside(beginPython)},
		shipped{name: "Node", program: "node", begin: inside(beginNode)},
	) {
		testenv.Program(t, s.program)
		url := s.begin(t, q)
		asking.Go(func() { table.ask(t, s.name, url) })
	}
	asking.Wait()
}

// decision returns what an owner publishes.
func (verdicts) decision(t *testing.T, rule, caller, mode string, opens bool) *schemas.Decision {
	t.Helper()
	c, err := schemas.ParseCaller(caller)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	d := &schemas.Decision{
		Rule: rule, Caller: c, Mode: schemas.ModeEnforce, CloseAt: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(),
		Evidence: schemas.Evidence{Limit: 10, Window: int64(time.Minute)},
	}
	if mode == "shadow" {
		d.Mode = schemas.ModeShadow
	}
	if opens {
		d.Until = d.CloseAt
	}
	return d
}

// ask asks a server until it refuses the first request, and then about each.
func (v *verdicts) ask(t *testing.T, name, url string) {
	t.Helper()
	quota := name == "Envoy's quota service" // it knows addresses only, and has one Retry-After for all
	processtest.Eventually(t, 30*time.Second, name+" refuses", func() bool {
		status, _ := getAs(t, url, v.Requests[0].From, v.Requests[0].Claims, v.Requests[0].Key)
		return status == http.StatusTooManyRequests
	})
	for _, r := range v.Requests {
		if quota && r.Key != "" {
			continue
		}
		status, header := getAs(t, url, r.From, r.Claims, r.Key)
		want := http.StatusOK
		if r.Rule != "" {
			want = http.StatusTooManyRequests
		}
		if status != want {
			t.Errorf("%s: %+v: got %d, want %d", name, r, status, want)
			continue
		}
		if r.Rule == "" || quota {
			continue
		}
		seconds := header.Get("Retry-After")
		if n, err := strconv.Atoi(seconds); err != nil || n < 3500 || n > 3610 { // an hour and the jitter
			t.Errorf("%s: %+v: got Retry-After %q, want about an hour", name, r, seconds)
		}
		limit, policy := `"`+r.Rule+`";r=0;t=`+seconds, `"`+r.Rule+`";q=10;w=60`
		if header.Get("RateLimit") != limit || header.Get("RateLimit-Policy") != policy {
			t.Errorf("%s: %+v: got %v, want %s and %s", name, r, header, limit, policy)
		}
	}
}

// getAs asks as a client at an address of loopback, with a claim to be another one, and a key unless it is empty.
func getAs(t *testing.T, url, from, claims, key string) (status int, header http.Header) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext,
	}}
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	for field, value := range map[string]string{"X-Forwarded-For": claims, "X-Api-Key": key} {
		if value != "" {
			r.Header.Set(field, value)
		}
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	_ = answer.Body.Close()
	return answer.StatusCode, answer.Header
}

// beginHAProxy runs HAProxy with deploy/haproxy. Its maps and its socket are in a folder.
func beginHAProxy(t testing.TB, dir, backend string) string {
	t.Helper()
	port := freePort(t)
	for _, name := range []string{"closed_ip.map", "closed_key.map"} {
		writeIn(t, dir, name, "")
	}
	file := writeIn(t, dir, "haproxy.cfg", configured(t, "haproxy/haproxy.cfg", "/run/haproxy.sock group haproxy", filepath.Join(dir, "haproxy"),
		"/etc/haproxy", dir, "log /dev/log len 8192", "log stdout len 8192 format raw", "bind :8080", "bind 127.0.0.1:"+port, "127.0.0.1:3000", backend))
	return begun(t, "http://127.0.0.1:"+port+"/", "haproxy", "-db", "-f", file)
}
