package embedded

import (
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// connections are those that a broker has accepted. kfake closes them some time after its Close. They must be closed before
// the next broker starts on the port. Its methods are safe for concurrent use.
type connections struct {
	mu     sync.Mutex
	open   map[*connection]struct{} // guarded by mu
	closed bool                     // guarded by mu
}

// connection is a net.Conn that removes itself from the list. If the client hangs up while it waits for an answer, kfake
// sees that only after it has answered. Otherwise a group member that hangs up during its join would get no session in
// kfake, and own partitions for ever. In Apache Kafka such a session ends.
type connection struct {
	net.Conn
	of       *connections
	once     sync.Once // a second Close of a net.Conn does not wait for the first
	err      error
	asked    atomic.Bool   // bytes were read since the last answer
	answered chan struct{} // holds one value: an answer was given
	cut      chan struct{} // closed by Close
}

// longestAnswer is how long an answer may take after its client has hung up. A join waits for others.
const longestAnswer = time.Minute

// Read returns the error of a client that hung up only after that client was answered.
func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.asked.Store(true)
		select {
		case <-c.answered: // of an earlier request
		default:
		}
	}
	if err != nil && c.asked.Load() {
		late := time.NewTimer(longestAnswer)
		defer late.Stop()
		select {
		case <-c.answered:
		case <-c.cut:
		case <-late.C:
		}
	}
	return n, err
}

func (c *connection) Write(b []byte) (int, error) {
	c.asked.Store(false)
	n, err := c.Conn.Write(b)
	select {
	case c.answered <- struct{}{}:
	default:
	}
	return n, err
}

// listener accepts connections and lists them.
type listener struct {
	net.Listener
	of *connections
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: conn, of: l.of, answered: make(chan struct{}, 1), cut: make(chan struct{})}
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.of.closed {
		_ = conn.Close() // the broker is closing
		return nil, net.ErrClosed
	}
	l.of.open[c] = struct{}{}
	return c, nil
}

func (c *connection) Close() error {
	c.once.Do(func() {
		c.err = c.Conn.Close() // first: off the list means closed
		close(c.cut)
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		delete(c.of.open, c)
	})
	return c.err
}

// close cuts all connections, also those that are accepted later. When it returns, all are closed.
func (s *connections) close() {
	s.mu.Lock()
	s.closed = true
	open := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // it is cut on purpose, so its error says nothing
	}
}
