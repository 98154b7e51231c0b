package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/segmentio/kafka-go/protocol"
)

// kafka-go's pool opens a connection for each request that is in flight. So a Client has few requests in flight at each broker, and puts
// many calls into one: up to maxFetches requests for records, and one request of another kind.
const maxFetches = 2

// lane is how calls reach one broker.
type lane struct {
	short    chan *slot // holds the slot for requests that the broker answers at once, while none is in flight
	fetches  fetchLane
	produces produceLane
}

// laneTo returns the lane to the leader of a request's partition. It sends nothing: the pool knows the leader, or waits until it does.
func (c *Client) laneTo(ctx context.Context, request routed) (*lane, error) {
	era := c.currentEra()
	r := &route{routed: request}
	_, err := c.transport.RoundTrip(ctx, c.addr, r)
	switch {
	case errors.Is(err, errRouted):
		return c.lane(r.broker.ID), nil
	case err == nil:
		err = errAborted
	}
	c.doubt(ctx, era)
	return nil, c.explain(ctx, err)
}

// lane returns the lane to a broker.
func (c *Client) lane(broker int32) *lane {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lanes[broker]
	if l == nil {
		l = &lane{short: make(chan *slot, 1)}
		l.short <- newSlot(broker, c.closing)
		l.fetches = fetchLane{client: c, back: make(chan struct{}, 1)}
		for range maxFetches {
			l.fetches.free = append(l.fetches.free, newSlot(broker, c.closing))
		}
		l.produces = produceLane{client: c, lane: l}
		c.lanes[broker] = l
	}
	return l
}

// enter waits until no other request is in flight that the broker answers at once. The caller passes the slot to leave behind its own.
func (l *lane) enter(ctx context.Context) (*slot, error) {
	select {
	case s := <-l.short:
		return s, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another request: %w", ctx.Err())
	}
}

func (l *lane) leave(s *slot) { l.short <- s }

// routed is a request that knows its broker.
type routed interface {
	protocol.Message
	protocol.BrokerMessage
}

// errRouted ends a round trip that was only to find its broker.
var errRouted = errors.New("found the broker")

// route is a request that finds its broker, and is not sent.
type route struct {
	routed

	broker protocol.Broker
}

// Broker stores the broker.
func (r *route) Broker(c protocol.Cluster) (b protocol.Broker, err error) {
	if r.broker, err = r.routed.Broker(c); err == nil {
		err = errRouted
	}
	return protocol.Broker{}, err
}

// flight is a request for several calls. It ends early when no caller waits for it any more.
type flight struct {
	ctx     context.Context //nolint:containedctx // of the goroutine that sends the request, which ends with it
	cancel  context.CancelFunc
	callers int // protected by the mutex of its kind of lane
}

func newFlight(callers int) *flight {
	ctx, cancel := context.WithCancel(context.Background())
	return &flight{ctx: ctx, cancel: cancel, callers: callers}
}

// call is a call of one caller that waits for a flight, or is in one.
type call[Q, A any] struct {
	q    Q
	a    A             // read it once done is closed
	done chan struct{} // closed when a is set

	flight *flight // protected by the mutex of its kind of lane: nil while the call waits
	gone   bool    // protected by the mutex of its kind of lane: nobody waits for it
}

// await returns the answer to a call in the list of those that wait. If ctx ends before that, it takes the call out of the list, or
// gives the flight up if nobody else waits for it. began reports whether the call was in a flight; the error is that of ctx.
func await[Q, A any](ctx context.Context, mu *sync.Mutex, waiting *[]*call[Q, A], c *call[Q, A]) (a A, began bool, err error) {
	select {
	case <-c.done:
		return c.a, true, nil
	case <-ctx.Done():
	}
	mu.Lock()
	c.gone = true
	f := c.flight
	if f == nil {
		*waiting = slices.DeleteFunc(*waiting, func(x *call[Q, A]) bool { return x == c })
	} else if f.callers--; f.callers == 0 {
		f.cancel()
		mu.Unlock()
		<-c.done // the request is not written any more, or its result is known
		return c.a, true, nil
	}
	mu.Unlock()
	select {
	case <-c.done:
		return c.a, true, nil
	default:
		return a, f != nil, ctx.Err()
	}
}
