package kafkaio

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio/embedded"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/twmb/franz-go/pkg/kfake"
)

// TestNewDoesNothing makes a client of an address that leads nowhere, and only looks at it.
func TestNewDoesNothing(t *testing.T) {
	var w weather
	c := New(Config{Brokers: []string{"192.0.2.1:9092"}, Dial: w.dial})
	if n := w.dials.Load(); n != 0 {
		t.Errorf("got %d dials, want none", n)
	}
	if c.config.Timeout != DefaultTimeout || c.config.MaxDecompressed != DefaultMaxDecompressed || c.config.ClientID != "floodgate" {
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
		if err := c.Reachable(t.Context()); err == nil {
			t.Errorf("%s: got in", name)
		}
	}
}

func certPool(s *httptest.Server) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return pool
}
