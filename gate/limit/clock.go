package limit

import (
	"math"
	"time"
)

// horizon is how far from a limiter's start its times reach: 18 years before and after.
const horizon = int64(1) << 59

// clock converts times to nanoseconds from 0 to 2·horizon, with its start in the middle. It uses the monotonic clock where a
// time has a reading of it, so that a change of the wall clock neither refuses nor admits any event.
type clock struct {
	start time.Time
	unix  int64 // start, in nanoseconds since 1970
}

func newClock() clock {
	now := time.Now()
	return clock{start: now, unix: now.UnixNano()}
}

// now reads the clock. It costs half of time.Now, because it does not read the wall clock.
func (c *clock) now() int64 { return offset(time.Since(c.start)) }

// at converts a time. A time beyond the horizon becomes the horizon.
func (c *clock) at(t time.Time) int64 { return offset(t.Sub(c.start)) }

func offset(since time.Duration) int64 { return horizon + max(-horizon, min(int64(since), horizon)) }

// phase returns what to add to this clock's times so that they count from a multiple of the period since 1970.
func (c *clock) phase(period int64) int64 {
	return modulo(modulo(c.unix, period)-modulo(horizon, period), period)
}

// modulo returns the remainder of a/b that is not negative.
func modulo(a, b int64) int64 { return (a%b + b) % b }

// Never is the delay of a turn that never comes.
const Never = time.Duration(math.MaxInt64)

// maxPeriod bounds periods and waits, which are added to times: 2.3 years.
const maxPeriod = int64(1) << 56

// nanoseconds checks a period and returns it in nanoseconds. It panics if the period is out of range.
func nanoseconds(period time.Duration) int64 {
	if period <= 0 || int64(period) > maxPeriod {
		panic("limit: a period must be positive and less than two years; got " + period.String())
	}
	return int64(period)
}
