package kafkaio

import (
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// slot is a place for one request at a time to a broker. It holds its connection between two requests, for slotLinger at most: kafka-go's
// pool hands an answer over before it takes the connection back, and would open another for a request that comes in between. A nil slot
// holds none.
type slot struct {
	broker  int32
	closing <-chan struct{} // closed when the client closes

	held     atomic.Bool               // a connection waits for the next exchange; the goroutine that clears this sends to next
	next     chan *exchange            // to that connection; nil lets it go back to the pool
	versions map[protocol.ApiKey]int16 // of the connection that is held
	era      uint64                    // of the pool that it is from
}

// slotLinger is how long a slot holds a connection that nobody uses.
const slotLinger = 5 * time.Second

func newSlot(broker int32, closing <-chan struct{}) *slot {
	return &slot{broker: broker, closing: closing, next: make(chan *exchange)}
}

// hold makes the connection that has served x wait for the next exchange.
func (s *slot) hold(x *exchange) {
	if s == nil {
		return
	}
	s.versions, s.era = x.versions, x.era
	s.held.Store(true)
}

// offer gives x to the connection that is held, if there is one from x's era.
func (s *slot) offer(x *exchange) bool {
	if s == nil || !s.held.CompareAndSwap(true, false) {
		return false
	}
	if s.era != x.era {
		s.next <- nil
		return false
	}
	x.Required(s.versions)
	s.next <- x
	return true
}

// await returns the next exchange for the connection that is held, on the connection's goroutine, or nil if it is to be held no longer.
func (s *slot) await() *exchange {
	if s == nil {
		return nil
	}
	t := time.NewTimer(slotLinger)
	defer t.Stop()
	select {
	case x := <-s.next:
		return x
	case <-t.C:
	case <-s.closing:
	}
	if s.held.CompareAndSwap(true, false) {
		return nil // nobody sends
	}
	return <-s.next
}
