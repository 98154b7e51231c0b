package demo

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

func TestInnocenceIsJudgedByTheGeneratorsClock(t *testing.T) {
	at := func(ms ...int) *caller {
		c := &caller{}
		for _, m := range ms {
			c.admitted = append(c.admitted, time.UnixMilli(int64(m)))
		}
		return c
	}
	if at(0, 600, 1300, 2600).reached(3, time.Second) {
		t.Error("3 in any second: got reached, want not")
	}
	if !at(0, 600, 1300, 1400, 1500).reached(3, time.Second) {
		t.Error("3 within 200 ms: got not reached, want reached")
	}
}

// pretend returns a server of the demo that answers as answer says, without a gate. It is closed when the test ends.
func pretend(t *testing.T, answer http.HandlerFunc) *server {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return &server{listener: s.Listener}
}

// TestLoadKeepsTheTruth: the load notes the answer that the server gave, for each request of each caller.
func TestLoadKeepsTheTruth(t *testing.T) {
	var mu sync.Mutex
	reported := make(map[string]totals)
	answer := func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		id := r.Header.Get(keyHeader)
		n := reported[id]
		switch n.requests() % 3 {
		case 0:
			n.admitted++
		case 1:
			n.blocked++
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			n.failed++
			w.WriteHeader(http.StatusInternalServerError)
		}
		reported[id] = n
	}
	c := Config{Quiet: 3, Noisy: 1, QuietRate: 50, NoisyRate: 250}
	l := newLoad(c, []*server{pretend(t, answer), pretend(t, answer)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { l.run(ctx) })
	for l.totals().requests() < 60 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	running.Wait()
	if len(l.callers) != 4 || len(reported) != 4 {
		t.Fatalf("got %d callers, of which %d sent, want 4", len(l.callers), len(reported))
	}
	var sum totals
	for _, c := range l.callers {
		got := c.totals()
		if got != reported[c.id] {
			t.Errorf("%s: got %+v, want %+v, as it was answered", c.id, got, reported[c.id])
		}
		sum = totals{sum.admitted + got.admitted, sum.blocked + got.blocked, sum.failed + got.failed}
	}
	if sum != l.totals() {
		t.Errorf("got %+v in all, want the sum %+v", l.totals(), sum)
	}
}

// TestARequestThatWasSentHasAnAnswer: the end of the load cuts no request short, or the audit could not be exact.
func TestARequestThatWasSentHasAnAnswer(t *testing.T) {
	arrived, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s := pretend(t, func(http.ResponseWriter, *http.Request) {
		once.Do(func() { close(arrived) })
		<-goOn
	})
	l := newLoad(Config{Quiet: 1, QuietRate: 1000}, []*server{s})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { l.run(ctx) })
	<-arrived
	cancel()
	close(goOn)
	running.Wait()
	if got := l.totals(); got.failed != 0 || got.admitted == 0 {
		t.Errorf("got %+v, want every request answered", got)
	}
}

// TestAServerThatHasEnded makes failures, and no admitted or blocked requests.
func TestAServerThatHasEnded(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	l := newLoad(Config{Noisy: 1, NoisyRate: 1}, []*server{{listener: s.Listener}})
	l.request(l.callers[0])
	if got := l.totals(); got != (totals{failed: 1}) {
		t.Errorf("got %+v, want one failure", got)
	}
}

// TestReachedAtTheEdges: a sliding window counts up to one slot more than its length, and a request is recorded a little
// after it was sent. Up to there a caller is not called innocent.
func TestReachedAtTheEdges(t *testing.T) {
	const limit, window = 2, 2 * time.Second
	longest := window + window/20 + 100*time.Millisecond
	for apart, want := range map[time.Duration]bool{0: true, window: true, longest: true, longest + 1: false, time.Hour: false} {
		c := &caller{admitted: []time.Time{time.Unix(9, 0), time.Unix(9, 0).Add(apart)}}
		if got := c.reached(limit, window); got != want {
			t.Errorf("2 requests %v apart: got %v, want %v", apart, got, want)
		}
	}
	if (&caller{}).reached(1, window) {
		t.Error("no request: got reached, want not")
	}
}
