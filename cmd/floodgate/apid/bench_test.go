package apid

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"
)

// BenchmarkLookup measures GET /v1/caller over loopback while a gate records so many requests a second: answered by the owner, or
// forwarded to it once. p99-ms is the slowest hundredth. The largest rate is more than two cores can do: that is full load.
//
//	go test ./cmd/floodgate/apid -run '^$' -bench Lookup -benchtime 2000x
func BenchmarkLookup(b *testing.B) {
	for _, rate := range []int{0, 50_000, 100_000_000} {
		b.Run(fmt.Sprintf("own/%d", rate), func(b *testing.B) { benchGet(b, rate, false, "/v1/caller?caller=key:bench-%d") })
		b.Run(fmt.Sprintf("forwarded/%d", rate), func(b *testing.B) { benchGet(b, rate, true, "/v1/caller?caller=key:bench-%d") })
	}
}

// BenchmarkList measures GET /v1/callers?limit=100 of all partitions, another list each time.
func BenchmarkList(b *testing.B) { benchGet(b, 0, false, "/v1/callers?limit=100&prefix=bench-%d") }

// benchGet sends 200 requests a second.
func benchGet(b *testing.B, rate int, forwarded bool, path string) {
	b.Helper()
	p := newPlant(b)
	w := p.web()
	for i := range 1000 {
		w.ask(fmt.Sprint("bench-", i))
	}
	url := p.url
	if forwarded {
		url = p.front()
	}
	p.runs(func(ctx context.Context) error { w.load(ctx, rate); return nil })
	client := &http.Client{Timeout: 10 * time.Second}
	took := make([]time.Duration, 0, b.N)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for i := 0; b.Loop(); i++ {
		<-tick.C
		began := time.Now()
		resp, err := client.Get(url + fmt.Sprintf(path, i%1000))
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		took = append(took, time.Since(began))
		if resp.StatusCode != http.StatusOK {
			b.Fatalf("got %d, want 200", resp.StatusCode)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
}

// load sends so many requests a second of 1000 callers until ctx ends.
func (w *web) load(ctx context.Context, rate int) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 0; rate > 0; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for range rate / 100 {
			w.ask(fmt.Sprint("load-", n%1000))
			n++
		}
	}
}
