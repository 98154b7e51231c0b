package kafkaio

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// TestNewDoesNothing makes a client of an address that leads nowhere, and only looks at it.
func TestNewDoesNothing(t *testing.T) {
	var w weather
	c := New(Config{Brokers: []string{"192.0.2.1:9092"}, Dial: w.dial})
	if n := w.dials.Load(); n != 0 {
		t.Errorf("got %d dials, want none", n)
	}
	if c.config.Timeout != DefaultTimeout || c.config.MaxDecompressed != defaultMaxDecompressed || c.config.ClientID != "floodgate" {
		t.Errorf("got %+v, want the defaults", c.config)
	}
	c.Close()
}

func TestNoBrokers(t *testing.T) {
	for _, brokers := range [][]string{nil, {}, {""}, {"  "}} {
		c := startClient(t, Config{Brokers: brokers})
		if _, err := c.Produce(t.Context(), "t", 0, Message{}); !errors.Is(err, ErrNoBrokers) || OutcomeOf(err) != Unsent || Temporary(err) {
			t.Errorf("%q: got %v, want ErrNoBrokers", brokers, err)
		}
	}
}

func TestProduceNothing(t *testing.T) {
	c := startClient(t, Config{Brokers: []string{"192.0.2.1:9092"}})
	if _, err := c.Produce(t.Context(), "t", 0); !errors.Is(err, ErrNoMessages) || OutcomeOf(err) != Unsent {
		t.Errorf("got %v, want ErrNoMessages", err)
	}
}

// TestOneRefreshAnEra lets many calls fail at once, and counts what they do to the pool.
func TestOneRefreshAnEra(t *testing.T) {
	c := startClient(t, Config{Brokers: []string{"192.0.2.1:9092"}})
	era := c.currentEra()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { c.refresh(era) })
	}
	wg.Wait()
	if got := c.currentEra(); got != era+1 {
		t.Errorf("got %d refreshes, want 1", got-era)
	}
	c.refresh(era) // late
	c.refresh(era + 1)
	if got := c.currentEra(); got != era+2 {
		t.Errorf("got %d refreshes, want 2", got-era)
	}
}

// TestBuffersAreTheCallersAgain reuses a message's memory as soon as Produce has returned, however it returned. The race
// detector looks on.
func TestBuffersAreTheCallersAgain(t *testing.T) {
	var w weather
	_, c := withTopic(t, 1, Config{Dial: w.dial})
	value := make([]byte, 100_000)
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*200*time.Microsecond)
		w.hole.Store(i%2 == 0)
		_, _ = c.Produce(ctx, "t", 0, Message{Value: value}) // whatever comes of it
		cancel()
		for j := range value {
			value[j]++
		}
	}
	w.hole.Store(false)
	for _, r := range fetchAll(t, c, "t", 0, 0) {
		for _, b := range r.Value {
			if b != r.Value[0] {
				t.Fatalf("offset %d: got a value that changed while it was written", r.Offset)
			}
		}
	}
}

// TestSecrets reaches a broker that wants TLS and SASL, with requests and with groups, and only with the right ones.
func TestSecrets(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	trust := &tls.Config{RootCAs: certPool(server), ServerName: "example.com", MinVersion: tls.VersionTLS12}
	b := startBroker(t, embedded.Options{Cluster: []kfake.Opt{
		kfake.TLS(server.TLS), kfake.EnableSASL(), kfake.Superuser("PLAIN", "bob", "secret"),
	}})
	bob := plain.Mechanism{Username: "bob", Password: "secret"}
	for name, config := range map[string]Config{
		"plain": {TLS: trust, SASL: bob},
	} {
		config.Brokers = b.Addrs()
		c := startClient(t, config)
		makeTopic(t, c, name, 1)
		produce(t, c, name, 0, "x")
		if got := fetchAll(t, c, name, 0, 0); len(got) != 1 {
			t.Errorf("%s: got %d records, want 1", name, len(got))
		}
		g, err := NewGroup(GroupConfig{Client: c, Group: name, Topic: name})
		if err != nil {
			t.Fatal(err)
		}
		if gen := nextGeneration(t, g); len(gen.Partitions) != 1 {
			t.Errorf("%s: got partitions %v, want one", name, gen.Partitions)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	for name, config := range map[string]Config{
		"no TLS":         {SASL: bob},
		"another's cert": {TLS: &tls.Config{MinVersion: tls.VersionTLS12}, SASL: bob},
		"another's name": {TLS: &tls.Config{RootCAs: certPool(server), ServerName: "kafka.example.org", MinVersion: tls.VersionTLS12}, SASL: bob},
		"no password":    {TLS: trust},
		"wrong password": {TLS: trust, SASL: plain.Mechanism{Username: "bob", Password: "guess"}},
	} {
		config.Brokers, config.Timeout = b.Addrs(), time.Second
		c := startClient(t, config)
		if err := c.CheckBrokers(t.Context()); err == nil {
			t.Errorf("%s: got in", name)
		}
	}
}

func certPool(s *httptest.Server) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return pool
}

// heard is the calls that a Client has reported.
type heard struct {
	mu    sync.Mutex
	calls []Call
}

func (h *heard) observe(c Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, c)
}

func (h *heard) take() []Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := h.calls
	h.calls = nil
	return calls
}

// TestCallsAreObserved: each method that speaks to Kafka says once what became of it, also when it fails; a call that its own caller
// or Close has ended says nothing of Kafka.
func TestCallsAreObserved(t *testing.T) {
	var h heard
	refused := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
	c := startClient(t, Config{Brokers: []string{"127.0.0.1:1"}, Dial: refused, Timeout: 300 * time.Millisecond, Observe: h.observe})
	methods := map[string]func(ctx context.Context) error{
		"Fetch": func(ctx context.Context) error { _, err := c.Fetch(ctx, FetchRequest{Topic: "t"}); return err },
		"Produce": func(ctx context.Context) error {
			_, err := c.Produce(ctx, "t", 0, Message{Value: []byte("v")})
			return err
		},
		"Range":        func(ctx context.Context) error { _, _, err := c.Range(ctx, "t", 0); return err },
		"Partitions":   func(ctx context.Context) error { _, err := c.Partitions(ctx, "t"); return err },
		"Identity":     func(ctx context.Context) error { _, err := c.Identity(ctx, "t"); return err },
		"EnsureTopics": func(ctx context.Context) error { _, err := c.EnsureTopics(ctx, TopicSpec{Name: "t"}); return err },
		"CheckTopics":  func(ctx context.Context) error { _, err := c.CheckTopics(ctx, TopicSpec{Name: "t"}); return err },
		"CheckBrokers": c.CheckBrokers,
	}
	ops := map[string]string{"Fetch": OpFetch, "Produce": OpProduce, "Range": OpRange}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, method := range methods {
		want := OpOther
		if op, ok := ops[name]; ok {
			want = op
		}
		err := method(t.Context())
		calls := h.take()
		if err == nil || len(calls) != 1 || calls[0].Op != want || !errors.Is(calls[0].Err, err) || calls[0].Took < 0 {
			t.Errorf("%s: got %v and %+v, want one call of op %s with that error", name, err, calls, want)
		}
		if !slices.Contains(Ops(), want) {
			t.Errorf("%s: op %s is not among Ops", name, want)
		}
		err = method(ended)
		for _, c := range h.take() {
			if err == nil || errors.Is(c.Err, context.Canceled) {
				t.Errorf("%s: got %v and call %+v, want none: its caller ended it", name, err, c)
			}
		}
	}
	c.Close()
	if err := c.CheckBrokers(t.Context()); !errors.Is(err, ErrClosed) || len(h.take()) > 0 {
		t.Errorf("closed: got %v, want %v and no call", err, ErrClosed)
	}
}
