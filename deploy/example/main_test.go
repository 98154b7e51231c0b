package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// hello is an app that answers at once.
func hello() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	return mux
}

// start serves until the test ends or stop is called, and expects that to be clean. It returns the URLs of the server and of its
// metrics.
func start(t *testing.T, app http.Handler, broker string) (url, metrics string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- serve(ctx, app, l, m, kafkalink.Config{Brokers: []string{broker}}) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("serve: got %v, want a clean end", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("serve goes on 20 s after it was to end")
		}
	})
	t.Cleanup(stop)
	return "http://" + l.Addr().String(), "http://" + m.Addr().String(), stop
}

// get returns the status of one request with an API key.
func get(t *testing.T, url, key string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// eventually asks until the answer is nil.
func eventually(t *testing.T, ask func() error) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(err)
		}
	}
}

func TestServesWithoutKafka(t *testing.T) {
	url, _, _ := start(t, hello(), testenv.FreeAddress(t))
	for range 100 {
		if got := get(t, url, "k"); got != http.StatusOK {
			t.Fatalf("got status %d, want 200: gates are open until they hear otherwise", got)
		}
	}
}

func TestListenTwice(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, env := range []environment{
		{"LISTEN": l.Addr().String(), "FLOODGATE_BROKERS": "127.0.0.1:1"},
		{"LISTEN": "127.0.0.1:0", "METRICS": l.Addr().String(), "FLOODGATE_BROKERS": "127.0.0.1:1"},
	} {
		if err := realMain(t.Context(), env.get); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%v: got %v, want address in use", env, err)
		}
	}
}

// kafka starts a broker with floodgate's topics, of one partition each, until the test ends.
func kafka(t *testing.T) (addr string, c *kafkaio.Client) {
	t.Helper()
	broker, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Close() })
	c = kafkaio.New(kafkaio.Config{Brokers: []string{broker.Addr()}})
	t.Cleanup(c.Close)
	if _, err := c.EnsureTopics(t.Context(), kafkaio.Specs(schemas.DefaultTopicNames(), 1)...); err != nil {
		t.Fatal(err)
	}
	return broker.Addr(), c
}

// TestSlowRequestsAreCountedAtTheEnd stops the server while it works on five requests. It answers them first; then the link sends
// their responses.
func TestSlowRequestsAreCountedAtTheEnd(t *testing.T) {
	const slow = 5
	broker, c := kafka(t)
	working, goOn := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		working <- struct{}{}
		<-goOn
		w.WriteHeader(http.StatusNoContent)
	})
	url, metrics, stop := start(t, mux, broker)
	eventually(t, func() error { // or it stops before it knows where to send
		if !strings.Contains(scrape(t, metrics), "\nfloodgate_link_up 1\n") {
			return errors.New("the link is not up")
		}
		return nil
	})
	var asking sync.WaitGroup
	for range slow {
		asking.Go(func() {
			if got := get(t, url, "k"); got != http.StatusNoContent {
				t.Errorf("got status %d, want 204", got)
			}
		})
	}
	for range slow {
		<-working
	}
	asking.Go(stop)
	eventually(t, func() error {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err == nil {
			return errors.Join(errors.New("the server listens"), conn.Close())
		}
		return nil
	})
	close(goOn)
	asking.Wait()
	b, err := c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: schemas.DefaultTopicNames().Requests})
	if err != nil {
		t.Fatal(err)
	}
	requests, responses := 0, 0
	var f schemas.Frame
	for _, r := range b.Records {
		if err := f.Decode(r.Value); err != nil {
			t.Fatal(err)
		}
		for _, e := range f.Entries {
			switch {
			case e.Kind != "key":
			case e.Response:
				responses += int(e.Count)
			default:
				requests += int(e.Count)
			}
		}
	}
	if requests != slow || responses != slow {
		t.Errorf("got %d requests and %d responses in the log, want %d of each", requests, responses, slow)
	}
}

// TestRecordsAndCloses plays the analyzer: it waits for a request in the log, closes its key, and looks at the answers.
func TestRecordsAndCloses(t *testing.T) {
	broker, c := kafka(t)
	names := schemas.DefaultTopicNames()
	url, metrics, _ := start(t, hello(), broker)
	noisy := schemas.Caller{Kind: "key", ID: "noisy"}
	if got := get(t, url, noisy.ID); got != http.StatusOK {
		t.Fatalf("got status %d, want 200", got)
	}
	eventually(t, func() error { return recorded(t.Context(), c, names.Requests, noisy) })

	closeGate(t, c, names.Decisions, noisy)
	eventually(t, func() error {
		if got := get(t, url, noisy.ID); got != http.StatusTooManyRequests {
			return fmt.Errorf("got status %d, want 429", got)
		}
		return nil
	})
	if got := get(t, url, "quiet"); got != http.StatusOK {
		t.Errorf("got status %d for another key, want 200", got)
	}
	shown := scrape(t, metrics)
	if want := `floodgate_gate_requests_refused_total{mode="enforce",rule="r"}`; !strings.Contains(shown, want) {
		t.Errorf("got\n%s\nwant %s", shown, want)
	}
}

// scrape returns what the server shows to Prometheus.
func scrape(t *testing.T, metrics string) string {
	t.Helper()
	resp, err := http.Get(metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	shown, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(shown)
}

// recorded reports whether the log has a request of the caller.
func recorded(ctx context.Context, c *kafkaio.Client, topic string, want schemas.Caller) error {
	b, err := c.Fetch(ctx, kafkaio.FetchRequest{Topic: topic})
	if err != nil {
		return err
	}
	var f schemas.Frame
	for _, r := range b.Records {
		if err := f.Decode(r.Value); err != nil {
			return err
		}
		for _, e := range f.Entries {
			if e.Caller() == want && e.Resource == "GET /" && !e.Blocked {
				return nil
			}
		}
	}
	return fmt.Errorf("got no request of %v in %d frames", want, len(b.Records))
}

// closeGate writes what an analyzer would: a claim, and then a decision.
func closeGate(t *testing.T, c *kafkaio.Client, topic string, caller schemas.Caller) {
	t.Helper()
	now := time.Now()
	claim, err := pb.AppendClaim(nil, &schemas.Claim{Epoch: 1, Nonce: 1, Owner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	decision, err := pb.AppendDecision(nil, &schemas.Decision{
		Rule: "r", Caller: caller, Mode: schemas.ModeEnforce, Epoch: 1, Seq: 1,
		CloseAt: now.UnixNano(), Until: now.Add(time.Minute).UnixNano(),
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Produce(t.Context(), topic, 0,
		kafkaio.Message{Time: now.UnixNano(), Value: claim}, kafkaio.Message{Time: now.UnixNano(), Value: decision})
	if err != nil {
		t.Fatal(err)
	}
}

// environment is the variables of a process.
type environment map[string]string

func (e environment) get(name string) string { return e[name] }

// A server with a key that cannot be read does not start: under another key its requests would not be counted.
func TestABadPartitionKeyIsReportedAtTheStart(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("0011"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{bad: schemas.ErrPartitionKey, filepath.Join(dir, "none"): os.ErrNotExist} {
		if err := realMain(t.Context(), environment{"LISTEN": "127.0.0.1:0", "FLOODGATE_PARTITION_KEY_FILE": path}.get); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", path, err, want)
		}
	}
}
