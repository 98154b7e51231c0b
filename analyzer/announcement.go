package analyzer

import (
	"sync/atomic"
	"time"
)

// announcement decides which snapshot heartbeats announce: the newest complete one, when all events before its end are in the topic of
// events. An owner that starts from a snapshot cannot make those events again, because it has the rows only as of later offsets. If the
// topic takes no events for maxUnannounced, the snapshot is announced nevertheless, and an owner that starts from it writes a gap.
//
// The owner's goroutine calls ends, the publisher's next. The zero value has announced nothing.
type announcement struct {
	newest atomic.Uint64 // the number of the newest event when the last snapshot ended

	announced int64     // what next returned last
	since     time.Time // when next first saw a newer complete snapshot; zero if there is none
}

// maxUnannounced is how long the announcement of a complete snapshot waits for events.
const maxUnannounced = 30 * time.Second

// ends notes that the last rows of a snapshot were taken. newest is the number of the newest event then.
func (a *announcement) ends(newest uint64) { a.newest.Store(newest) }

// begin notes what the previous owner has announced.
func (a *announcement) begin(complete int64) { a.announced = complete }

// next returns what to announce. complete is 1 + the offset of the newest complete snapshot, or 0 if there is none; the result has the same
// form.
func (a *announcement) next(complete int64, now time.Time, acked func(uint64) bool) int64 {
	if complete == a.announced {
		a.since = time.Time{}
		return complete
	}
	if a.since.IsZero() {
		a.since = now
	}
	if acked(a.newest.Load()) || now.Sub(a.since) >= maxUnannounced {
		a.announced, a.since = complete, time.Time{}
	}
	return a.announced
}
