package haproxy

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	benchFor    = flag.Duration("haproxy.for", 200*time.Millisecond, "how long BenchmarkProgram asks each HAProxy in each round")
	benchRounds = flag.Int("haproxy.rounds", 3, "rounds of BenchmarkProgram")
	benchClosed = flag.Int("haproxy.closed", 100_000, "entries of each of two maps")
)

// BenchmarkProgram measures what the gate costs HAProxy that has so many closed callers: the same configuration without the lines of the gate
// is asked by turns. Then it measures how long decisions take until they are in force there. .github/MEASURED.md has the figures.
func BenchmarkProgram(b *testing.B) {
	with, without, backend := newProgram(b), newProgram(b), newProgram(b)
	for _, p := range []*program{with, without} {
		p.edit(`(?s)(    http-request return .*)$`, "    server backend "+backend.address+"\n")
	}
	backend.start()
	with.edit(`    use_backend closed if closed_ip_path\n`, "") // as shipped
	without.edit(`(?s)    # The gate:.*    # One JSON`, "    # One JSON")
	with.start()
	without.start()
	for i := range *benchClosed {
		with.decide(fmt.Sprintf("ip:127.%d.%d.%d", i>>16+1, i>>8&255, i&255), time.Hour)
		with.decide(fmt.Sprintf("key:key-%08d", i), time.Hour)
	}
	begun := time.Now()
	stop := with.write()
	with.eventually("all written", func() bool { n := with.Stats(); return n.Entries["ip"]+n.Entries["key"] == 2**benchClosed })
	b.ReportMetric(float64(time.Since(begun).Milliseconds()), "ms/fill")
	for b.Loop() {
		var rates, cpu [2][]float64
		var rateOf, cpuOf []float64 // in each round
		for round := range *benchRounds {
			for turn := range 2 {
				i := (round + turn) % 2 // each goes first in every other round
				p := []*program{without, with}[i]
				before := p.cpu()
				n := p.load(*benchFor)
				rates[i] = append(rates[i], float64(n)/benchFor.Seconds())
				cpu[i] = append(cpu[i], float64((p.cpu()-before).Microseconds())/float64(n))
			}
			rateOf, cpuOf = append(rateOf, rates[1][round]/rates[0][round]), append(cpuOf, cpu[0][round]/cpu[1][round])
		}
		b.ReportMetric(median(rates[0]), "requests/s-without")
		b.ReportMetric(median(rates[1]), "requests/s-with")
		b.ReportMetric(median(rateOf), "of-requests/s")
		b.ReportMetric(median(cpu[0]), "cpu-µs/request-without")
		b.ReportMetric(median(cpu[1]), "cpu-µs/request-with")
		b.ReportMetric(median(cpuOf), "of-cpu")
		lags := with.lags(20 * *benchRounds)
		b.ReportMetric(lags[len(lags)/2], "ms/decision-p50")
		b.ReportMetric(lags[len(lags)*99/100], "ms/decision-p99")
		dead := *benchFor * time.Duration(*benchRounds)
		stop() // a sidecar that is dead: each request must be answered
		b.ReportMetric(float64(with.load(dead))/dead.Seconds(), "requests/s-sidecar-dead")
	}
}

// edit replaces a part of the configuration.
func (p *program) edit(old, with string) {
	p.t.Helper()
	path := filepath.Join(p.dir, "h.cfg")
	text, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	expr := regexp.MustCompile(old)
	if !expr.Match(text) {
		p.t.Fatalf("got no %s in haproxy.cfg", old)
	}
	if err := os.WriteFile(path, expr.ReplaceAllLiteral(text, []byte(with)), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// load sends requests of callers that are open over 16 connections for a time, and returns how many were answered.
func (p *program) load(d time.Duration) int64 {
	var n atomic.Int64
	var loading sync.WaitGroup
	deadline := time.Now().Add(d)
	for range 16 {
		loading.Go(func() {
			conn, err := net.Dial("tcp", p.address)
			if err != nil {
				p.t.Error(err)
				return
			}
			defer conn.Close()
			r := bufio.NewReader(conn)
			for time.Now().Before(deadline) {
				_, _ = io.WriteString(conn, "GET /search?q=a HTTP/1.1\r\nHost: a\r\nX-Api-Key: key-000512340\r\n\r\n")
				resp, err := http.ReadResponse(r, nil)
				if err != nil || resp.StatusCode != http.StatusOK {
					p.t.Errorf("got %v, %v", resp, err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				n.Add(1)
			}
		})
	}
	loading.Wait()
	return n.Load()
}

// cpu returns what HAProxy's worker has used.
func (p *program) cpu() time.Duration {
	text, err := os.ReadFile("/proc/" + p.pid() + "/stat")
	if err != nil {
		p.t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')'):]))
	ticks := 0
	for _, f := range fields[12:14] {
		n, err := strconv.Atoi(f)
		if err != nil {
			p.t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// lags closes callers one after the other, and returns after how many milliseconds each was refused, sorted.
func (p *program) lags(n int) (lags []float64) {
	for i := range n {
		key := fmt.Sprintf("lag-%d-%d", time.Now().UnixNano(), i)
		begun := time.Now()
		p.decide("key:"+key, 10*time.Second)
		p.eventually("refused", func() bool {
			status, _, _ := p.get("192.0.2.1", "/", "X-Api-Key: "+key)
			return status == http.StatusTooManyRequests
		})
		lags = append(lags, float64(time.Since(begun).Microseconds())/1000)
	}
	slices.Sort(lags)
	return lags
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
