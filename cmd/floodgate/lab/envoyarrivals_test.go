//go:build lab

package lab

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// TestEnvoySaysWhenRequestsArriveAndEnd: with the shipped configuration and holds.yaml, the arrival of a request is in the log while it
// runs. Its response follows at the end, says when it arrived, and has its cost. Each request has one of both, whoever reports arrivals.
func TestEnvoySaysWhenRequestsArriveAndEnd(t *testing.T) {
	testenv.Program(t, "envoy")
	for _, test := range []struct {
		name     string
		mapping  []string // replaced in holds.yaml
		envoy    []string // replaced in accesslog.yaml
		sidecar  []string
		declared int64
		blocked  bool // arrivals know that their requests are refused
	}{
		{name: "the sidecar reports arrivals", sidecar: []string{"--record"}, blocked: true},
		{
			name: "Envoy logs arrivals", declared: 1000,
			mapping: []string{
				"\ncost: {field: response_headers.x-tokens}\narrivals: none", "", "# cost:", "cost:", "# arrivals:", "arrivals:",
			},
			envoy: []string{"# access_log_options", "access_log_options", "[x-api-key]", "[x-api-key, x-max-tokens]"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := processtest.NewSidecar(t, start, append(test.sidecar, "--trusted", "127.0.0.1/32", "--callers", "key=X-Api-Key")...)
			release, q := make(chan struct{}), asks(b)
			model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Tokens", "812")
				w.WriteHeader(http.StatusOK)
				if r.Header.Get("X-Api-Key") != "" {
					_ = http.NewResponseController(w).Flush() // the client is gone, or it is not
					<-release
				}
			}))
			t.Cleanup(model.Close)
			q.backend = model.Listener.Addr().String()
			listen := testenv.FreeAddress(t)
			mapping := writeIn(t, t.TempDir(), "holds.yaml", configured(t, "envoy/holds.yaml", test.mapping...))
			in := start(t, "ingest", "--brokers", b.Broker, "--grpc-listen", listen, "--listen", "127.0.0.1:0", "--mapping", mapping)
			processtest.AwaitReady(t, "http://"+in.WaitFor(`msg=listening address=(\S+)`, 10*time.Second), http.StatusOK, "")
			url := beginEnvoyLogging(t, q, listen, append(test.envoy, "# additional_response", "additional_response")...)
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
			if off := r.Arrived - schemas.Tick(arrival.Time); len(all) != 2 || !r.Response || r.Cost != 812 || r.Declared != test.declared || off < -10 || off > 10 ||
				r.Time-arrival.Time < int64(250*time.Millisecond) {
				t.Errorf("got %+v and %+v, want a response to the arrival", arrival, all[1:])
			}
			balanced(t, b, test.blocked)
		})
	}
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
