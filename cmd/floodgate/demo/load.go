package demo

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// load sends the demo's requests and counts them.
type load struct {
	config  Config
	servers []*server
	client  *http.Client
	callers []*caller
	next    atomic.Uint64 // which server is next
}

// caller is one client and the results of its requests. Fields are guarded by mu.
type caller struct {
	id    string
	noisy bool
	rate  float64
	from  time.Duration // after the begin, when it comes

	mu       sync.Mutex
	admitted []time.Time // when sent
	blocked  int64
	failed   int64 // without an answer: they may have been counted or not
}

func newLoad(c Config, servers []*server) *load {
	l := &load{config: c, servers: servers, client: &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: c.Quiet + 64*c.Noisy},
	}}
	var from time.Duration
	if c.Fair {
		from = c.quietTime()
	}
	for i := range c.Noisy {
		l.callers = append(l.callers, &caller{id: fmt.Sprintf("noisy-%d", i+1), noisy: true, rate: c.NoisyRate, from: from})
	}
	for i := range c.Quiet {
		l.callers = append(l.callers, &caller{id: fmt.Sprintf("quiet-%02d", i+1), rate: c.QuietRate})
	}
	return l
}

// workerRate is how many requests per second one goroutine sends at most.
const workerRate = 100

// run sends until ctx ends and every request has its answer.
func (l *load) run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, c := range l.callers {
		workers := max(1, int(c.rate/workerRate))
		for range workers {
			wg.Go(func() { l.send(ctx, c, time.Duration(float64(workers)/c.rate*float64(time.Second))) })
		}
	}
	wg.Wait()
	l.client.CloseIdleConnections()
}

// send sends one request each interval, beginning somewhere within the first.
func (l *load) send(ctx context.Context, c *caller, interval time.Duration) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(c.from):
	}
	tick := time.NewTicker(1 + rand.N(interval)) //nolint:gosec // a phase, no secret
	defer tick.Stop()
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if first {
			tick.Reset(interval)
		}
		l.request(c)
	}
}

// request sends one request. It is not cancelled when the demo ends: each request that was sent gets its answer.
func (l *load) request(c *caller) {
	s := l.servers[l.next.Add(1)%uint64(len(l.servers))]
	r, err := http.NewRequest(http.MethodGet, s.url(), nil)
	if err != nil {
		panic("BUG: a demo server's URL is not one: " + err.Error())
	}
	r.Header.Set(keyHeader, c.id)
	sent := time.Now()
	resp, err := l.client.Do(r) //nolint:noctx // see above
	status := 0
	if err == nil {
		status = resp.StatusCode
		_, _ = io.Copy(io.Discard, resp.Body) // so that the connection can be used again
		_ = resp.Body.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch status {
	case http.StatusOK:
		c.admitted = append(c.admitted, sent)
	case http.StatusTooManyRequests:
		c.blocked++
	default:
		c.failed++
	}
}

// totals is how many requests were sent so far.
type totals struct{ admitted, blocked, failed int64 }

func (t totals) requests() int64 { return t.admitted + t.blocked + t.failed }

func (c *caller) totals() totals {
	c.mu.Lock()
	defer c.mu.Unlock()
	return totals{int64(len(c.admitted)), c.blocked, c.failed}
}

func (l *load) totals() totals {
	var sum totals
	for _, c := range l.callers {
		t := c.totals()
		sum.admitted += t.admitted
		sum.blocked += t.blocked
		sum.failed += t.failed
	}
	return sum
}

// reached reports whether the caller had as many requests admitted within one window as the limit, by the generator's
// own clock: if not, it is innocent. A sliding window counts up to one slot more than its length, and a request is
// recorded a little after it was sent.
func (c *caller) reached(limit int64, window time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	longest := window + window/20 + 100*time.Millisecond
	first := 0
	for i, at := range c.admitted {
		for at.Sub(c.admitted[first]) > longest {
			first++
		}
		if int64(i-first+1) >= limit {
			return true
		}
	}
	return false
}
