package window

import "time"

const (
	second     = int64(time.Second)
	hourLength = 60 * 60 // seconds
	dayLength  = 24 * hourLength
	maxOffset  = 2 * dayLength // seconds; no zone was ever further from UTC than 16 hours
)

// bounds returns the window of the calendar that t falls into: start ≤ t < end, in Unix nanoseconds.
func (c calendar) bounds(t int64) (start, end int64) {
	if c.unit == Hour {
		return c.hour(t)
	}
	at := floorDiv(t, second)
	period := c.period(at)
	for c.start(period) > at {
		period--
	}
	next := c.start(period + 1)
	for next <= at {
		period++
		next = c.start(period + 1)
	}
	return mul(c.start(period), second), mul(next, second)
}

// hour returns the full hour on the local clock that t falls into, cut where the clock was changed.
func (c calendar) hour(t int64) (start, end int64) {
	at := time.Unix(0, t).In(c.loc)
	_, offset := at.Zone()
	local := floorDiv(t, second) + int64(offset)
	first := local - (local - floorDiv(local, hourLength)*hourLength) - int64(offset)
	last := first + hourLength
	from, to := at.ZoneBounds()
	if !from.IsZero() {
		first = max(first, from.Unix())
	}
	if !to.IsZero() {
		last = min(last, to.Unix())
	}
	return mul(first, second), mul(last, second)
}

// period returns the number of the day, week, month or year on the local clock at a time in Unix seconds. Where a clock
// is set back over midnight it may be one more or less than the window's, because windows never go back.
func (c calendar) period(at int64) int64 {
	local := time.Unix(at, 0).In(c.loc)
	_, offset := local.Zone()
	days := floorDiv(at+int64(offset), dayLength)
	switch c.unit {
	case Day:
		return days
	case Week:
		return floorDiv(days+3, 7) // the epoch was a Thursday
	case Month:
		return int64(local.Year())*12 + int64(local.Month()) - 1
	default:
		return int64(local.Year())
	}
}

// start returns the first instant of a period, in Unix seconds.
func (c calendar) start(period int64) int64 {
	switch c.unit {
	case Day:
		return c.firstInstant(period * dayLength)
	case Week:
		return c.firstInstant((period*7 - 3) * dayLength)
	case Month:
		year, month := int(floorDiv(period, 12)), time.Month(period-floorDiv(period, 12)*12+1)
		last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
		return c.firstInstant(time.Date(year, month, min(c.anchor, last), 0, 0, 0, 0, time.UTC).Unix())
	default:
		return c.firstInstant(time.Date(int(period), time.January, 1, 0, 0, 0, 0, time.UTC).Unix())
	}
}

// firstInstant returns the first time at which the local clock shows midnight or later, where midnight is given as if
// the clock were UTC. All in Unix seconds. A zone may skip a midnight, or have two; time.Date promises neither the first
// nor the next, so the stretches of constant offset around it are asked one by one.
func (c calendar) firstInstant(midnight int64) int64 {
	from := midnight - maxOffset
	for {
		at := time.Unix(from, 0).In(c.loc)
		_, offset := at.Zone()
		_, to := at.ZoneBounds()
		first := max(from, midnight-int64(offset))
		if to.IsZero() || first < to.Unix() {
			return first
		}
		from = to.Unix()
	}
}
