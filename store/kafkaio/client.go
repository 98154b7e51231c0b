package kafkaio

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
)

// Defaults and bounds of Config.
const (
	DefaultTimeout         = 5 * time.Second
	DefaultMaxDecompressed = 16 << 20
	// MaxResponse is the longest answer that is read from a broker, in bytes. Brokers cap batches at 1 MiB unless told
	// otherwise; a longer answer is refused before it is read.
	MaxResponse = 64 << 20
)

// Config says which cluster to speak to. Brokers is needed; the zero value of the rest is a plain connection.
type Config struct {
	Brokers  []string // host:port, to find the cluster by
	ClientID string   // shown in the brokers' logs and quotas; empty is "floodgate"
	TLS      *tls.Config
	SASL     sasl.Mechanism

	// Timeout bounds one call where its context does not bound it shorter; Fetch adds its MaxWait. 0 is DefaultTimeout.
	Timeout time.Duration

	// MaxDecompressed caps the memory that one record batch may take once unpacked, in bytes (64 a record count too). A
	// batch over it is skipped and reported, never unpacked. One Fetch returns less than twice as much. 0 is
	// DefaultMaxDecompressed.
	MaxDecompressed int

	// Dial opens connections; nil is TCP. TLS goes on top.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client speaks to a Kafka cluster. Its methods are safe for concurrent use. Make one with New.
type Client struct {
	config     Config
	addr       net.Addr
	transport  *kafka.Transport
	admin      *kafka.Client // the requests that kafka-go may answer: topics, offsets, metadata
	unpacker   *unpacker
	correlator atomic.Int32

	mu       sync.Mutex
	closed   bool                          // guarded by mu
	calls    map[uint64]context.CancelFunc // guarded by mu: those in flight
	lastCall uint64                        // guarded by mu
	era      uint64                        // guarded by mu: how often the pool was dropped
	wg       sync.WaitGroup                // calls in flight
}

// New returns a client. It does no I/O and starts no goroutine: the first call connects.
func New(c Config) *Client {
	if c.ClientID == "" {
		c.ClientID = "floodgate"
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.MaxDecompressed <= 0 {
		c.MaxDecompressed = DefaultMaxDecompressed
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: c.Timeout}).DialContext
	}
	transport := &kafka.Transport{
		Dial:        checkedDial(c.Dial),
		DialTimeout: c.Timeout,
		ClientID:    c.ClientID,
		TLS:         c.TLS,
		SASL:        c.SASL,
	}
	addr := kafka.TCP(c.Brokers...)
	return &Client{
		config:    c,
		addr:      addr,
		transport: transport,
		admin:     &kafka.Client{Addr: addr, Transport: transport},
		unpacker:  newUnpacker(c.MaxDecompressed),
		calls:     make(map[uint64]context.CancelFunc),
	}
}

// Close aborts the calls in flight, waits for them, and closes all connections. Calls after it return ErrClosed.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	for _, cancel := range c.calls {
		cancel()
	}
	c.mu.Unlock()
	c.wg.Wait()
	c.transport.CloseIdleConnections()
	c.unpacker.close()
}

// begin bounds a call by timeout and by Close. The caller defers end.
func (c *Client) begin(ctx context.Context, timeout time.Duration) (_ context.Context, end func(), err error) {
	if len(c.config.Brokers) == 0 || strings.TrimSpace(c.config.Brokers[0]) == "" {
		return nil, nil, ErrNoBrokers
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	c.lastCall++
	id := c.lastCall
	c.calls[id] = cancel
	c.wg.Add(1)
	return ctx, func() {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
		cancel()
		c.wg.Done()
	}, nil
}

// currentEra is to be read before a request and given to refresh after it failed.
func (c *Client) currentEra() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.era
}

// refresh drops idle connections and what is known of the cluster, so that the next request asks anew who leads what.
// Calls that failed in the same era cause one refresh, and requests in flight elsewhere are not disturbed.
func (c *Client) refresh(era uint64) {
	c.mu.Lock()
	first := era == c.era
	if first {
		c.era++
	}
	c.mu.Unlock()
	if first {
		c.transport.CloseIdleConnections()
	}
}

// doubt is called after a request that found no connection, or no answer on a shared one. If time ran out over that, the
// pool may be waiting for an answer that a silent network has swallowed, and so would the next call.
func (c *Client) doubt(ctx context.Context, era uint64) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		c.refresh(era)
	}
}

// retry calls f until it succeeds, fails for good, or has failed attempts times; f must be safe to repeat.
func (c *Client) retry(ctx context.Context, attempts int, f func() error) error {
	for i := 0; ; i++ {
		era := c.currentEra()
		err := f()
		if err == nil || ctx.Err() != nil {
			return err
		}
		// The layout may be old; and what is corrupt in flight is whole the next time.
		again := Temporary(err) || errors.Is(err, ErrNoTopic) || errors.Is(err, ErrCorrupt)
		if again {
			c.refresh(era)
		}
		if !again || i+1 >= attempts || pause(ctx, retryPause<<i) != nil {
			return err
		}
	}
}

// retryPause is the first wait between attempts; it doubles.
const retryPause = 25 * time.Millisecond

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failed wraps err with what was asked for, and says ErrClosed where it was Close that ended the call, and
// DeadlineExceeded where a connection noticed first: its deadline is the context's.
func (c *Client) failed(op, topic string, partition int, outcome Outcome, err error) error {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	switch {
	case closed && errors.Is(err, context.Canceled):
		err = ErrClosed
	case errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return &RequestError{Op: op, Topic: topic, Partition: partition, Outcome: outcome, Err: named(err)}
}
