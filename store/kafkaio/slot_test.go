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

// pipeBroker answers the requests of a slot, on a connection in memory.
type pipeBroker struct {
	t       *testing.T
	conn    net.Conn
	in      *bufio.Reader
	slot    *slot
	closing chan struct{}
}

// ask returns a request for the slot.
func (b *pipeBroker) ask(era uint64) *exchange {
	x := fakeExchange()
	x.slot, x.era = b.slot, era
	return x
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
		then   func(*pipeBroker)
		broken bool // the connection cannot go back to the pool
	}{
		"it serves the next one, however late the deadline of the first was": {then: func(b *pipeBroker) {
			for range 3 {
				time.Sleep(slotLinger - time.Millisecond)
				x := b.ask(1)
				if !b.slot.offer(x) {
					b.t.Fatal("got no connection")
				}
				b.answer(b.request(), "next")
				<-x.finished
				if x.err != nil || string(x.body) != "next" || x.version != version {
					b.t.Errorf("got %q, version %d, and %v, want the answer", x.body, x.version, x.err)
				}
			}
		}},
		"nobody comes":      {then: func(*pipeBroker) { time.Sleep(slotLinger) }},
		"the client closes": {then: func(b *pipeBroker) { close(b.closing) }},
		"the pool was dropped": {then: func(b *pipeBroker) {
			if b.slot.offer(b.ask(2)) {
				b.t.Error("got a connection of the pool that was dropped")
			}
		}},
		"the caller of the next one gives up": {broken: true, then: func(b *pipeBroker) {
			x := b.ask(1)
			b.slot.offer(x)
			b.request()
			if err := x.abandon(); err == nil || b.slot.offer(b.ask(1)) {
				b.t.Errorf("got %v, want an error and no connection", err)
			}
		}},
		"the broker closes it": {broken: true, then: func(b *pipeBroker) {
			_ = b.conn.Close()
			x := b.ask(1)
			b.slot.offer(x)
			if err := x.abandon(); err == nil || b.slot.offer(b.ask(1)) {
				b.t.Errorf("got %v, want an error and no connection", err)
			}
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer theirs.Close()
				b := &pipeBroker{t: t, conn: theirs, in: bufio.NewReader(theirs), closing: make(chan struct{})}
				b.slot = newSlot(0, b.closing)
				first := b.ask(1)
				if b.slot.offer(first) {
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
				tc.then(b)
				if err := <-returned; (err != nil) != tc.broken {
					t.Errorf("the connection ended with %v, want an error: %v", err, tc.broken)
				}
				if b.slot.offer(b.ask(1)) {
					t.Error("got a connection that is gone")
				}
			})
		})
	}
}
