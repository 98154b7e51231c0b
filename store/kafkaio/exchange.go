package kafkaio

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// exchange is one request and its answer, written and read by us on a connection of kafka-go's pool. It exists so that
// the caller knows whether the request was written in full, gets the answer as bytes, and owns its buffers again as soon
// as the call returns.
//
// It goes from waiting to started when the pool has found a connection, and then to finished. A caller that gives up
// either keeps it from starting, or breaks the connection and waits for the finish, which is then prompt.
type exchange struct {
	request       protocol.Message
	minVersion    int16
	clientID      string
	correlationID int32
	version       int16 // negotiated; set before the exchange starts

	mu       sync.Mutex
	state    exchangeState // guarded by mu
	broken   bool          // guarded by mu: the connection must not be used again
	conn     deadliner     // guarded by mu: not nil while an exchange is on
	finished chan struct{} // closed at the end of a started exchange

	// What came of it; read after finished.
	sent bool // the request was written in full
	body []byte
	err  error
}

type exchangeState uint8

const (
	exchangeWaiting exchangeState = iota
	exchangeStarted
	exchangeAborted
)

type deadliner interface{ SetDeadline(time.Time) error }

var (
	_ protocol.BrokerMessage = (*exchange)(nil)
	_ protocol.RawExchanger  = (*exchange)(nil)
)

// ApiKey says which API the request belongs to.
func (x *exchange) ApiKey() protocol.ApiKey { return x.request.ApiKey() } //nolint:revive // the interface's name

// Broker routes to the leader that the request says.
func (x *exchange) Broker(c protocol.Cluster) (protocol.Broker, error) {
	m, ok := x.request.(protocol.BrokerMessage)
	if !ok {
		panic(fmt.Sprintf("BUG: exchange of %T, which is not routed to a broker", x.request))
	}
	return m.Broker(c)
}

// Required takes the negotiated version, and the exchange over from kafka-go.
func (x *exchange) Required(versions map[protocol.ApiKey]int16) bool {
	x.version = versions[x.request.ApiKey()]
	return true
}

// RawExchange writes the request and reads the answer. kafka-go calls it on the connection's goroutine, and closes the
// connection if it returns an error.
func (x *exchange) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if !x.start(rw) {
		return nil, errAborted
	}
	x.err = x.do(rw)
	broken := x.finish()
	if x.err != nil {
		return nil, x.err
	}
	if broken {
		return nil, errAborted // the answer is good, the connection is not
	}
	return x, nil
}

func (x *exchange) start(rw io.ReadWriter) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state != exchangeWaiting {
		return false
	}
	x.state = exchangeStarted
	x.conn, _ = rw.(deadliner)
	return true
}

// finish publishes what came of the exchange, and reports whether a caller that gave up broke the connection.
func (x *exchange) finish() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.conn = nil
	close(x.finished)
	return x.broken
}

func (x *exchange) do(rw io.ReadWriter) error {
	if x.version < x.minVersion {
		return fmt.Errorf("broker speaks %s up to version %d; want %d or later: %w",
			x.request.ApiKey(), x.version, x.minVersion, kafka.UnsupportedVersion)
	}
	if err := protocol.WriteRequest(rw, x.version, x.correlationID, x.clientID, x.request); err != nil {
		return err
	}
	x.sent = true
	body, err := readAnswer(rw, x.correlationID)
	x.body = body
	return err
}

// abandon ends the caller's interest: afterwards nothing of the exchange is running. It returns errAborted if the
// exchange never started, and else what came of it.
func (x *exchange) abandon() error {
	x.mu.Lock()
	switch {
	case x.state == exchangeWaiting:
		x.state = exchangeAborted
		x.mu.Unlock()
		return errAborted
	case x.conn != nil:
		x.broken = true
		_ = x.conn.SetDeadline(time.Unix(1, 0)) // an error means that it is closed already
	}
	x.mu.Unlock()
	<-x.finished
	return x.err
}

// readAnswer reads one size-delimited answer, without its correlation id.
func readAnswer(r io.Reader, correlationID int32) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	size := int64(int32(binary.BigEndian.Uint32(head[:4]))) - 4
	if size < 0 || size > MaxResponse {
		return nil, fmt.Errorf("read answer: %w: got %d bytes, want up to %d", ErrTooLarge, size, MaxResponse)
	}
	if id := int32(binary.BigEndian.Uint32(head[4:])); id != correlationID {
		return nil, fmt.Errorf("read answer: %w: got id %d, want %d", errNotAsked, id, correlationID)
	}
	// The size is a claim: memory follows the bytes that are there.
	body := make([]byte, 0, min(size, 1<<20))
	for int64(len(body)) < size {
		if len(body) == cap(body) {
			grown := make([]byte, len(body), min(size, 4*int64(cap(body))))
			copy(grown, body)
			body = grown
		}
		n, err := io.ReadFull(r, body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err != nil {
			return nil, fmt.Errorf("read answer: %w", err)
		}
	}
	return body, nil
}

// exchange sends a request to the leader it names and returns the answer's body and version. A request that was provably
// not sent because a pooled connection was stale is made and sent again (kafka-go's records can be written only once).
func (c *Client) exchange(ctx context.Context, build func() protocol.Message, minVersion int16) (body []byte, version int16, sent bool, err error) {
	const attempts = 3 // the refresh after the first leaves no stale connection; brokers do restart twice
	for i := 0; ; i++ {
		era := c.currentEra()
		x := &exchange{
			request: build(), minVersion: minVersion, clientID: c.config.ClientID,
			correlationID: c.correlator.Add(1), finished: make(chan struct{}),
		}
		_, err := c.transport.RoundTrip(ctx, c.addr, x)
		if came := x.abandon(); !errors.Is(came, errAborted) {
			err = came // what came of it, also where the context ended in the same instant
		} else {
			c.doubt(ctx, era)
			if err == nil {
				err = errAborted
			}
		}
		if err == nil {
			return x.body, x.version, true, nil
		}
		if x.sent || !errors.Is(err, errStale) || i+1 >= attempts || ctx.Err() != nil {
			return nil, 0, x.sent, c.explain(ctx, x.request, err)
		}
		c.refresh(era)
	}
}

// explain finds the reason behind kafka-go's "no such topic", which it also says when no broker could be reached, and puts
// our names on errors.
func (c *Client) explain(ctx context.Context, request protocol.Message, err error) error {
	if ctxErr := ctx.Err(); ctxErr != nil && !errors.Is(err, ctxErr) {
		return fmt.Errorf("%w: %w", ctxErr, err)
	}
	if !errors.Is(err, protocol.ErrNoTopic) && !errors.Is(err, protocol.ErrNoPartition) {
		return err
	}
	// Answered from the pool's memory: the error of the last discovery, if it failed.
	if _, discovery := c.transport.RoundTrip(ctx, c.addr, &metadata.Request{TopicNames: []string{}}); discovery != nil {
		return fmt.Errorf("find %s leader: %w", request.ApiKey(), discovery)
	}
	return fmt.Errorf("%w: %w", ErrNoTopic, err)
}
