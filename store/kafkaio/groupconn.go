package kafkaio

import (
	"context"
	"net"
	"sync"
)

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
