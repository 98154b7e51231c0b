package kafkalink

import (
	"context"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// network is a network in memory, on virtual time, between a real client and a broker. It begins fair.
type network struct {
	kfake.VirtualNetwork

	mu      sync.Mutex // protects what follows
	weather weather
	conns   map[*wire]struct{}
	dials   int // ever
	flip    int // a bit is flipped in the byte after so many, in either direction; 0 is never
	flipped int // bits, ever
}

// weather is what a network does to whoever uses it.
type weather uint8

const (
	fair    weather = iota
	refused         // the broker's machine is there and the broker is not
	hole            // packets vanish: what is written is never answered, and no connection is made
	mute            // connections are made, and nothing is ever answered
	trickle         // each connection takes 500 ms to the broker, and 10 KB/s each way
)

func (w weather) String() string {
	return [...]string{"fair", "down", "black hole", "accepting black hole", "slow"}[w]
}

// sndbuf is how much a machine takes over before a write waits for its network.
const sndbuf = 64 << 10

// set changes the weather. Where it makes connections dead they stay dead.
func (n *network) set(w weather) {
	n.mu.Lock()
	n.weather = w
	conns := maps.Clone(n.conns)
	if w == hole || w == mute || w == refused {
		n.conns = nil
	}
	n.mu.Unlock()
	for c := range conns {
		switch w {
		case refused:
			_ = c.Close()
		case hole, mute:
			c.die()
		}
	}
}

// flipSoon has a bit flipped, some bytes from now.
func (n *network) flipSoon(bytes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.flip = bytes
}

func (n *network) flips() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.flipped
}

// damage flips a bit of b if it is time, in a copy; but not in its head.
func (n *network) damage(b []byte, head int) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.flip == 0 || len(b) <= head {
		return b
	}
	at := head + n.flip
	if at > len(b) {
		n.flip -= len(b) - head
		return b
	}
	b = slices.Clone(b)
	b[at-1] ^= 1 << (at % 8)
	n.flip = 0
	n.flipped++
	return b
}

// requestHead is what is left alone of a request: the embedded broker counts the tags that a damaged head says it has,
// up to 4 billion, which takes ten seconds.
const requestHead = 40

func (n *network) dialled() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials
}

func (n *network) now() weather {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.weather
}

// dial is for kafkaio.Config.
func (n *network) dial(ctx context.Context, nw, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dials++
	n.mu.Unlock()
	switch n.now() {
	case refused:
		return nil, &net.OpError{Op: "dial", Net: nw, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	case hole:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	conn, err := n.DialContext(ctx, nw, address)
	if err != nil {
		return nil, err
	}
	c := &wire{Conn: conn, network: n, changed: make(chan struct{}), closed: make(chan struct{})}
	if n.now() == mute {
		c.die()
		return c, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conns == nil {
		n.conns = make(map[*wire]struct{})
	}
	n.conns[c] = struct{}{}
	return c, nil
}

// wire is a connection of a network.
type wire struct {
	net.Conn
	network *network

	mu      sync.Mutex // protects what follows
	until   time.Time  // deadline, of both directions
	changed chan struct{}
	dead    bool
	taken   int // written since it is dead

	closed chan struct{}
	once   sync.Once
}

// die makes a connection silent for ever.
func (c *wire) die() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
	_ = c.Conn.SetDeadline(time.Unix(1, 0)) // whoever is in a call comes out of it, and waits here
}

func (c *wire) isDead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
}

// wait waits for d, or for ever if that is negative, but not beyond the deadline or Close, which are errors.
func (c *wire) wait(d time.Duration) error {
	var over <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	for {
		c.mu.Lock()
		until, changed := c.until, c.changed
		c.mu.Unlock()
		var late <-chan time.Time
		if !until.IsZero() {
			t := time.NewTimer(time.Until(until))
			defer t.Stop()
			late = t.C
		}
		select {
		case <-over:
			return nil
		case <-late:
			return os.ErrDeadlineExceeded
		case <-c.closed:
			return net.ErrClosed
		case <-changed:
		}
	}
}

// transfer is how long bytes are on their way.
func (c *wire) transfer(n int, latency time.Duration) error {
	if c.network.now() != trickle {
		return nil
	}
	return c.wait(latency + time.Duration(n)*time.Second/10_000)
}

func (c *wire) Read(b []byte) (int, error) {
	if !c.isDead() {
		n, err := c.Conn.Read(b)
		if !c.isDead() {
			if late := c.transfer(n, 0); late != nil && err == nil {
				return 0, late
			}
			copy(b, c.network.damage(b[:n], 0))
			return n, err
		}
	}
	return 0, c.wait(-1)
}

func (c *wire) Write(b []byte) (int, error) {
	if !c.isDead() {
		if err := c.transfer(len(b), 500*time.Millisecond); err != nil {
			return 0, err
		}
		if n, err := c.Conn.Write(c.network.damage(b, requestHead)); !c.isDead() {
			return n, err
		}
	}
	c.mu.Lock()
	c.taken += len(b)
	full := c.taken > sndbuf
	c.mu.Unlock()
	if full {
		return 0, c.wait(-1)
	}
	return len(b), nil
}

func (c *wire) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.network.mu.Lock()
	delete(c.network.conns, c)
	c.network.mu.Unlock()
	return c.Conn.Close()
}

func (c *wire) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = t
	close(c.changed)
	c.changed = make(chan struct{})
	if c.dead {
		return nil
	}
	return c.Conn.SetDeadline(t)
}

func (c *wire) SetReadDeadline(t time.Time) error  { return c.SetDeadline(t) }
func (c *wire) SetWriteDeadline(t time.Time) error { return c.SetDeadline(t) }
