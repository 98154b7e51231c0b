package limit

import (
	"context"
	"iter"
)

// Waiter is a limiter that can be waited for, as all of this package can.
type Waiter interface {
	Wait(ctx context.Context) error
}

// Do runs functions one after the other, each at its turn, in the calling goroutine. It stops at the first error, of a
// function or of waiting, and returns it.
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

// Seq returns the numbers from 0, each at its turn, until waiting fails: for "for range" at a bounded rate. Each range
// over it begins at 0.
func Seq(ctx context.Context, pace Waiter) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; pace.Wait(ctx) == nil && yield(i); i++ {
		}
	}
}

// Each returns the values of a sequence, each at its turn, until the sequence is over or waiting fails. A value is taken
// from the sequence before its turn, so that none is waited for that does not come; one that is taken when the context
// ends is dropped.
func Each[T any](ctx context.Context, pace Waiter, values iter.Seq[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range values {
			if pace.Wait(ctx) != nil || !yield(v) {
				return
			}
		}
	}
}
