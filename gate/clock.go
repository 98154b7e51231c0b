package gate

import (
	"context"
	"sync/atomic"
	"time"
)

// clock is the coarse clock. Reading it costs one load, and gives the time of a moment ago. It is zero while RunClock does
// not run; its readers then read time.Now.
//
// Its readers cannot know how long ago that moment was. So they trust it only with answers that stay the same for
// clockSlack after it; for a closure that begins or ends sooner they read time.Now. RunClock sets the clock ten times in
// each clockSlack. While it is no later than clockSlack, no answer differs from the one that time.Now would give.
type clock struct{ unix atomic.Int64 } // nanoseconds

const (
	clockBeat  = 100 * time.Millisecond
	clockSlack = time.Second
)

// RunClock keeps the coarse clock until ctx ends. Without it hits read time.Now, which costs several times as much as the
// rest of the lookup. It waits for its ticker only. kafkalink runs it. One goroutine suffices; several do no harm.
func (s *Set) RunClock(ctx context.Context) {
	t := time.NewTicker(clockBeat)
	defer t.Stop()
	defer s.clock.unix.Store(0)
	for {
		s.clock.unix.Store(time.Now().UnixNano()) // not the ticker's time: it may be old when this goroutine runs
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// coarseFor returns the time of the coarse clock in Unix nanoseconds, and whether it suffices to judge the caller.
func (s *Set) coarseFor(cc *closedCaller) (now int64, ok bool) {
	now = s.clock.unix.Load()
	return now, now != 0 && s.policy != Open && !cc.shared() && cc.unchanged(now, now+int64(clockSlack))
}

// timeFor returns the time of the coarse clock if that suffices to judge the caller, and time.Now otherwise.
func (s *Set) timeFor(cc *closedCaller) (now time.Time, coarse bool) {
	if now, ok := s.coarseFor(cc); ok {
		return time.Unix(0, now), true
	}
	return time.Now(), false
}

// unchanged reports whether none of the caller's closures begins or ends in (from, to].
func (cc *closedCaller) unchanged(from, to int64) bool {
	for i := range cc.len() {
		c := cc.closure(i)
		if from < c.closeAt && c.closeAt <= to || from < c.until && c.until <= to {
			return false
		}
	}
	return true
}

// inForceFast reports whether the caller's first closure enforces, and is in force by the coarse clock and for clockSlack
// after it. If it returns false, the caller may still be closed.
func (s *Set) inForceFast(cc *closedCaller) bool {
	now := s.clock.unix.Load()
	return cc.terms < shareBit && cc.closeAt <= now && now+int64(clockSlack) < cc.until && now != 0 && s.policy != Open
}
