package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
)

// coordinator sends requests to the broker that coordinates one group. Requests that are in flight at once have
// connections of their own, so that a heartbeat does not wait behind a join. Its methods are safe for concurrent use.
type coordinator struct {
	group      string
	clientID   string
	timeout    time.Duration // of one request
	addr       net.Addr
	transport  *kafka.Transport
	conns      *connSet
	correlator atomic.Int32
	ended      func(op string, began time.Time, err error) // see Client.ended

	mu    sync.Mutex
	node  int32 // guarded by mu
	known bool  // guarded by mu: node is the coordinator
}

func newCoordinator(c *Client, group string, timeout time.Duration) *coordinator {
	conns := newConnSet(c.config.Dial)
	return &coordinator{
		group: group, clientID: c.config.ClientID, timeout: timeout, addr: c.addr, conns: conns, ended: c.ended,
		transport: &kafka.Transport{
			Dial: checkedDial(conns.dial, c.config.TLS), DialTimeout: timeout, ClientID: c.config.ClientID, SASL: c.config.SASL,
		},
	}
}

// close cuts all connections.
func (c *coordinator) close() {
	c.conns.close()
	c.transport.CloseIdleConnections()
}

// ask sends a request of at most the given version. It waits for the answer for the usual time-out plus patience. After a
// failure the next request searches for the coordinator again.
func (c *coordinator) ask(ctx context.Context, request protocol.Message, maxVersion int16, patience time.Duration) (_ protocol.Message, err error) {
	began := time.Now()
	defer func() { c.ended(OpGroup, began, err) }()
	ctx, cancel := context.WithTimeout(ctx, c.timeout+patience)
	defer cancel()
	node, err := c.find(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := c.transport.RoundTrip(ctx, c.addr, &groupRequest{
		Message: request, node: node, maxVersion: maxVersion, clientID: c.clientID, correlationID: c.correlator.Add(1),
	})
	if err != nil {
		c.forget(true)
		return nil, err
	}
	a, ok := answer.(*groupAnswer)
	if !ok {
		return nil, fmt.Errorf("%w: got %T", errWrongAnswer, answer)
	}
	return a.Message, nil
}

// find returns the coordinator's node.
func (c *coordinator) find(ctx context.Context) (int32, error) {
	c.mu.Lock()
	node, known := c.node, c.known
	c.mu.Unlock()
	if known {
		return node, nil
	}
	answer, err := c.transport.RoundTrip(ctx, c.addr, &findcoordinator.Request{Key: c.group})
	if err != nil {
		c.forget(true)
		return 0, fmt.Errorf("find coordinator: %w", err)
	}
	r, ok := answer.(*findcoordinator.Response)
	if !ok {
		return 0, fmt.Errorf("find coordinator: %w: got %T", errWrongAnswer, answer)
	}
	if err := brokerError(r.ErrorCode); err != nil {
		return 0, fmt.Errorf("find coordinator: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.node, c.known = r.NodeID, true
	return r.NodeID, nil
}

// forget makes the next request search for the coordinator, over new connections if the present ones may be broken.
func (c *coordinator) forget(doubt bool) {
	c.mu.Lock()
	c.known = false
	c.mu.Unlock()
	if doubt {
		c.transport.CloseIdleConnections()
	}
}

// checked returns the error of an answer's code. If the coordinator has moved, it forgets the old one.
func (c *coordinator) checked(code int16) error {
	err := brokerError(code)
	if errors.Is(err, kafka.NotCoordinatorForGroup) || errors.Is(err, kafka.GroupCoordinatorNotAvailable) {
		c.forget(false)
	}
	return err
}

// groupRequest is a request to a broker that is named by its node. kafka-go knows no group of a heartbeat, and flexible
// versions of group requests that it encodes wrongly (v0.4.51: heartbeat 4, sync 5).
type groupRequest struct {
	protocol.Message

	node          int32
	maxVersion    int16
	version       int16 // negotiated
	clientID      string
	correlationID int32
}

var (
	_ protocol.BrokerMessage = (*groupRequest)(nil)
	_ protocol.RawExchanger  = (*groupRequest)(nil)
)

// Broker routes to the node.
func (r *groupRequest) Broker(protocol.Cluster) (protocol.Broker, error) {
	return protocol.Broker{ID: r.node}, nil
}

// Required takes the negotiated version, and the exchange over from kafka-go.
func (r *groupRequest) Required(versions map[protocol.ApiKey]int16) bool {
	r.version = min(versions[r.ApiKey()], r.maxVersion)
	return true
}

// RawExchange writes the request and reads the answer, which is a *groupAnswer.
func (r *groupRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	answer, err := protocol.RoundTrip(rw, r.version, r.correlationID, r.clientID, r.Message)
	if err != nil {
		return nil, err
	}
	return &groupAnswer{answer}, nil
}

// groupAnswer is an answer that kafka-go does not look into.
type groupAnswer struct{ protocol.Message }

// connSet remembers connections, and attempts to connect, so that close can cut them all. Its methods are safe for
// concurrent use.
type connSet struct {
	open func(ctx context.Context, network, address string) (net.Conn, error)

	mu     sync.Mutex
	cuts   map[uint64]func() // guarded by mu: ends a connection or an attempt
	last   uint64            // guarded by mu
	closed bool              // guarded by mu
}

func newConnSet(open func(ctx context.Context, network, address string) (net.Conn, error)) *connSet {
	return &connSet{open: open, cuts: make(map[uint64]func())}
}

// dial opens a connection that close will cut.
func (s *connSet) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	id, ok := s.put(0, cancel)
	if !ok {
		return nil, net.ErrClosed
	}
	conn, err := s.open(ctx, network, address)
	if err != nil {
		s.drop(id)
		return nil, err
	}
	if _, ok := s.put(id, func() { _ = conn.Close() }); !ok { // it is cut on purpose, so its error says nothing
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	return &trackedConn{Conn: conn, closing: func() { s.drop(id) }}, nil
}

// put stores cut under id, or under a new id if id is 0. When the set is closed it stores nothing and reports false.
func (s *connSet) put(id uint64, cut func()) (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, false
	}
	if id == 0 {
		s.last++
		id = s.last
	}
	s.cuts[id] = cut
	return id, true
}

func (s *connSet) drop(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cuts, id)
}

// close cuts all connections and refuses new ones.
func (s *connSet) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, cut := range s.cuts {
		cut()
	}
	clear(s.cuts)
}

// trackedConn calls a function when it is closed.
type trackedConn struct {
	net.Conn
	closing func()
}

func (c *trackedConn) Close() error {
	c.closing()
	return c.Conn.Close()
}
