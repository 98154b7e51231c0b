package gate

import (
	"context"
	"sync/atomic"
	"time"
)

// clock is the coarse clock: what time it was a moment ago, for one load. It is zero while nobody runs it, and then who
// asks reads time.Now.
//
// How long ago nobody can tell without a clock. So it is trusted only with answers that stay the same for clockSlack after
// it: what ends or begins sooner is looked up with time.Now. While the clock is no later than that, and it beats ten
// times as often, no answer differs from what time.Now would give.
type clock struct{ unix atomic.Int64 } // nanoseconds

const (
	clockBeat  = 100 * time.Millisecond
	clockSlack = time.Second
)

// RunClock keeps the coarse clock until ctx ends; without it hits read time.Now, which costs several times as much as
// the rest of the lookup. It waits on nothing but its ticker. kafkalink runs it; one goroutine is enough, several do no
// harm.
func (s *Set) RunClock(ctx context.Context) {
	t := time.NewTicker(clockBeat)
	defer t.Stop()
	defer s.clock.unix.Store(0)
	for {
		s.clock.unix.Store(time.Now().UnixNano()) // not the ticker's time: that may have waited
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// coarse returns the time in Unix nanoseconds by the coarse clock, if that is enough to judge the record.
func (s *Set) coarse(r *record) (now int64, ok bool) {
	now = s.clock.unix.Load()
	return now, now != 0 && s.policy != Open && r.settled(now, now+int64(clockSlack))
}

// coarseNow returns the time by the coarse clock if that is enough to judge the record, and else the time.
func (s *Set) coarseNow(r *record) (now time.Time, coarse bool) {
	if now, ok := s.coarse(r); ok {
		return time.Unix(0, now), true
	}
	return time.Now(), false
}

// settled reports whether none of the record's closures begins or ends in (from, to].
func (r *record) settled(from, to int64) bool {
	for i := range r.len() {
		c := r.closure(i)
		if from < c.closeAt && c.closeAt <= to || from < c.until && c.until <= to {
			return false
		}
	}
	return true
}

// surelyInForce reports whether the record's first closure is in force by the coarse clock and for clockSlack after.
func (s *Set) surelyInForce(r *record) bool {
	now := s.clock.unix.Load()
	return r.terms < shadowBit && r.closeAt <= now && now+int64(clockSlack) < r.until && now != 0 && s.policy != Open
}
