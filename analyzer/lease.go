package analyzer

import (
	"sync/atomic"
	"time"
)

// lease is the proof that an analyzer's partitions are its own: the group said so not long ago. It counts from when the
// proof was asked for, on the monotonic clock. Its methods may be called from any goroutine.
type lease struct {
	session time.Duration
	start   time.Time    // zero of asked
	asked   atomic.Int64 // when the newest proof was asked for, since start
}

// expiredLease is a proof that was asked for long ago.
const expiredLease = -1 << 62

// leaseMargin is how long before the session's end an owner stops publishing: what it has in flight must arrive before
// another owner can exist.
const leaseMargin = time.Second

// newLease returns a lease that has expired.
func newLease(session time.Duration) *lease {
	l := &lease{session: session, start: time.Now()}
	l.asked.Store(expiredLease)
	return l
}

// valid reports whether the lease has not expired yet.
func (l *lease) valid(now time.Time) bool {
	return now.Sub(l.start)-time.Duration(l.asked.Load()) < l.session-leaseMargin
}

// renew renews the lease. Proofs may come late, or in another order than they were asked for.
func (l *lease) renew(asked time.Time) {
	since := int64(asked.Sub(l.start))
	for {
		old := l.asked.Load()
		if since <= old || l.asked.CompareAndSwap(old, since) {
			return
		}
	}
}
