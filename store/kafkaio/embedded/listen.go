package embedded

import (
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// connections are those that a broker has accepted. kfake closes them some time after its Close; whoever starts the next
// broker on the port wants them gone. Its methods are safe for concurrent use.
type connections struct {
	mu     sync.Mutex
	open   map[*connection]struct{} // guarded by mu
	closed bool                     // guarded by mu
}

// connection is a net.Conn that takes itself off the list. Where its client hangs up while it waits for an answer, kfake is
// told so only when it has answered: a group member whose join could not be answered is given no session that runs out, and
// would own partitions for ever. On Apache Kafka its session does.
type connection struct {
	net.Conn
	of       *connections
	once     sync.Once // a second Close of a net.Conn does not wait for the first
	err      error
	asked    atomic.Bool   // something was read since the last answer
	answered chan struct{} // holds one: an answer was given
	gone     chan struct{} // closed by Close
}

// longestAnswer is how long an answer may take after its client has hung up. A join waits for others.
const longestAnswer = time.Minute

// Read tells of a client that hung up only when it was answered.
func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.asked.Store(true)
		select {
		case <-c.answered: // what was asked before
		default:
		}
	}
	if err != nil && c.asked.Load() {
		late := time.NewTimer(longestAnswer)
		defer late.Stop()
		select {
		case <-c.answered:
		case <-c.gone:
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
	c := &connection{Conn: conn, of: l.of, answered: make(chan struct{}, 1), gone: make(chan struct{})}
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
		close(c.gone)
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		delete(c.of.open, c)
	})
	return c.err
}

// close cuts all connections, and those to come. They are closed when it returns.
func (s *connections) close() {
	s.mu.Lock()
	s.closed = true
	open := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // cutting is all that is wanted
	}
}
