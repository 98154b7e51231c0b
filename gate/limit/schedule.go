package limit

import (
	"context"
	"fmt"
	"strconv"
	"sync"
)

// Schedule runs functions at a bounded rate, in the order in which they were added, and in another goroutine than the one
// that adds them. It keeps them in a bounded queue. It starts no goroutine: the program calls Run in one. NewSchedule makes
// a Schedule; the zero value is not usable. All methods may be called from any goroutine.
type Schedule struct {
	pace  Waiter
	queue chan func(context.Context)

	mu     sync.Mutex // held while sending to queue and closing it, which never blocks
	closed bool
}

// NewSchedule returns a Schedule in which up to queue functions wait for their turns. It panics if queue is less than 1.
func NewSchedule(pace Waiter, queue int) *Schedule {
	if queue < 1 {
		panic("limit: got a queue of " + strconv.Itoa(queue) + ", want at least 1")
	}
	return &Schedule{pace: pace, queue: make(chan func(context.Context), queue)}
}

// Add adds a function for Run to call. It never blocks: it returns ErrFull if the queue is full, and ErrClosed after Close
// or after Run has returned.
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

// Close ends the queue: Add fails from now on, and Run returns when the queue is empty.
func (s *Schedule) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.queue)
	}
}

// Run calls the functions, one after the other, each at its turn. It returns when the context ends, or after Close when no
// function is left. A function that takes long delays those after it. Run may be called once. Functions that it has not
// called when it returns are dropped, and the error says how many.
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

// drop empties the queue and returns the error of Run.
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
