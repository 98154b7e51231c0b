package gatecaddy_test

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// BenchmarkPair compares a Caddy with gates, 10,000 callers closed, and the same Caddy without, in turns of half a second, both with a
// short answer of its own: nothing costs less, so the gates weigh most. It reports medians of the ratios: of requests per second, where
// the clients take their part of the machine, and of Caddy's CPU time per request.
//
//	go test -run '^$' -bench Pair -benchtime 40x .
func BenchmarkPair(b *testing.B) {
	k := newKafka(b)
	var closed []schemas.Caller
	for i := range 10_000 {
		closed = append(closed, schemas.Caller{Kind: "ip", ID: fmt.Sprintf("10.0.%d.%d", i/250, i%250)})
	}
	k.close(time.Hour, closed...)
	site := "%s respond /hello 200 {\n\t\tbody hello\n\t}"
	with := begin(b, minimal(k.address(), "", fmt.Sprintf(site, "floodgate {\n\t\tcallers key=X-Api-Key\n\t}\n\t")))
	without := begin(b, minimal(k.address(), "", fmt.Sprintf(site, "")))
	with.eventually("all are closed", func() error {
		if n := with.metric("floodgate_gate_closed_callers"); n != 10_000 {
			return fmt.Errorf("got %v", n)
		}
		return nil
	})
	turn := func(c *caddy) (rate, cpu float64) {
		before, began := c.cpu(), time.Now()
		n := c.flood(500 * time.Millisecond)
		return float64(n) / time.Since(began).Seconds(), (c.cpu() - before).Seconds() / float64(n)
	}
	turn(with)
	turn(without)
	var rates, cpus, bare, gated []float64
	for i := range b.N {
		first, second := with, without
		if i%2 == 1 {
			first, second = second, first
		}
		r1, c1 := turn(first)
		r2, c2 := turn(second)
		if i%2 == 1 {
			r1, c1, r2, c2 = r2, c2, r1, c1
		}
		rates, cpus = append(rates, r1/r2), append(cpus, c1/c2)
		gated, bare = append(gated, r1), append(bare, r2)
	}
	b.ReportMetric(median(rates), "rate-ratio")
	b.ReportMetric(median(cpus), "cpu-ratio")
	b.ReportMetric(median(bare), "bare-req/s")
	b.ReportMetric(median(gated), "gated-req/s")
	b.ReportMetric(0, "ns/op")
}

func median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

// cpu returns the CPU time that Caddy has used.
func (c *caddy) cpu() time.Duration {
	c.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	if err != nil {
		c.t.Skip("this system does not tell the CPU time of a process: ", err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.Atoi(f)
		if err != nil {
			c.t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// flood sends requests on eight connections for so long, and returns how many were answered. All answers have the same length.
func (c *caddy) flood(long time.Duration) (answered int64) {
	c.t.Helper()
	address := strings.TrimPrefix(c.url, "http://")
	request := []byte("GET /hello HTTP/1.1\r\nHost: " + address + "\r\nX-Api-Key: quiet\r\nUser-Agent: bench\r\n\r\n")
	var n atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(long)
	for range 8 {
		wg.Go(func() {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				c.t.Error(err)
				return
			}
			defer conn.Close()
			r := bufio.NewReader(conn)
			_, err = conn.Write(request)
			resp, rerr := http.ReadResponse(r, nil)
			if err != nil || rerr != nil || resp.StatusCode != http.StatusOK {
				c.t.Errorf("got %v, %v, %v, want 200", resp, err, rerr)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			size := 0 // of one answer
			for time.Now().Before(end) {
				if _, err := conn.Write(request); err != nil {
					c.t.Error(err)
					return
				}
				if size == 0 {
					if size, err = answerSize(r); err != nil {
						c.t.Error(err)
						return
					}
				} else if _, err := r.Discard(size); err != nil {
					c.t.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return n.Load()
}

// answerSize reads one answer with the body "hello", and returns how long it was.
func answerSize(r *bufio.Reader) (size int, err error) {
	for {
		line, err := r.ReadString('\n')
		size += len(line)
		if err != nil {
			return size, err
		}
		if line == "\r\n" {
			n, err := r.Discard(len("hello"))
			return size + n, err
		}
	}
}
