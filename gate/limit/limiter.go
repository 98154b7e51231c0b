package limit

import (
	"context"
	"sync/atomic"
	"time"
)

// algorithm charges states, which are words that any number of goroutines share. A state of zeros is a new one. All times
// are a clock's; n is at least 1.
type algorithm interface {
	// words returns how long a state is.
	words() int
	// take charges n to a state at time t, if their turn comes within most; a negative most only asks. It returns how
	// long from t their turn is away, or never.
	take(s []atomic.Uint64, t, n, most int64) (wait int64, r receipt, ok bool)
	// give takes a charge of n back, as far as that is possible without admitting more than the limit later on.
	give(s []atomic.Uint64, r receipt, n int64)
	// debt orders states by how little they would admit at time t. One that is as good as new has none, or less.
	debt(s []atomic.Uint64, t int64) int64
}

// receipt is what take knows of a charge, for give. What the numbers mean is the algorithm's.
type receipt struct{ place, more uint64 }

const never = int64(Never)

// limiter is what all limiters are: an algorithm and a state. Its methods may be called from any goroutine.
type limiter struct {
	clock clock
	rule  algorithm
	state []atomic.Uint64
}

func newLimiter(c clock, rule algorithm) limiter {
	return limiter{clock: c, rule: rule, state: make([]atomic.Uint64, rule.words())}
}

// Allow reports whether one may happen now, and counts it if so. It does not allocate.
func (l *limiter) Allow() bool {
	_, _, ok := l.rule.take(l.state, l.clock.now(), 1, 0)
	return ok
}

// AllowN reports whether n may happen at a time, and counts them if so: all or none. Less than one is always allowed. It
// does not allocate. Times may go backwards, from goroutine to goroutine or altogether: each is judged by its own time.
func (l *limiter) AllowN(at time.Time, n int) bool {
	if n < 1 {
		return true
	}
	_, _, ok := l.rule.take(l.state, l.clock.at(at), int64(n), 0)
	return ok
}

// Reserve books the next turn, however far away, up to two years. The Reservation says how long to wait for it.
func (l *limiter) Reserve() Reservation { return l.reserve(l.clock.now(), 1, maxPeriod) }

// ReserveN books the next turn for n, as of a time, if it comes within most.
func (l *limiter) ReserveN(at time.Time, n int, most time.Duration) Reservation {
	return l.reserve(l.clock.at(at), n, max(0, int64(most)))
}

// RetryAfter returns how long after a time AllowN would admit n if nothing else came: 0 if it would at once, Never if it
// never would. It counts and books nothing.
func (l *limiter) RetryAfter(at time.Time, n int) time.Duration {
	if n < 1 {
		return 0
	}
	wait, _, _ := l.rule.take(l.state, l.clock.at(at), int64(n), -1)
	return time.Duration(wait)
}

// Wait blocks until one may happen, in the order of the calls. See WaitN.
func (l *limiter) Wait(ctx context.Context) error { return wait(ctx, l, 1) }

// WaitN books the next turn for n and blocks until then. It fails at once, and books nothing, if the context's deadline
// is earlier, if n are more than the limit, or if a LeakyBucket's queue is full. If the context ends while it blocks, the
// turn is given back, as by Reservation.Cancel.
func (l *limiter) WaitN(ctx context.Context, n int) error { return wait(ctx, l, n) }

func (l *limiter) now() int64 { return l.clock.now() }

func (l *limiter) reserve(t int64, n int, most int64) Reservation {
	if n < 1 {
		return free(&l.clock, t)
	}
	wait, r, ok := l.rule.take(l.state, t, int64(n), min(most, maxPeriod))
	return booked(&l.clock, t, wait, ok, charge{l.rule, l.state, r, int64(n)})
}

// pattern is what Keyed needs of a limiter to have many like it.
func (l *limiter) pattern() (clock, algorithm) { return l.clock, l.rule }
