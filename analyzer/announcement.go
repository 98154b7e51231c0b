package analyzer

import (
	"sync/atomic"
	"time"
)

// announcement decides which snapshot heartbeats announce: the newest complete one, once all events before its end are in the topic of
// events. An owner that starts from it cannot tell them: it has the rows only as of later offsets. If the topic takes no events for a
// while, the snapshot is announced all the same, and an owner that starts from it writes a gap.
//
// The owner's goroutine calls ends, the publisher's next. The zero value has announced nothing.
type announcement struct {
	newest atomic.Uint64 // the newest event when the last snapshot ended

	announced int64     // what next returned last
	since     time.Time // when it saw that there is another one; zero: it has not
}

// maxUnannounced is how long a complete snapshot waits for events.
const maxUnannounced = 30 * time.Second

// ends says that a snapshot's last rows were taken, when the newest event had a number.
func (a *announcement) ends(newest uint64) { a.newest.Store(newest) }

// begin says what the owner before this one has announced.
func (a *announcement) begin(complete int64) { a.announced = complete }

// next returns what to announce, where complete is the newest complete snapshot: 1 + its offset, or 0 if there is none.
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
