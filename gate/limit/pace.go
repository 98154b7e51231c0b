package limit

import (
	"context"
	"iter"
)

// Waiter is a limiter that blocks until the next turn. All limiters of this package are Waiters.
type Waiter interface {
	Wait(ctx context.Context) error
}

// Do runs functions one after the other, each at its turn, in the calling goroutine. It stops at the first error of a
// function or of Wait, and returns it.
func Do(ctx context.Context, pace Waiter, fs ...func(context.Context) error) error {
	for _, f := range fs {
		if err := pace.Wait(ctx); err != nil {
			return err
		}
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Seq returns the numbers from 0, each at its turn, until Wait fails. It is for loops ("for range") at a bounded rate. Each
// loop over it begins at 0.
func Seq(ctx context.Context, pace Waiter) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; pace.Wait(ctx) == nil && yield(i); i++ {
		}
	}
}

// Each returns the values of a sequence, each at its turn, until the sequence ends or Wait fails. It takes a value from the
// sequence first and then waits for the turn, so that it books no turn after the last value. A value that it has taken when
// the context ends is dropped.
func Each[T any](ctx context.Context, pace Waiter, values iter.Seq[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range values {
			if pace.Wait(ctx) != nil || !yield(v) {
				return
			}
		}
	}
}
