package kafkaio

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// pipeBroker answers requests on a connection in memory.
type pipeBroker struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// request waits for a request and returns its correlation id.
func (b *pipeBroker) request() int32 {
	b.t.Helper()
	var head [12]byte
	if _, err := io.ReadFull(b.in, head[:]); err != nil {
		b.t.Fatal(err)
	}
	rest := int64(binary.BigEndian.Uint32(head[:])) + 4 - int64(len(head))
	if _, err := io.CopyN(io.Discard, b.in, rest); err != nil {
		b.t.Fatal(err)
	}
	return int32(binary.BigEndian.Uint32(head[8:]))
}

func (b *pipeBroker) answer(id int32, body string) {
	b.t.Helper()
	if _, err := b.conn.Write(answer(id, body)); err != nil {
		b.t.Fatal(err)
	}
}

// TestASlotHoldsItsConnection plays what may happen to a connection after it has served a request.
func TestASlotHoldsItsConnection(t *testing.T) {
	const version = 11
	versions := map[protocol.ApiKey]int16{protocol.Fetch: version}
	tests := map[string]struct {
		then   func(t *testing.T, s *slot, b *pipeBroker, ask func(era uint64) *exchange, closing chan struct{})
		broken bool // the connection cannot go back to the pool
	}{
		"it serves the next one, however late the deadline of the first was": {then: func(t *testing.T, s *slot, b *pipeBroker, ask func(uint64) *exchange, _ chan struct{}) {
			for range 3 {
				time.Sleep(slotLinger - time.Millisecond)
				x := ask(1)
				if !s.offer(x) {
					t.Fatal("got no connection")
				}
				b.answer(b.request(), "next")
				<-x.finished
				if x.err != nil || string(x.body) != "next" || x.version != version {
					t.Errorf("got %q, version %d, and %v, want the answer", x.body, x.version, x.err)
				}
			}
		}},
		"nobody comes": {then: func(*testing.T, *slot, *pipeBroker, func(uint64) *exchange, chan struct{}) { time.Sleep(slotLinger) }},
		"the client closes": {then: func(_ *testing.T, _ *slot, _ *pipeBroker, _ func(uint64) *exchange, closing chan struct{}) {
			close(closing)
		}},
		"the pool was dropped": {then: func(t *testing.T, s *slot, _ *pipeBroker, ask func(uint64) *exchange, _ chan struct{}) {
			if s.offer(ask(2)) {
				t.Error("got a connection of the pool that was dropped")
			}
		}},
		"the caller of the next one gives up": {broken: true, then: func(t *testing.T, s *slot, b *pipeBroker, ask func(uint64) *exchange, _ chan struct{}) {
			x := ask(1)
			s.offer(x)
			b.request()
			if err := x.abandon(); err == nil || s.offer(ask(1)) {
				t.Errorf("got %v, want an error and no connection", err)
			}
		}},
		"the broker closes it": {broken: true, then: func(t *testing.T, s *slot, b *pipeBroker, ask func(uint64) *exchange, _ chan struct{}) {
			_ = b.conn.Close()
			x := ask(1)
			s.offer(x)
			if err := x.abandon(); err == nil || s.offer(ask(1)) {
				t.Errorf("got %v, want an error and no connection", err)
			}
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer theirs.Close()
				closing := make(chan struct{})
				s := newSlot(0, closing)
				b := &pipeBroker{t: t, conn: theirs, in: bufio.NewReader(theirs)}
				ask := func(era uint64) *exchange {
					x := fakeExchange()
					x.slot, x.era = s, era
					return x
				}
				first := ask(1)
				if s.offer(first) {
					t.Fatal("got a connection, want none yet")
				}
				first.Required(versions)
				returned := make(chan error, 1)
				go func() {
					_ = ours.SetDeadline(time.Now().Add(time.Second)) // as the pool does for a caller's context
					_, err := first.RawExchange(ours)
					_ = ours.Close()
					returned <- err
				}()
				b.answer(b.request(), "first")
				<-first.finished
				synctest.Wait()
				tc.then(t, s, b, ask, closing)
				if err := <-returned; (err != nil) != tc.broken {
					t.Errorf("the connection ended with %v, want an error: %v", err, tc.broken)
				}
				if s.offer(ask(1)) {
					t.Error("got a connection that is gone")
				}
			})
		})
	}
}
