package limit

import (
	"context"
	"fmt"
	"sync"
)

// Schedule runs functions at a bounded rate and in the order in which they were added, away from who adds them. It keeps
// them in a bounded queue and starts no goroutine: Run is to be called in one. NewSchedule makes one; the zero value is not
// usable. All methods may be called from any goroutine.
type Schedule struct {
	pace  Waiter
	queue chan func(context.Context)

	mu     sync.Mutex // held while sending to queue and closing it, which never blocks
	closed bool
}

// NewSchedule returns a Schedule for up to queue functions that wait for their turn. It panics if queue is less than 1.
func NewSchedule(pace Waiter, queue int) *Schedule {
	if queue < 1 {
		panic("limit: a schedule needs a queue")
	}
	return &Schedule{pace: pace, queue: make(chan func(context.Context), queue)}
}

// Add has Run call a function. It never blocks: it returns ErrFull if the queue is full, and ErrClosed after Close or when
// Run has returned.
func (s *Schedule) Add(f func(context.Context)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	select {
	case s.queue <- f:
		return nil
	default:
		return ErrFull
	}
}

// Close says that nothing more will be added: Run returns when the queue is empty.
func (s *Schedule) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.queue)
	}
}

// Run calls the functions, one after the other, each at its turn, until the context ends or, after Close, none is left.
// One that takes long delays those behind it. It is to be called once. Functions that it does not get to are dropped, and
// the error says how many.
func (s *Schedule) Run(ctx context.Context) error {
	defer s.Close()
	for {
		select {
		case <-ctx.Done():
			return s.drop(0, ctx.Err())
		case f, ok := <-s.queue:
			if !ok {
				return nil
			}
			if err := s.pace.Wait(ctx); err != nil {
				return s.drop(1, err)
			}
			f(ctx)
		}
	}
}

// drop empties the queue.
func (s *Schedule) drop(taken int, err error) error {
	s.Close()
	for range s.queue {
		taken++
	}
	if taken == 0 {
		return err
	}
	return fmt.Errorf("limit: %d scheduled functions dropped: %w", taken, err)
}
