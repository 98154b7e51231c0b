package analyzer

import (
	"sync/atomic"
	"time"
)

// lease is the proof that an analyzer's partitions are its own: the group has confirmed it less than a session ago. The time counts from
// when the confirmation was requested, on the monotonic clock. Its methods may be called from any goroutine.
type lease struct {
	session time.Duration
	start   time.Time    // the time from which asked is measured
	asked   atomic.Int64 // nanoseconds from start until the newest proof was requested
}

// expiredLease is the value of asked for a lease that has expired.
const expiredLease = -1 << 62

// leaseMargin is how long before the end of its session an owner stops publishing. What is in flight then must arrive before another owner
// can exist.
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

// renew renews the lease by a proof that was requested at asked. Proofs may come late, or in another order than they were requested in.
func (l *lease) renew(asked time.Time) {
	since := int64(asked.Sub(l.start))
	for {
		old := l.asked.Load()
		if since <= old || l.asked.CompareAndSwap(old, since) {
			return
		}
	}
}
