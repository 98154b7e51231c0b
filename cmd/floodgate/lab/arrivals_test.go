//go:build lab

package lab

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// TestServersSayWhenRequestsArriveAndEnd: with the shipped configurations, the arrival of a request is in the topic while it runs. Its
// response follows at the end, says when it arrived, and has its cost. Each request has one arrival and one response, also if a sidecar
// reports the arrivals and a log the responses.
func TestServersSayWhenRequestsArriveAndEnd(t *testing.T) {
	for _, test := range []struct {
		name, program  string
		begin          func(*testing.T, question) (url string)
		sidecar        []string
		declared, cost int64
		blocked        bool // arrivals know that their requests are refused
	}{
		{name: "Envoy ends, the sidecar begins", program: "envoy", begin: beginEnvoyEnding, sidecar: []string{"--record", "--holds"}, cost: 812, blocked: true},
		{name: "Envoy begins and ends", program: "envoy", begin: beginEnvoyStarting, declared: 1000, cost: 812},
		{name: "nginx ends, the sidecar begins", program: "nginx", begin: beginNginxEnding, sidecar: []string{"--record", "--holds"}, cost: 12, blocked: true}, // of two bytes, in chunks
	} {
		t.Run(test.name, func(t *testing.T) {
			testenv.Program(t, test.program)
			b := processtest.NewSidecar(t, start, append(test.sidecar, "--trusted", "127.0.0.1/32", "--callers", "key=X-Api-Key")...)
			release, q := make(chan struct{}), asks(b)
			model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Tokens", "812")
				w.WriteHeader(http.StatusOK)
				if r.Header.Get("X-Api-Key") != "" {
					_ = http.NewResponseController(w).Flush() // the client is gone, or it is not
					<-release
				}
				_, _ = w.Write([]byte("ok"))
			}))
			t.Cleanup(model.Close)
			q.backend = model.Listener.Addr().String()
			url := test.begin(t, q)
			b.FloodsThrough(url, "203.0.113.1", "203.0.113.1")
			began := time.Now()
			ended := make(chan error, 1)
			go func() { ended <- streams(url) }()

			var arrival schemas.Entry
			processtest.Eventually(t, 10*time.Second, "the arrival", func() bool {
				for _, e := range requestsOf(t, b, "key:k1") {
					arrival = e
				}
				return arrival.Count > 0
			})
			if arrival.Response || arrival.Blocked || arrival.Declared != test.declared || arrival.Time < began.UnixNano() {
				t.Errorf("got %+v first, want an arrival with %d declared", arrival, test.declared)
			}
			time.Sleep(300 * time.Millisecond) // so long does the request run
			close(release)
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			var all []schemas.Entry
			processtest.Eventually(t, 10*time.Second, "the response", func() bool {
				all = requestsOf(t, b, "key:k1")
				return len(all) > 1
			})
			r := all[1]
			if off := r.Arrived - schemas.Tick(arrival.Time); len(all) != 2 || !r.Response || r.Cost != test.cost || r.Declared != test.declared || off < -10 || off > 10 ||
				r.Time-arrival.Time < int64(250*time.Millisecond) {
				t.Errorf("got %+v and %+v, want a response to the arrival", arrival, all[1:])
			}
			balanced(t, b, test.blocked)
		})
	}
}

// beginEnvoyEnding runs Envoy, whose log has the ends of requests.
func beginEnvoyEnding(t *testing.T, q question) string {
	t.Helper()
	return beginEnvoyLogging(t, q, receiving(t, q), "# additional_response", "additional_response")
}

// beginEnvoyStarting runs Envoy, whose log has the starts of requests, too.
func beginEnvoyStarting(t *testing.T, q question) string {
	t.Helper()
	listen := receiving(t, q, "\ncost: {field: response_headers.x-tokens}\narrivals: none", "", "# cost:", "cost:", "# arrivals:", "arrivals:")
	return beginEnvoyLogging(t, q, listen, "# additional_response", "additional_response", "# access_log_options", "access_log_options",
		"[x-api-key]", "[x-api-key, x-max-tokens]")
}

// receiving runs an ingest with deploy/envoy/holds.yaml, in which something is replaced, and returns where it listens.
func receiving(t *testing.T, q question, replace ...string) (listen string) {
	t.Helper()
	listen = testenv.FreeAddress(t)
	mapping := writeIn(t, t.TempDir(), "holds.yaml", configured(t, "envoy/holds.yaml", replace...))
	in := start(t, "ingest", "--brokers", q.brokers, "--grpc-listen", listen, "--listen", "127.0.0.1:0", "--mapping", mapping)
	processtest.AwaitReady(t, "http://"+in.WaitFor(`msg=listening address=(\S+)`, 10*time.Second), http.StatusOK, "")
	return listen
}

// beginNginxEnding runs nginx, and an ingest that follows its log, with the mapping of deploy/nginx and the lines of deploy/SERVERS.md.
func beginNginxEnding(t *testing.T, q question) string {
	t.Helper()
	log := filepath.Join(t.TempDir(), "access.log")
	document := configured(t, "SERVERS.md")
	_, lines, found := strings.Cut(document, "```yaml\narrivals: none\n")
	lines, _, closed := strings.Cut(lines, "```")
	if !found || !closed {
		t.Fatal("SERVERS.md has no lines of a mapping with arrivals: none")
	}
	mapping := writeIn(t, t.TempDir(), "mapping.yaml", configured(t, "nginx/mapping.yaml")+"arrivals: none\n"+lines)
	url := beginNginxLogging(t, q, log)
	start(t, "ingest", "--brokers", q.brokers, "--file", log, "--mapping", mapping, "--data", t.TempDir(), "--listen", "127.0.0.1:0")
	return url
}

// balanced sees that the noisy client has as many arrivals as responses. Those that bear an arrival are as many as the arrivals that count.
func balanced(t *testing.T, b *processtest.Sidecar, blocked bool) {
	t.Helper()
	var got string
	processtest.Eventually(t, 10*time.Second, "a response for each arrival", func() bool {
		var arrivals, blockedArrivals, responses, blockedResponses, bearing int
		for _, e := range requestsOf(t, b, "ip:127.0.0.2") {
			n, isBlocked := int(e.Count), 0
			if e.Blocked {
				isBlocked = n
			}
			if !e.Response {
				arrivals, blockedArrivals = arrivals+n, blockedArrivals+isBlocked
				continue
			}
			responses, blockedResponses = responses+n, blockedResponses+isBlocked
			if e.Arrived > 0 {
				bearing += n
			}
		}
		got = fmt.Sprintf("%d arrivals, %d of them blocked; %d responses, %d of them blocked, and %d bear an arrival", arrivals, blockedArrivals, responses, blockedResponses, bearing)
		known := blockedArrivals == 0
		if blocked {
			known = blockedArrivals == blockedResponses
		}
		return arrivals > 10 && arrivals == responses && blockedResponses > 0 && known && bearing == arrivals-blockedArrivals
	})
	t.Log(got)
}

// streams sends a request that takes as long as its response does.
func streams(url string) error {
	r, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("X-Api-Key", "k1")
	r.Header.Set("X-Max-Tokens", "1000")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("got %d, want 200", resp.StatusCode)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// requestsOf returns the entries of a caller in the topic of requests.
func requestsOf(t *testing.T, b *processtest.Sidecar, caller string) (of []schemas.Entry) {
	t.Helper()
	partitions, err := b.Client.Partitions(t.Context(), "floodgate.requests")
	if err != nil {
		t.Fatal(err)
	}
	for p := range partitions {
		next, end, err := b.Client.Range(t.Context(), "floodgate.requests", p)
		if err != nil {
			t.Fatal(err)
		}
		for next < end {
			batch, err := b.Client.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "floodgate.requests", Partition: p, Offset: next, MaxBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			for _, rec := range batch.Records {
				var f schemas.Frame
				if err := f.Decode(rec.Value); err != nil {
					t.Fatal(err)
				}
				for _, e := range f.Entries {
					if e.Caller().String() == caller {
						of = append(of, e)
					}
				}
			}
			next = batch.Next
		}
	}
	return of
}
