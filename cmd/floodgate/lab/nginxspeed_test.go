//go:build lab

package lab

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// speedConf is one nginx with a server for each way to limit, before a file of its own (/file) and before a server of its own (/).
// %NAME% is replaced by the address of the server, %DIR% by a directory, %FEED% and %SIDECAR% by sockets.
const speedConf = `
access_log off;
keepalive_requests 100000000;
limit_req_zone $binary_remote_addr zone=requests:10m rate=10000r/s;
limit_req_status 429;
map "" $floodgate { default ""; }
lua_shared_dict floodgate 16m;
lua_shared_dict bare 16m;
init_by_lua_block {
    require("floodgate").configure { feed = "unix:%FEED%", callers = { ip = { "client" }, key = { "http_x_api_key" } } }
    for i = 0, 9999 do ngx.shared.bare:set("k" .. i, 1) end
}
init_worker_by_lua_block { require("floodgate").start() }
upstream backend { server unix:%DIR%/backend.sock; keepalive 32; keepalive_requests 100000000; }
upstream own { server unix:%DIR%/own.sock; keepalive 32; keepalive_requests 100000000; }
upstream sidecar { server unix:%SIDECAR%; keepalive 32; keepalive_requests 100000000; }
proxy_http_version 1.1;
proxy_set_header Connection "";
root %DIR%;
server { listen unix:%DIR%/backend.sock; location / { return 200 served; } }
server { listen unix:%DIR%/own.sock; location / { return 204; } }
server { listen %none%; location / { proxy_pass http://backend; } location = /file { } }
server { listen %limit_req%; limit_req zone=requests burst=100000 nodelay; location / { proxy_pass http://backend; } location = /file { } }
server { listen %bare%; access_by_lua_block { if ngx.shared.bare:get(ngx.var.remote_addr) then return ngx.exit(429) end }
    location / { proxy_pass http://backend; } location = /file { } }
server { listen %inside%; access_by_lua_block { require("floodgate").access() } location / { proxy_pass http://backend; } location = /file { } }
server { listen %own%; location / { auth_request /q; proxy_pass http://backend; } location = /q { internal; %ASK% proxy_pass http://own/auth_request; } }
server { listen %sidecar%; location / { auth_request /q; proxy_pass http://backend; } location = /q { internal; %ASK% proxy_pass http://sidecar/auth_request; } }
location_end
`

// ask is what deploy/nginx/floodgate.conf has in the location of the question.
var askLines = regexp.MustCompile(`(?s)proxy_pass http://floodgate/auth_request;(.*?)proxy_intercept_errors`)

// speedOf is what one way to limit gave in each round.
type speedOf struct{ requests, cpu []float64 } // a second; µs of the worker for a request

// BenchmarkNginx compares ways to limit, in one nginx with one worker, by turns: without a limit, by limit_req, with a bare look-up in
// Lua's shared dictionary, with the gate inside and 10,000 closed callers, with auth_request to a server of nginx's own that says 204, and
// with auth_request to a sidecar. It reports medians of the ratios: of requests a second, and of the worker's CPU. A round takes some
// seconds: short runs by turns, so that what else this machine does is the same for all:
//
//	go test -tags lab ./cmd/floodgate/lab -run '^$' -bench 'Nginx$' -benchtime 25x
func BenchmarkNginx(b *testing.B) {
	testenv.Program(b, "nginx")
	testenv.Program(b, "h2load")
	dir := b.TempDir()
	f := newBoardFeed(b)
	for i := range 10_000 {
		f.closes("per-key", fmt.Sprintf("key:k%d", i), 10*time.Hour)
	}
	sidecar := filepath.Join(dir, "sidecar.sock")
	start(b, "sidecar", "--brokers", "127.0.0.1:1", "--listen", "unix:"+sidecar, "--callers", "key=X-Api-Key").WaitFor(`msg=listening`, 10*time.Second)
	text, err := os.ReadFile("../../../deploy/nginx/floodgate.conf")
	if err != nil {
		b.Fatal(err)
	}
	replace := []string{"location_end", "", "%DIR%", dir, "%FEED%", f.path, "%SIDECAR%", sidecar, "%ASK%", askLines.FindStringSubmatch(string(text))[1]}
	ports := make(map[string]string)
	for _, way := range []string{"none", "limit_req", "bare", "inside", "own", "sidecar"} {
		ports[way] = freePort(b)
		replace = append(replace, "%"+way+"%", "127.0.0.1:"+ports[way])
	}
	writeIn(b, dir, "file", "served\n")
	n := nginxWithLua(b, ports["none"], 1, strings.NewReplacer(replace...).Replace(speedConf))
	speeds := make(map[string]*speedOf)
	for b.Loop() {
		for _, run := range []string{"none/", "limit_req/", "bare/", "inside/", "none/file", "limit_req/file", "bare/file", "inside/file", "own/", "sidecar/"} {
			way, path, _ := strings.Cut(run, "/")
			before := cpuOf(b, n.worker())
			load := h2load(b, "-n", "4000", "http://127.0.0.1:"+ports[way]+"/"+path)
			used := cpuOf(b, n.worker()) - before
			if speeds[run] == nil {
				speeds[run] = new(speedOf)
			}
			speeds[run].requests = append(speeds[run].requests, load.rate)
			speeds[run].cpu = append(speeds[run].cpu, float64(used.Microseconds())/load.requests)
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, c := range [][2]string{
		{"inside/", "none/"}, {"inside/", "limit_req/"}, {"inside/", "bare/"}, {"inside/file", "none/file"}, {"inside/file", "limit_req/file"}, {"inside/file", "bare/file"}, {"sidecar/", "own/"},
	} {
		name := strings.TrimSuffix(c[0], "/") + ":" + strings.TrimSuffix(c[1], "/")
		b.ReportMetric(medianRatio(speeds[c[0]].requests, speeds[c[1]].requests), name)
		b.ReportMetric(medianRatio(speeds[c[1]].cpu, speeds[c[0]].cpu), name+"-CPU")
	}
	for run, s := range speeds {
		slices.Sort(s.requests)
		slices.Sort(s.cpu)
		b.Logf("%s: %.0f requests/s, %.1f µs of CPU each, medians", run, s.requests[len(s.requests)/2], s.cpu[len(s.cpu)/2])
	}
}

// medianRatio returns the median of the ratios, round by round.
func medianRatio(a, b []float64) float64 {
	var ratios []float64
	for i := range a {
		ratios = append(ratios, a[i]/b[i])
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

// cpuOf returns how much CPU a process with one thread has used.
func cpuOf(t testing.TB, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		t.Fatal(err)
	}
	used, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(used)
}

// BenchmarkNginxLag is the time from a decision at the feed until nginx refuses: it is asked all the time. Bar: p99 of 20 ms.
func BenchmarkNginxLag(b *testing.B) {
	f := newBoardFeed(b)
	n := withLua(b, "unix:"+f.path, processtest.NewBackend(b).Listener.Addr().String(), 2)
	f.closes("per-key", "key:first", time.Hour)
	asks := func(key string) int {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, n.url, http.NoBody)
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("X-Api-Key", key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	for asks("first") != http.StatusTooManyRequests {
		time.Sleep(time.Millisecond)
	}
	var lags []time.Duration
	for b.Loop() {
		key, began := fmt.Sprint("k", len(lags)), time.Now()
		f.closes("per-key", "key:"+key, time.Hour)
		for asks(key) != http.StatusTooManyRequests {
		}
		lags = append(lags, time.Since(began))
	}
	slices.Sort(lags)
	b.ReportMetric(float64(lags[len(lags)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(lags[len(lags)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkNginxWithoutFloodgate is what a request takes while the feed is there, and while all of floodgate is dead: 2,000 requests a second
// over eight connections. An iteration is a second with it and a second without. Bar: no errors, and nothing added.
func BenchmarkNginxWithoutFloodgate(b *testing.B) {
	f := newBoardFeed(b)
	for i := range 10_000 {
		f.closes("per-key", fmt.Sprintf("key:k%d", i), 10*time.Hour)
	}
	n := withLua(b, "unix:"+f.path, processtest.NewBackend(b).Listener.Addr().String(), 2)
	var waits [2][]time.Duration
	var errors int
	measure := func(i int) {
		took, failed := n.underLoad(b, time.Duration(b.N)*time.Second)
		waits[i], errors = took, errors+failed
	}
	b.ResetTimer()
	measure(0)
	f.stop()
	measure(1)
	f.begin() // for its clean-up
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(errors), "errors")
	for i, name := range []string{"with", "without"} {
		slices.Sort(waits[i])
		b.ReportMetric(float64(waits[i][len(waits[i])/2].Microseconds())/1000, "p50-ms-"+name)
		b.ReportMetric(float64(waits[i][len(waits[i])*99/100].Microseconds())/1000, "p99-ms-"+name)
	}
}

// underLoad asks for so long, and returns how long each answer took, and how many were no 200.
func (n *luaNginx) underLoad(b *testing.B, length time.Duration) (took []time.Duration, failed int) {
	b.Helper()
	var mu sync.Mutex // protects the results
	var asking sync.WaitGroup
	end := time.Now().Add(length)
	for i := range 8 {
		client := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 3, byte(1+i))}}).DialContext}}
		asking.Go(func() {
			defer client.CloseIdleConnections()
			for next := time.Now(); next.Before(end); next = next.Add(4 * time.Millisecond) {
				time.Sleep(time.Until(next))
				began := time.Now()
				resp, err := client.Get(n.url)
				if err == nil {
					_ = resp.Body.Close()
				}
				mu.Lock()
				took = append(took, time.Since(began))
				if err != nil || resp.StatusCode != http.StatusOK {
					failed++
				}
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	return took, failed
}
