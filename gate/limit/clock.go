package limit

import (
	"math"
	"time"
)

// horizon is how far from the making of a limiter times are told apart: 18 years before and after.
const horizon = int64(1) << 59

// clock turns times into nanoseconds from 0 to 2·horizon, with its start in the middle. It goes by the monotonic clock
// where a time has a reading of it, so that setting the wall clock neither locks anybody out nor lets anybody in.
type clock struct {
	start time.Time
	unix  int64 // start, in nanoseconds since 1970
}

func newClock() clock {
	now := time.Now()
	return clock{start: now, unix: now.UnixNano()}
}

// now reads the clock. It costs half of time.Now, because it needs no wall clock.
func (c *clock) now() int64 { return offset(time.Since(c.start)) }

// at returns a given time. What is beyond the horizon counts as the horizon.
func (c *clock) at(t time.Time) int64 { return offset(t.Sub(c.start)) }

func offset(since time.Duration) int64 { return horizon + max(-horizon, min(int64(since), horizon)) }

// phase is what must be added to times so that they count from a multiple of the period since 1970.
func (c *clock) phase(period int64) int64 {
	return modulo(modulo(c.unix, period)-modulo(horizon, period), period)
}

// modulo is the remainder that is never negative.
func modulo(a, b int64) int64 { return (a%b + b) % b }

// Never is the wait for a turn that never comes.
const Never = time.Duration(math.MaxInt64)

// maxPeriod bounds periods and waits, which are added to times: 2.3 years.
const maxPeriod = int64(1) << 56

// nanoseconds checks a period.
func nanoseconds(period time.Duration) int64 {
	if period <= 0 || int64(period) > maxPeriod {
		panic("limit: a period must be positive and less than two years; got " + period.String())
	}
	return int64(period)
}
