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
	defaultMaxDecompressed = 16 << 20
	// maxBatch is the largest size of a record batch that is read, in bytes as stored (compressed or not). Brokers cap
	// batches at 1 MiB unless max.message.bytes says otherwise. Fetch passes over a longer one and reports it.
	maxBatch = 64 << 20
	// maxResponse is the largest size of an answer of a broker, in bytes: a batch of maxBatch and the fields around it. Of
	// a longer answer only the beginning is read.
	maxResponse = maxBatch + peekBytes
)

// Config says which cluster to speak to. Brokers is needed; the zero value of the rest is a plain connection.
type Config struct {
	Brokers  []string // host:port, to find the cluster by
	ClientID string   // shown in the brokers' logs and quotas; empty is "floodgate"
	Topics   []string // of all calls; empty is any. The client asks every few seconds where their partitions are, and keeps the answer
	TLS      *tls.Config
	SASL     sasl.Mechanism

	// Timeout bounds each call whose context has no shorter bound; Fetch adds its MaxWait. 0 is DefaultTimeout.
	Timeout time.Duration

	// MaxDecompressed caps the memory that the records of one Fetch take, in bytes: they take less than twice as much, with
	// 64 bytes counted for each record. A batch that unpacks to more is returned in pieces of a quarter of MaxDecompressed,
	// by one Fetch after the other. A longer record is skipped and reported; the records around it are returned. 0 is
	// 16 MiB.
	//
	// No batch is unpacked beyond 256 MiB and 64 times its own length: the rest of its records are skipped and reported. This
	// also bounds the time that a Fetch unpacks for, which its context does not interrupt.
	MaxDecompressed int

	// Dial opens connections; nil is TCP. TLS goes on top.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Observe, if set, is called for each call that has ended, by many goroutines at once, which wait: it must return quickly.
	Observe func(Call)
}

// Client speaks to a Kafka cluster. Its methods are safe for concurrent use. Make one with New.
type Client struct {
	config     Config
	addr       net.Addr
	transport  *kafka.Transport
	admin      *kafka.Client // the requests that kafka-go may answer: topics, offsets, metadata
	unpacker   *unpacker
	unfinished unfinished
	outages    outages
	correlator atomic.Int32

	mu       sync.Mutex
	closed   bool                          // guarded by mu
	calls    map[uint64]context.CancelFunc // guarded by mu: those in flight
	lastCall uint64                        // guarded by mu
	lanes    map[int32]*lane               // guarded by mu: by broker
	era      uint64                        // guarded by mu: how often the pool was dropped
	wg       sync.WaitGroup                // calls in flight, and the flights that they are in
	closing  chan struct{}                 // closed by Close
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
		c.MaxDecompressed = defaultMaxDecompressed
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: c.Timeout}).DialContext
	}
	transport := &kafka.Transport{
		Dial:        checkedDial(c.Dial, c.TLS),
		DialTimeout: c.Timeout,
		ClientID:    c.ClientID,
		SASL:        c.SASL,

		MetadataTopics: c.Topics,
	}
	addr := kafka.TCP(c.Brokers...)
	return &Client{
		config:    c,
		addr:      addr,
		transport: transport,
		admin:     &kafka.Client{Addr: addr, Transport: transport},
		unpacker:  newUnpacker(c.MaxDecompressed),
		calls:     make(map[uint64]context.CancelFunc),
		lanes:     make(map[int32]*lane),
		closing:   make(chan struct{}),
	}
}

// Close aborts the calls in flight, waits for them, and closes all connections. Calls after it return ErrClosed.
func (c *Client) Close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.closing)
	}
	for _, cancel := range c.calls {
		cancel()
	}
	c.mu.Unlock()
	c.wg.Wait()
	c.transport.CloseIdleConnections()
	c.unfinished.close()
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

// currentEra returns the era. A caller reads it before a request, and passes it to refresh if the request failed.
func (c *Client) currentEra() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.era
}

// refresh drops idle connections and the cached metadata, so that the next request asks again which broker leads which
// partition. Calls that failed in the same era cause one refresh. Other requests in flight continue.
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

// doubt refreshes the pool after a request that found no connection or got no answer before its time-out. The pool may still wait for
// an answer that the network has lost, and the next call would wait for it too.
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
		// The cached metadata may be old; and a batch that was damaged on the network may be whole the next time.
		again := Temporary(err) || errors.Is(err, ErrNoTopic) || errors.Is(err, ErrCorrupt)
		if again {
			c.refresh(era)
		}
		if !again || i+1 >= attempts || Sleep(ctx, retryPause<<i) != nil {
			return err
		}
	}
}

// retryPause is the first wait between attempts; it doubles.
const retryPause = 25 * time.Millisecond

// wholeTopic is the partition of a request about a topic.
const wholeTopic = -1

// failed wraps err with what was asked for. The error is ErrClosed if Close ended the call, and DeadlineExceeded if a
// connection noticed the deadline before the context did: both have the same deadline.
func (c *Client) failed(op, topic string, partition int, outcome Outcome, err error) error {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	err = withoutMethod(err)
	switch {
	case closed && errors.Is(err, context.Canceled):
		err = ErrClosed
	case errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return &RequestError{Op: op, Topic: topic, Partition: partition, Outcome: outcome, Err: named(err)}
}

// Ops of Call.
const (
	OpFetch   = "fetch"   // Fetch: it waits for records for up to FetchRequest.MaxWait
	OpProduce = "produce" // Produce
	OpRange   = "range"   // Range
	OpGroup   = "group"   // requests to the coordinator of a Group: a join waits for the other members
	OpOther   = "other"   // all other methods of Client
)

// Ops returns all ops.
func Ops() []string { return []string{OpFetch, OpProduce, OpRange, OpGroup, OpOther} }

// Call is a call of a method of a Client that has ended, with all its attempts, or a request of a Group.
type Call struct {
	Op   string // one of Ops
	Took time.Duration
	Err  error // nil if the call succeeded
}

// ended notes a call that has ended, and reports it to Config.Observe. It leaves out calls that their caller or Close has ended: they
// say nothing about Kafka.
func (c *Client) ended(op string, began time.Time, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed) || errors.Is(err, ErrNoBrokers) {
		return
	}
	c.outages.note(began, err)
	if c.config.Observe != nil {
		c.config.Observe(Call{Op: op, Took: time.Since(began), Err: err})
	}
}

// observe begins a call, and returns a function to be deferred, which reports the call with the error that the method returns.
func (c *Client) observe(op string) func(err *error) {
	began := time.Now()
	return func(err *error) { c.ended(op, began, *err) }
}

// Log reads partitions and appends to them. A *Client is a Log.
type Log interface {
	Fetcher
	Producer
}

var _ Log = (*Client)(nil)
