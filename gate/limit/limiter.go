package limit

import (
	"context"
	"sync/atomic"
	"time"
)

// algorithm charges events to states. A state is words that any number of goroutines share; a new state is all zeros. All
// times are those of a clock; n is at least 1.
type algorithm interface {
	// words returns the length of a state.
	words() int
	// take charges n events to a state at time t, if their turn comes within maxWait. If maxWait is negative, it charges
	// nothing. It returns the time from t to their turn, or never.
	take(s []atomic.Uint64, t, n, maxWait int64) (wait int64, r receipt, ok bool)
	// refund takes a charge of n back, as far as it can without admitting more than the limit later.
	refund(s []atomic.Uint64, r receipt, n int64)
	// usage orders states: a state with a higher usage would admit less at time t. A state that is as good as new has
	// usage 0 or less.
	usage(s []atomic.Uint64, t int64) int64
}

// receipt identifies a charge of take for refund. Each algorithm gives its own meaning to the numbers.
type receipt struct{ place, cost uint64 }

const never = int64(Never)

// limiter is the common part of all limiters: an algorithm and a state. Its methods may be called from any goroutine.
type limiter struct {
	clock     clock
	algorithm algorithm
	state     []atomic.Uint64
}

func newLimiter(c clock, a algorithm) limiter {
	return limiter{clock: c, algorithm: a, state: make([]atomic.Uint64, a.words())}
}

// Allow reports whether one event may happen now, and counts it if so. It does not allocate.
func (l *limiter) Allow() bool {
	_, _, ok := l.algorithm.take(l.state, l.clock.now(), 1, 0)
	return ok
}

// AllowN reports whether n events may happen at a time, and counts them if so: all or none. It returns true if n is less
// than 1. It does not allocate. Times may go backwards, in one goroutine or between goroutines: each call is judged by its
// own time.
func (l *limiter) AllowN(at time.Time, n int) bool {
	if n < 1 {
		return true
	}
	_, _, ok := l.algorithm.take(l.state, l.clock.at(at), int64(n), 0)
	return ok
}

// Reserve books the next turn if it is at most two years away. The Reservation says how long to wait for it.
func (l *limiter) Reserve() Reservation { return l.reserve(l.clock.now(), 1, maxPeriod) }

// ReserveN books the next turn for n events, as of a time, if it comes within maxWait.
func (l *limiter) ReserveN(at time.Time, n int, maxWait time.Duration) Reservation {
	return l.reserve(l.clock.at(at), n, max(0, int64(maxWait)))
}

// RetryAfter returns how long after a time AllowN would admit n events if no others came: 0 if it would admit them at once,
// Never if it would never admit them. It counts and books nothing.
func (l *limiter) RetryAfter(at time.Time, n int) time.Duration {
	if n < 1 {
		return 0
	}
	wait, _, _ := l.algorithm.take(l.state, l.clock.at(at), int64(n), -1)
	return time.Duration(wait)
}

// Wait blocks until one event may happen, in the order of the calls. See WaitN.
func (l *limiter) Wait(ctx context.Context) error { return wait(ctx, l, 1) }

// WaitN books the next turn for n events and blocks until then. It fails at once, and books nothing, if the deadline of the
// context is earlier, if n is more than the limit, or if the queue of a LeakyBucket is full. If the context ends while WaitN
// blocks, the turn is cancelled, as by Reservation.Cancel.
func (l *limiter) WaitN(ctx context.Context, n int) error { return wait(ctx, l, n) }

func (l *limiter) now() int64 { return l.clock.now() }

func (l *limiter) reserve(t int64, n int, maxWait int64) Reservation {
	if n < 1 {
		return freeReservation(&l.clock, t)
	}
	wait, r, ok := l.algorithm.take(l.state, t, int64(n), min(maxWait, maxPeriod))
	return newReservation(&l.clock, t, wait, ok, charge{l.algorithm, l.state, r, int64(n)})
}

// pattern returns what Keyed needs to make many limiters like this one.
func (l *limiter) pattern() (clock, algorithm) { return l.clock, l.algorithm }

// Local has a limiter for each kind of caller, for gate.Options.Local: they decide while decisions are stale. Callers of a
// kind that is not in it are not limited. It must not be changed while it is in use. Any goroutine may call its method.
type Local map[string]*Keyed

// Allow reports whether a request of a caller is admitted at a time, and counts it if so. The hash identifies the caller.
func (l Local) Allow(kind string, hash uint64, now time.Time) bool {
	k := l[kind]
	return k == nil || k.AllowHash(now, hash)
}
