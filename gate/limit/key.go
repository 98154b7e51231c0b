package limit

import (
	"context"
	"hash/maphash"
	"time"
)

// Key returns the limiter of a key. It is a value that may be kept. Key does not allocate.
func (k *Keyed) Key(key string) Key { return Key{keyed: k, hash: k.hash(key)} }

// hash returns the hash of a key. It is never 0: that stands for an empty place.
func (k *Keyed) hash(key string) uint64 { return max(maphash.String(k.seed, key), 1) }

// Key is the limiter of one key of a Keyed. It has the methods of the limiter that the Keyed was made of. It never becomes
// invalid: a key that has lost its place gets another when it is next used. Any goroutine may call its methods.
type Key struct {
	keyed *Keyed
	hash  uint64
}

// Allow reports whether one event may happen now, and counts it if so. It does not allocate.
func (k Key) Allow() bool {
	_, _, _, ok := k.keyed.take(k.hash, k.keyed.clock.now(), 1, 0)
	return ok
}

// AllowN reports whether n events may happen at a time, and counts them if so: all or none. It returns true if n is less
// than 1. It does not allocate.
func (k Key) AllowN(at time.Time, n int) bool {
	if n < 1 {
		return true
	}
	_, _, _, ok := k.keyed.take(k.hash, k.keyed.clock.at(at), int64(n), 0)
	return ok
}

// Reserve books the next turn if it is at most two years away.
func (k Key) Reserve() Reservation { return k.reserve(k.now(), 1, maxPeriod) }

// ReserveN books the next turn for n events, as of a time, if it comes within maxWait.
func (k Key) ReserveN(at time.Time, n int, maxWait time.Duration) Reservation {
	return k.reserve(k.keyed.clock.at(at), n, max(0, int64(maxWait)))
}

// RetryAfter returns how long after a time AllowN would admit n events if no others came: 0 if it would admit them at once,
// Never if it would never admit them. It counts and books nothing, but a key that has no place gets one.
func (k Key) RetryAfter(at time.Time, n int) time.Duration {
	if n < 1 {
		return 0
	}
	wait, _, _, _ := k.keyed.take(k.hash, k.keyed.clock.at(at), int64(n), -1)
	return time.Duration(wait)
}

// Wait blocks until one event may happen, in the order of the calls. See TokenBucket.WaitN, for example.
func (k Key) Wait(ctx context.Context) error { return wait(ctx, k, 1) }

// WaitN blocks until n events may happen.
func (k Key) WaitN(ctx context.Context, n int) error { return wait(ctx, k, n) }

func (k Key) now() int64 { return k.keyed.clock.now() }

func (k Key) reserve(t int64, n int, maxWait int64) Reservation {
	c := &k.keyed.clock
	if n < 1 {
		return freeReservation(c, t)
	}
	wait, r, state, ok := k.keyed.take(k.hash, t, int64(n), min(maxWait, maxPeriod))
	return newReservation(c, t, wait, ok, charge{k.keyed.algorithm, state, r, int64(n)})
}
