package gatecaddy_test

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// BenchmarkPair compares a Caddy with gates, 10,000 callers closed, and the same Caddy without, in turns of 0.2 s, both with a
// short answer of its own: nothing costs less, so the gates weigh most. It reports medians of the ratios: of requests per second, where
// the clients take their part of the machine, and of Caddy's CPU time per request.
//
//	go test -run '^$' -bench Pair -benchtime 150x .
func BenchmarkPair(b *testing.B) {
	b.Run("recorded", func(b *testing.B) { benchmarkPair(b, "") })
	b.Run("unrecorded", func(b *testing.B) { benchmarkPair(b, "no_record\n\t\t") })
}

func benchmarkPair(b *testing.B, options string) {
	b.Helper()
	k := newKafka(b, embedded.Options{})
	var closed []schemas.Caller
	for i := range 10_000 {
		closed = append(closed, schemas.Caller{Kind: "ip", ID: fmt.Sprintf("10.0.%d.%d", i/250, i%250)})
	}
	k.close(time.Hour, closed...)
	site := "%s respond /hello 200 {\n\t\tbody hello\n\t}"
	with := begin(b, minimal(k.address(), "", fmt.Sprintf(site, "floodgate {\n\t\t"+options+"callers key=X-Api-Key\n\t}\n\t")))
	without := begin(b, "{\n\tadmin ADMIN\n\tdefault_bind 127.0.0.1\n\tpersist_config off\n}\nSITE {\n\t"+fmt.Sprintf(site, "")+"\n}\n")
	with.eventually("all are closed", func() error {
		if n := with.metric("floodgate_gate_closed_callers"); n != 10_000 {
			return fmt.Errorf("got %v", n)
		}
		return nil
	})
	turn := func(c *caddy) (rate, cpu float64) {
		before, began := c.cpu(), time.Now()
		n := c.flood(200 * time.Millisecond)
		return float64(n) / time.Since(began).Seconds(), (c.cpu() - before).Seconds() / float64(n)
	}
	turn(with)
	turn(without)
	var rates, cpus, bare, gated, bareCPU []float64
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
		gated, bare, bareCPU = append(gated, r1), append(bare, r2), append(bareCPU, c2*1e6)
	}
	b.ReportMetric(median(rates), "rate-ratio")
	b.ReportMetric(median(cpus), "cpu-ratio")
	b.ReportMetric(median(bare), "bare-req/s")
	b.ReportMetric(median(bareCPU), "bare-µs/req")
	b.ReportMetric(median(gated), "gated-req/s")
	b.ReportMetric(with.metric("floodgate_link_frames_total")/float64(b.N), "frames/turn")
	b.ReportMetric(0, "ns/op")
}

func median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

// cpu returns the CPU time that Caddy has used, all its threads together.
func (c *caddy) cpu() (sum time.Duration) {
	c.t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", c.cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		c.t.Skip("this system does not say how much CPU time a thread has used")
	}
	for _, path := range threads {
		text, _ := os.ReadFile(path) // a thread may have ended
		nanoseconds, _, _ := strings.Cut(string(text), " ")
		n, _ := strconv.ParseInt(nanoseconds, 10, 64)
		sum += time.Duration(n)
	}
	return sum
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
