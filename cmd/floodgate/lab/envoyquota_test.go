//go:build lab

package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/sidecar"
	"github.com/509da70d/floodgate/schemas"
)

// beginEnvoyQuota runs Envoy with deploy/envoy/envoy-rlqs.yaml.
func beginEnvoyQuota(t *testing.T, q question) string {
	t.Helper()
	url, args := envoyWith(t, "envoy/envoy-rlqs.yaml", q)
	return begun(t, url, "envoy", args...)
}

// TestEnvoyKeepsTheVerdict: Envoy with the quota service refuses who is closed, also while the sidecar is stopped or was killed. A new
// sidecar reaches it with the next report, which is 5 s later at most.
func TestEnvoyKeepsTheVerdict(t *testing.T) {
	t.Parallel()
	testenv.Program(t, "envoy")
	b := processtest.NewSidecar(t, start, "--record", "--trusted", "127.0.0.1/32") // it is asked about others by this test
	url := beginEnvoyQuota(t, asks(b))
	closes := func(addr string) time.Time {
		t.Helper()
		processtest.Eventually(t, 20*time.Second, addr+" closed", func() bool {
			status, _ := processtest.GetFrom(t, "127.0.0.1", addr, b.URL+"/auth")
			return status == http.StatusTooManyRequests
		})
		return time.Now()
	}
	answers := func(when, addr string, want int) (header http.Header) {
		t.Helper()
		began := time.Now()
		status, header := processtest.GetFrom(t, addr, "203.0.113.1", url)
		if status != want || time.Since(began) > time.Second { // a busy machine is slow
			t.Errorf("%s: %s: got %d after %v, want %d", when, addr, status, time.Since(began), want)
		}
		return header
	}
	becomes := func(when, addr string, want int) time.Time {
		t.Helper()
		processtest.Eventually(t, 20*time.Second, when+": "+addr, func() bool {
			status, _ := processtest.GetFrom(t, addr, "203.0.113.1", url)
			return status == want
		})
		return time.Now()
	}
	answers("nobody is closed", "127.0.0.2", http.StatusOK)
	decided := closes("127.0.0.2")
	t.Logf("refused by Envoy %v after the sidecar", becomes("closed", "127.0.0.2", http.StatusTooManyRequests).Sub(decided))
	if header := answers("closed", "127.0.0.2", http.StatusTooManyRequests); header.Get("Retry-After") != "10" {
		t.Errorf("got %v, want Retry-After", header)
	}
	answers("another is closed", "127.0.0.3", http.StatusOK)
	closes("127.0.0.4")
	answers("Envoy has not seen it yet", "127.0.0.4", http.StatusOK)
	becomes("it has", "127.0.0.4", http.StatusTooManyRequests)

	signal := func(signal syscall.Signal) {
		if err := b.Program.Cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	processtest.Eventually(t, 20*time.Second, "the sidecar stopped", func() bool { return allStopped(t, b.Program.Cmd.Process.Pid) })
	answers("stopped", "127.0.0.2", http.StatusTooManyRequests)
	answers("stopped", "127.0.0.3", http.StatusOK)
	answers("stopped", "127.0.0.5", http.StatusOK)
	signal(syscall.SIGCONT)
	closes("127.0.0.3")
	becomes("it goes on", "127.0.0.3", http.StatusTooManyRequests)

	b.Program.Kill()
	for _, addr := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"} {
		answers("killed", addr, http.StatusTooManyRequests)
	}
	answers("killed", "127.0.0.5", http.StatusOK)
	answers("killed", "127.0.0.6", http.StatusOK)
	b.Program = start(t, "sidecar", "--brokers", b.Broker, "--listen", "127.0.0.1:0", "--grpc-listen", b.Envoy, "--record", "--trusted", "127.0.0.1/32")
	b.URL = "http://" + b.Program.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
	back := time.Now()
	closes("127.0.0.5")
	t.Logf("refused by Envoy %v after the new sidecar began", becomes("the sidecar is back", "127.0.0.5", http.StatusTooManyRequests).Sub(back))
	answers("the sidecar is back", "127.0.0.2", http.StatusTooManyRequests)
	answers("the sidecar is back", "127.0.0.6", http.StatusOK)
}

// quotaSidecar is a sidecar in the test's own process, on loopback.
type quotaSidecar struct {
	t       testing.TB
	set     *gate.Set
	board   *board.Board
	side    *sidecar.Sidecar
	address string
	stop    func()
}

func newQuotaSidecar(t testing.TB, address string) *quotaSidecar {
	t.Helper()
	s := &quotaSidecar{t: t, set: gate.New(gate.Options{MaxJitter: -1}), board: board.New(board.Options{})}
	s.board.Resize(1)
	s.board.Loaded(0)
	s.side = sidecar.New(sidecar.Options{Set: s.set, Board: s.board, Callers: []gatehttp.CallerFunc{gatehttp.ClientIP(nil)}})
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	server := grpc.NewServer(grpc.MaxRecvMsgSize(sidecar.MaxReportBytes))
	s.side.Register(server)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	s.stop = func() { server.Stop(); serving.Wait() }
	t.Cleanup(s.stop)
	return s
}

// close closes addresses from now on.
func (s *quotaSidecar) close(length time.Duration, addrs ...string) {
	now := time.Now()
	var ds []schemas.Decision
	for _, addr := range addrs {
		ds = append(ds, schemas.Decision{
			Rule: "r", Caller: schemas.Caller{Kind: schemas.KindIP, ID: addr}, Mode: schemas.ModeEnforce,
			CloseAt: now.UnixNano(), Until: now.Add(length).UnixNano(), Epoch: 1, Seq: uint64(now.UnixNano()),
		})
	}
	s.set.ApplyAt(now, ds)
	s.board.Apply(ds, now)
}

// TestEnvoyOpensByItself: without a sidecar, closures run to their end in Envoy, and then nobody is closed.
func TestEnvoyOpensByItself(t *testing.T) {
	t.Parallel()
	testenv.Program(t, "envoy")
	s := newQuotaSidecar(t, "127.0.0.1:0")
	url := beginEnvoyQuota(t, question{envoy: s.address, backend: processtest.NewBackend(t).Listener.Addr().String()})
	status := func() int {
		status, _ := processtest.GetFrom(t, "127.0.0.2", "", url)
		return status
	}
	status() // now Envoy has a bucket
	began := time.Now()
	s.close(3*time.Second, "127.0.0.2")
	processtest.Eventually(t, time.Second, "refused", func() bool { return status() == http.StatusTooManyRequests })
	s.stop()
	processtest.Eventually(t, 10*time.Second, "opened", func() bool { return status() == http.StatusOK })
	if took := time.Since(began); took < 2500*time.Millisecond {
		t.Errorf("got opened after %v, want the closure's 3 s", took)
	}
}

// BenchmarkEnvoyQuota compares Envoy without a limit, with the quota service and 10,000 closed addresses, and with ext_authz, in turns; and
// then the second one without its sidecar. It needs the program wrk, and fails on an answer other than 200.
//
//	FLOODGATE_PROGRAMS=1 go test -tags lab ./cmd/floodgate/lab -run '^$' -bench EnvoyQuota -benchtime 5x
//
// It reports medians of all turns: requests/s, CPU time of Envoy for a request, and the time from a decision until Envoy refuses.
func BenchmarkEnvoyQuota(b *testing.B) {
	testenv.Program(b, "wrk")
	s := newQuotaSidecar(b, "127.0.0.1:0")
	q := question{envoy: s.address, backend: beginFixedNginx(b)}
	servers := []*loadedEnvoy{
		newLoadedEnvoy(b, "none", "envoy/envoy.yaml", q, `(?s) {18}- name: envoy.filters.http.ext_authz.*?\n( {18}- name: envoy.filters.http.router)`),
		newLoadedEnvoy(b, "quota", "envoy/envoy-rlqs.yaml", q, ""),
		newLoadedEnvoy(b, "ext_authz", "envoy/envoy.yaml", q, ""),
	}
	var closed []string
	for i := range 10_000 {
		closed = append(closed, fmt.Sprintf("127.1.%d.%d", i/250, 1+i%250))
		statusFrom(b, closed[i], servers[1].url)
	}
	s.close(time.Hour, closed...)
	processtest.Eventually(b, time.Minute, "the last one is closed", func() bool {
		return statusFrom(b, closed[len(closed)-1], servers[1].url) == http.StatusTooManyRequests
	})
	b.Logf("Envoy with 10,000 closed buckets: %d MiB, without a limit %d MiB", servers[1].resident()>>20, servers[0].resident()>>20)
	var late []float64
	for n := 0; b.Loop(); n++ {
		for _, server := range servers {
			server.load()
		}
		for i := range 20 {
			addr := fmt.Sprintf("127.2.%d.%d", n, 1+i)
			statusFrom(b, addr, servers[1].url)
			decided := time.Now()
			s.close(time.Hour, addr)
			for statusFrom(b, addr, servers[1].url) == http.StatusOK {
			}
			late = append(late, millis(time.Since(decided)))
		}
	}
	s.stop()
	away := *servers[1]
	away.name, away.rates, away.costs = "away", nil, nil
	for range len(servers[1].rates) {
		away.load()
	}
	b.ReportMetric(0, "ns/op")
	for _, server := range append(servers, &away) {
		b.ReportMetric(server.median(server.rates), server.name+"-req/s")
		b.ReportMetric(server.median(server.costs), server.name+"-cpu-µs/req")
	}
	b.ReportMetric(servers[1].median(servers[1].rates)/servers[0].median(servers[0].rates), "quota/none")
	slices.Sort(late)
	b.ReportMetric(late[len(late)/2], "refused-p50-ms")
	b.ReportMetric(late[len(late)*99/100], "refused-p99-ms")
}

// statusFrom asks from an address of loopback.
func statusFrom(t testing.TB, addr, url string) int {
	t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}).Dial("tcp", strings.Trim(url, "htp:/"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = c.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")) // the answer says whether it came
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// beginFixedNginx runs an nginx that answers with two bytes, and returns its address.
func beginFixedNginx(t testing.TB) string {
	t.Helper()
	address, dir := testenv.FreeAddress(t), t.TempDir()
	file := writeIn(t, dir, "nginx.conf", "daemon off;\nworker_processes 1;\npid "+dir+"/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n"+
		"keepalive_requests 100000000;\nserver { listen "+address+"; location / { return 200 ok; } }\n}\n")
	runForeign(t, "nginx", "-p", dir, "-c", file)
	return address
}

// loadedEnvoy is an Envoy in a benchmark.
type loadedEnvoy struct {
	t            testing.TB
	name, url    string
	process      *os.Process
	rates, costs []float64 // requests/s; CPU µs a request
}

// newLoadedEnvoy runs Envoy with a file of deploy/, of which a pattern is replaced by its group.
func newLoadedEnvoy(t testing.TB, name, path string, q question, without string) *loadedEnvoy {
	t.Helper()
	url, args := envoyWith(t, path, q)
	if without != "" {
		text, err := os.ReadFile(args[1])
		if err != nil {
			t.Fatal(err)
		}
		args[1] = writeIn(t, t.TempDir(), "envoy.yaml", regexp.MustCompile(without).ReplaceAllString(string(text), "$1"))
	}
	e := &loadedEnvoy{t: t, name: name, url: url, process: runForeign(t, "envoy", args...)}
	processtest.Eventually(t, time.Minute, "envoy serves", func() bool {
		_, status := processtest.Get(context.Background(), url)
		return status == http.StatusOK
	})
	return e
}

// load sends requests for 2 s over 16 connections.
func (e *loadedEnvoy) load() {
	e.t.Helper()
	before := e.cpu()
	out, err := exec.Command("wrk", "-t1", "-c16", "-d2", e.url).Output()
	spent := e.cpu() - before
	said := regexp.MustCompile(`(\d+) requests in|Requests/sec: +([\d.]+)|Non-2xx`).FindAllStringSubmatch(string(out), -1)
	if err != nil || len(said) != 2 {
		e.t.Fatalf("wrk: got %v and %s", err, out)
	}
	requests, err1 := strconv.ParseFloat(said[0][1], 64)
	rate, err2 := strconv.ParseFloat(said[1][2], 64)
	if err := errors.Join(err1, err2); err != nil {
		e.t.Fatal(err)
	}
	e.rates, e.costs = append(e.rates, rate), append(e.costs, float64(spent.Microseconds())/requests)
}

// stat returns a field of /proc/PID/stat, from 1.
func (e *loadedEnvoy) stat(field int) int64 {
	e.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", e.process.Pid))
	if err != nil {
		e.t.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.Fields(string(text))[field-1], 10, 64)
	if err != nil {
		e.t.Fatal(err)
	}
	return n
}

func (e *loadedEnvoy) cpu() time.Duration {
	return time.Duration(e.stat(14)+e.stat(15)) * 10 * time.Millisecond
}

func (e *loadedEnvoy) resident() int64 { return e.stat(24) * int64(os.Getpagesize()) }

func (*loadedEnvoy) median(of []float64) float64 { return slices.Sorted(slices.Values(of))[len(of)/2] }
