//go:build lab

package lab

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
)

// fleet is a model, gateways before it, and agents that ask them.
type fleet struct {
	t        *testing.T
	gateways []*processtest.Program
	urls     []string
	client   http.Client
	began    time.Time
	ended    atomic.Bool  // agents ask no more
	refused  atomic.Int64 // answers to agents
	broken   atomic.Int64 // streams
	quiet    atomic.Int64 // answers to the caller who is quiet

	mu     sync.Mutex
	served []*streamed // guarded by mu
}

// streamed is what the model has streamed in answer to one request.
type streamed struct {
	key, gateway string
	began, ended time.Time
	tokens       int64 // that were streamed
	complete     bool
}

func newFleet(t *testing.T, brokers string) *fleet {
	t.Helper()
	f := &fleet{t: t, began: time.Now(), client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: holdsAgents}}}
	model := httptest.NewServer(f)
	t.Cleanup(model.Close)
	path := filepath.Join(binaries(), "goproxy")
	if out, err := exec.Command("go", "build", "-o", path, "../../../deploy/recipes/goproxy").CombinedOutput(); err != nil {
		t.Fatalf("build the proxy: %v\n%s", err, out)
	}
	for range holdsGateways {
		cmd := exec.Command(path)
		cmd.Env = []string{"MODEL=" + model.URL, "LISTEN=127.0.0.1:0", "FLOODGATE_BROKERS=" + brokers}
		g := startCommand(t, cmd)
		f.gateways = append(f.gateways, g)
		f.urls = append(f.urls, "http://"+g.WaitFor(`serving address=(\S+)`, 10*time.Second))
	}
	return f
}

// ServeHTTP is the model. Its answers cost 1,000 tokens on average, of a lognormal distribution whose deviation is as large as its
// mean, and take their time in proportion. Only the last event says how many they were.
func (f *fleet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	cost := int64(10)
	a := &streamed{key: r.Header.Get("Authorization"), gateway: r.Header.Get("X-Gateway"), began: time.Now()}
	if a.key == "Bearer agents" {
		cost = lognormalTokens()
	}
	f.mu.Lock()
	f.served = append(f.served, a)
	f.mu.Unlock()
	length := *holdsStream * time.Duration(cost) / holdsMean
	w.Header().Set("Content-Type", "text/event-stream")
	last := time.NewTimer(length)
	defer last.Stop()
	tick := time.NewTicker(*holdsStream / 20)
	defer tick.Stop()
	complete := false
	for done := false; !done; {
		event := `{"choices":[{"delta":{"content":"word "}}]}`
		select {
		case <-r.Context().Done():
			done = true
		case <-tick.C:
		case <-last.C:
			event = fmt.Sprintf(`{"choices":[],"usage":{"total_tokens":%d}}`, cost)
			complete, done = true, true
		}
		_, _ = fmt.Fprintf(w, "data: %s\n\n", event) // the proxy may be dead
		_ = http.NewResponseController(w).Flush()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	a.ended, a.tokens, a.complete = time.Now(), cost, complete
	if !complete {
		a.tokens = min(cost, cost*int64(time.Since(a.began))/int64(length))
	}
}

// lognormalTokens draws what an answer costs: no more than six times the mean, so that the test ends.
func lognormalTokens() int64 {
	sigma := math.Sqrt(math.Ln2)
	cost := math.Exp(math.Log(holdsMean) - sigma*sigma/2 + sigma*rand.NormFloat64())
	return int64(min(max(cost, 1), 6*holdsMean))
}

// agent asks for one answer after the other with a key, and again after about a second where it was refused.
func (f *fleet) agent(key string) {
	for !f.ended.Load() {
		if i := rand.IntN(len(f.urls)); f.ask(key, f.urls[i]) {
			continue
		}
		time.Sleep(time.Second/2 + rand.N(time.Second))
	}
}

// ask asks a gateway, and reports whether there was a whole answer.
func (f *fleet) ask(key, url string) bool {
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(`{"stream":true}`))
	if err != nil {
		f.t.Error(err)
		return false
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("X-Gateway", url)
	resp, err := f.client.Do(r)
	if err != nil {
		return false // the gateway was killed
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		f.broken.Add(1)
		return false
	}
	switch {
	case resp.StatusCode == http.StatusOK && key == "quiet":
		f.quiet.Add(1)
		return false // it takes its time
	case resp.StatusCode == http.StatusOK:
		return true
	case resp.StatusCode == http.StatusTooManyRequests && key == "agents":
		f.refused.Add(1)
	default:
		f.t.Errorf("%s: got status %d", key, resp.StatusCode)
	}
	return false
}
