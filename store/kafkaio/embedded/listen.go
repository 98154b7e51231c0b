package embedded

import (
	"maps"
	"net"
	"slices"
	"sync"
)

// connections are those that a broker has accepted. kfake closes them some time after its Close; whoever starts the next
// broker on the port wants them gone. Its methods are safe for concurrent use.
type connections struct {
	mu     sync.Mutex
	open   map[*connection]struct{} // guarded by mu
	closed bool                     // guarded by mu
}

// connection is a net.Conn that takes itself off the list.
type connection struct {
	net.Conn
	of   *connections
	once sync.Once // a second Close of a net.Conn does not wait for the first
	err  error
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
	c := &connection{Conn: conn, of: l.of}
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
