package board

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/509da70d/floodgate/schemas"
)

// Errors of subscriptions.
var (
	errSubscribers = errors.New("too many subscribers")
	errClosed      = errors.New("subscription is closed")
)

// Subscription gives the decisions in force, and each change after that. A subscriber that applies all events in their order (see
// Collect) holds what is in force. Subscribe makes one. One goroutine may use it. Close may be called by any goroutine, and more than
// once.
type Subscription struct {
	board  *Board
	closed chan struct{}
	once   sync.Once

	at      uint64 // the number of the newest change that was given
	lost    bool   // the next event is Lost
	missed  uint64
	given   []bool // by partition, whether its closures were given, or are being given
	loaded  int    // of begun
	walk    walk
	current bool // Current was given
}

// walk says which closures in force are still to be given.
type walk struct {
	parts        []bool // of which partitions; nil: no closures are left
	number, last uint64 // of closures: above number, and at most last
}

// Subscribe returns a subscription to the changes after the one with the number after, if the board is ready and still has all of them.
// Otherwise, or if after is 0, the subscription first gives all that is in force. If after is not 0 and changes are missing, the first
// event is Lost, without a count.
//
// Subscribe fails if the board has Options.MaxSubscribers subscriptions. Call Close at the end.
func (b *Board) Subscribe(after uint64) (*Subscription, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.counts.subscribers >= b.options.MaxSubscribers {
		return nil, fmt.Errorf("%w: got %d already, want at most %d", errSubscribers, b.counts.subscribers, b.options.MaxSubscribers)
	}
	b.counts.subscribers++
	s := &Subscription{board: b, closed: make(chan struct{}), at: b.changed}
	switch {
	case after == 0:
	case b.ready() && b.oldest() <= after && after <= b.changed:
		s.at = after
		s.begin()
		s.walk = walk{}
	default:
		s.lost = true
	}
	return s, nil
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.once.Do(func() {
		close(s.closed)
		s.board.mu.Lock()
		defer s.board.mu.Unlock()
		s.board.counts.subscribers--
	})
}

// Next waits for the next event and returns it. After the error of ctx, Next may be called again. Any other error means that the
// subscription is closed.
//
// The first events are all that is in force, as InForce, in the order in which the board learnt of it, together with the changes that
// are made meanwhile. When the board is ready, Current follows, and after it only changes. If a subscriber is so slow that the ring no
// longer has a change that it has not read, it gets Lost, and then all of this again.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	for {
		e, wake := s.next()
		if e.Kind != None {
			return e, nil
		}
		if wake == nil {
			continue
		}
		select {
		case <-wake:
		case <-s.closed:
			return Event{}, errClosed
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// next returns the next event. If there is none now, it returns a channel to wait on. If it returns neither, it has more to look at:
// call it again.
func (s *Subscription) next() (Event, <-chan struct{}) {
	b := s.board
	b.mu.RLock()
	defer b.mu.RUnlock()
	if oldest := b.oldest(); s.at < oldest {
		s.lost, s.missed = true, oldest-max(s.at, min(b.floor, oldest))
	}
	switch {
	case s.lost:
		return s.restart(), nil
	case s.at < b.changed: // changes come first, so that closures in force are given as of the newest change
		s.at++
		return b.event(s.at), nil
	case s.walk.parts != nil:
		return s.step(), nil
	case s.loaded < b.loaded:
		s.begin()
		return Event{}, nil
	case !s.current && b.ready():
		s.current = true
		return Event{Kind: Current, Number: s.at}, nil
	}
	return Event{}, b.wake
}

// restart begins again with all that is in force.
func (s *Subscription) restart() Event {
	s.board.lost.Add(1)
	e := Event{Kind: Lost, Number: s.board.changed, Missed: s.missed}
	s.at, s.lost, s.missed, s.current = s.board.changed, false, 0, false
	s.given, s.loaded, s.walk = nil, 0, walk{}
	return e
}

// begin starts a walk over the closures of the partitions that were loaded since the last walk. Changes of these partitions are in the
// ring from then on.
func (s *Subscription) begin() {
	b := s.board
	s.walk = walk{parts: make([]bool, len(b.parts)), last: b.table.arrived}
	given := make([]bool, len(b.parts))
	s.loaded = 0
	for i := range b.parts {
		if given[i] = b.parts[i].loaded; given[i] {
			s.walk.parts[i] = i >= len(s.given) || !s.given[i]
			s.loaded++
		}
	}
	s.given = given
}

// step gives the next closure of the walk.
func (s *Subscription) step() (e Event) {
	var more bool
	t := s.board.table
	s.walk.number, more = t.visitFrom(s.walk.number, pieces, func(c *closure) bool {
		if c.number > s.walk.last {
			s.walk.parts = nil
			return false
		}
		var d schemas.Decision
		h := t.read(c, &d)
		if p := int(d.Partition); p < len(s.walk.parts) && s.walk.parts[p] {
			d.Caller.ID = h.id()
			e = Event{Kind: InForce, Number: s.at, Decision: d}
			return false
		}
		return true
	})
	if !more {
		s.walk.parts = nil
	}
	return e
}

// Collect applies an event to what a subscriber holds: by rule and caller, what is in force.
func Collect(held map[Key]schemas.Decision, e *Event) {
	key := Key{e.Decision.Rule, e.Decision.Caller}
	switch e.Kind {
	case Closed, Changed, InForce:
		held[key] = e.Decision
	case Opened, Ended:
		delete(held, key)
	case Lost:
		clear(held)
	}
}

// Key names a closure: a caller is closed once at most under each rule.
type Key struct {
	Rule   string
	Caller schemas.Caller
}
