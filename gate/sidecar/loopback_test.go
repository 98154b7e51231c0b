package sidecar_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkLoopback is what a proxy waits for: 20 000 questions a second over eight connections that stay, as nginx and
// Envoy keep them. It reports percentiles of the wait; the clients run on the same processors. Run it with -benchtime 5s.
func BenchmarkLoopback(b *testing.B) {
	const connections, every = 8, 400 * time.Microsecond // 8 / 400 µs = 20 000/s
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: newSidecar(b, nil, "ip:203.0.113.9").Handler(), ReadHeaderTimeout: time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	defer serving.Wait()
	defer server.Close()
	waits := make([][]time.Duration, connections)
	var asking sync.WaitGroup
	b.ResetTimer()
	for i := range waits {
		asking.Go(func() { waits[i] = askEvery(b, l.Addr().String(), every, b.N/connections+1) })
	}
	asking.Wait()
	elapsed := b.Elapsed()
	all := slices.Sorted(slices.Values(slices.Concat(waits...)))
	if len(all) == 0 {
		return // the connection failed, and said so
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(len(all))/elapsed.Seconds(), "asked/s")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
}

// askEvery asks n times over one connection, and returns how long each answer took.
func askEvery(b *testing.B, addr string, every time.Duration, n int) []time.Duration {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Error(err)
		return nil
	}
	defer c.Close()
	const question = "GET /auth_request HTTP/1.1\r\nHost: floodgate\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"
	answers := bufio.NewReader(c)
	waits := make([]time.Duration, 0, n)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for range n {
		<-tick.C
		sent := time.Now()
		if _, err := io.WriteString(c, question); err != nil {
			b.Error(err)
			return nil
		}
		r, err := http.ReadResponse(answers, nil)
		if err != nil || r.StatusCode != http.StatusOK {
			b.Errorf("got %v and %v, want 200", r, err)
			return nil
		}
		_ = r.Body.Close()
		waits = append(waits, time.Since(sent))
	}
	return waits
}
