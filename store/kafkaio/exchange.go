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

// exchange is one request and its answer. This package writes and reads them itself, on a connection of kafka-go's pool. So
// the caller knows whether the request was written in full, gets the answer as bytes, and owns its buffers again as soon as
// the call returns.
//
// An exchange is waiting, then started when the pool has found a connection, then finished. A caller that gives up either
// prevents the start, or breaks the connection and waits until the exchange is finished, which then takes no time.
type exchange struct {
	request       protocol.Message
	minVersion    int16
	clientID      string
	correlationID int32
	slot          *slot                     // nil is any connection to the request's own broker
	era           uint64                    // of the pool
	versions      map[protocol.ApiKey]int16 // negotiated; set before the exchange starts
	version       int16                     // of the request, as negotiated
	keep          keep                      // nil refuses an answer over maxResponse
	roundTrip     context.CancelFunc        // ends the pool's round trip, if there is one, while the slot holds the connection

	mu       sync.Mutex
	state    exchangeState // guarded by mu
	broken   bool          // guarded by mu: the connection must not be used again
	conn     deadliner     // guarded by mu: not nil while the exchange is started
	finished chan struct{} // closed at the end of a started exchange

	// The result; read it after finished is closed.
	sent bool // the request was written in full
	body []byte
	cut  bool // body is the beginning of a longer answer; the connection is closed
	err  error
}

// keep gets the first peekBytes of an answer that is longer than maxResponse, and returns how many bytes of the answer to
// read. The rest is not read.
type keep func(head []byte, version int16) int64

// peekBytes is enough for everything before the record set in a fetch answer for one partition, and for a batch's header.
const peekBytes = 4 << 10

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

// Broker routes to the slot's broker, or to the request's own.
func (x *exchange) Broker(c protocol.Cluster) (protocol.Broker, error) {
	if x.slot != nil {
		b, ok := c.Brokers[x.slot.broker]
		if !ok {
			return protocol.Broker{}, fmt.Errorf("%w: broker %d has left the cluster", kafka.BrokerNotAvailable, x.slot.broker)
		}
		return b, nil
	}
	m, ok := x.request.(protocol.BrokerMessage)
	if !ok {
		panic(fmt.Sprintf("BUG: exchange of %T, which is not routed to a broker", x.request))
	}
	return m.Broker(c)
}

// Required stores the negotiated version, and returns true so that kafka-go calls RawExchange.
func (x *exchange) Required(versions map[protocol.ApiKey]int16) bool {
	x.versions, x.version = versions, versions[x.request.ApiKey()]
	return true
}

// RawExchange writes the request and reads the answer, and then those of the exchanges that come to its slot. kafka-go calls it on the
// connection's goroutine, and closes the connection if it returns an error.
func (x *exchange) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	for next := x; next != nil; next = next.slot.await() {
		if !next.start(rw) {
			return nil, errAborted
		}
		next.err = next.do(rw)
		broken := next.finish()
		if next.err != nil {
			return nil, next.err
		}
		if broken {
			return nil, errAborted // the answer is good, but the connection was broken
		}
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
	if x.conn, _ = rw.(deadliner); x.conn != nil {
		_ = x.conn.SetDeadline(time.Time{}) // of the exchange before; an error means that it is closed, as the next write says
	}
	return true
}

// finish publishes the result of the exchange, and reports whether a caller that gave up broke the connection. If not, the exchange's
// slot holds the connection.
func (x *exchange) finish() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.conn = nil
	x.broken = x.broken || x.cut
	if !x.broken && x.err == nil {
		x.slot.hold(x)
	}
	close(x.finished)
	if x.roundTrip != nil {
		x.roundTrip()
	}
	return x.broken
}

func (x *exchange) do(rw io.ReadWriter) error {
	if x.version < x.minVersion {
		return fmt.Errorf("broker speaks %s up to version %d; want %d or later: %w",
			x.request.ApiKey(), x.version, x.minVersion, kafka.UnsupportedVersion)
	}
	if raw, ok := x.request.(*topicIDsRequest); ok {
		if _, err := rw.Write(raw.encode(x.correlationID, x.clientID)); err != nil {
			return err
		}
	} else if err := protocol.WriteRequest(rw, x.version, x.correlationID, x.clientID, x.request); err != nil {
		return err
	}
	x.sent = true
	var err error
	x.body, x.cut, err = x.readAnswer(rw)
	return err
}

// abandon is called by a caller that gives up: when it returns, nothing of the exchange is running. It returns errAborted
// if the exchange never started, and else its result.
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

// readAnswer reads one size-delimited answer, without its correlation id. If cut is true, the answer has more bytes.
func (x *exchange) readAnswer(r io.Reader) (body []byte, cut bool, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, false, fmt.Errorf("read answer: %w", err)
	}
	size := int64(int32(binary.BigEndian.Uint32(head[:4]))) - 4
	if size < 0 {
		return nil, false, fmt.Errorf("read answer: %w: got %d bytes, want 0 or more", errWrongAnswer, size)
	}
	if cut = size > maxResponse; cut && x.keep == nil {
		return nil, false, fmt.Errorf("read answer: %w: got %d bytes, want up to %d", ErrTooLarge, size, maxResponse)
	}
	if id := int32(binary.BigEndian.Uint32(head[4:])); id != x.correlationID {
		return nil, false, fmt.Errorf("read answer: %w: got id %d, want %d", errWrongAnswer, id, x.correlationID)
	}
	if cut {
		if body, err = readUpTo(r, nil, peekBytes); err == nil {
			body, err = readUpTo(r, body, min(x.keep(body, x.version), maxResponse))
		}
	} else {
		body, err = readUpTo(r, nil, size)
	}
	return body, cut, err
}

// readUpTo reads until body has size bytes. The size may be false, so the buffer grows only with the bytes that have come.
func readUpTo(r io.Reader, body []byte, size int64) ([]byte, error) {
	if body == nil {
		body = make([]byte, 0, min(size, 1<<20))
	}
	for int64(len(body)) < size {
		if len(body) == cap(body) {
			grown := make([]byte, len(body), min(size, max(1<<20, 4*int64(cap(body)))))
			copy(grown, body)
			body = grown
		}
		n, err := io.ReadFull(r, body[len(body):min(int64(cap(body)), size)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) && len(body) > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, fmt.Errorf("read answer: %w", err)
		}
	}
	return body, nil
}

// exchange sends a request to the leader of its partition and returns the answer's body and version. If a request was
// certainly not sent, because a pooled connection was stale, it is built and sent again (kafka-go's records can be written
// only once).
func (c *Client) exchange(ctx context.Context, build func() protocol.Message, minVersion int16) (body []byte, version int16, sent bool, err error) {
	x, err := c.exchangeAt(ctx, nil, build, minVersion, nil)
	if err != nil {
		return nil, 0, x.sent, err
	}
	return x.body, x.version, true, nil
}

// exchangeAt is exchange, but it sends to the slot's broker, which the caller has to itself, and reads the beginning of an answer that is
// too long. The exchange that it returns is finished, and never nil.
func (c *Client) exchangeAt(ctx context.Context, s *slot, build func() protocol.Message, minVersion int16, k keep) (*exchange, error) {
	const attempts = 3 // the refresh after the first leaves no stale connection; brokers do restart twice
	for i := 0; ; i++ {
		era := c.currentEra()
		x := &exchange{
			request: build(), minVersion: minVersion, clientID: c.config.ClientID,
			correlationID: c.correlator.Add(1), finished: make(chan struct{}), keep: k, slot: s, era: era,
		}
		err := c.roundTrip(ctx, x)
		if result := x.abandon(); !errors.Is(result, errAborted) {
			err = result // the result, even if the context ended at the same instant
		} else {
			c.doubt(ctx, era)
			if err == nil {
				err = errAborted
			}
		}
		if err == nil {
			return x, nil
		}
		if x.sent || !errors.Is(err, errStale) || i+1 >= attempts || ctx.Err() != nil {
			return x, c.explain(ctx, err)
		}
		c.refresh(era)
	}
}

// roundTrip waits until x is finished, or cannot start, or ctx ends.
func (c *Client) roundTrip(ctx context.Context, x *exchange) error {
	if x.slot.offer(x) {
		select {
		case <-x.finished:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ctx, x.roundTrip = context.WithCancel(ctx)
	defer x.roundTrip()
	_, err := c.transport.RoundTrip(ctx, c.addr, x)
	return err
}

// explain finds the reason behind kafka-go's "no such topic", which it also returns when no broker could be reached, and
// wraps errors in those of this package.
func (c *Client) explain(ctx context.Context, err error) error {
	if ctxErr := ctx.Err(); ctxErr != nil && !errors.Is(err, ctxErr) {
		return fmt.Errorf("%w: %w", ctxErr, err)
	}
	if !errors.Is(err, protocol.ErrNoTopic) && !errors.Is(err, protocol.ErrNoPartition) {
		return err
	}
	// The pool answers from its cache: the error of the last discovery, if it failed.
	if _, discovery := c.transport.RoundTrip(ctx, c.addr, &metadata.Request{TopicNames: []string{}}); discovery != nil {
		return fmt.Errorf("find the leader: %w", discovery)
	}
	return fmt.Errorf("%w: %w", ErrNoTopic, err)
}
