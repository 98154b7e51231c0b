package window

import (
	"fmt"
	"math"
	"time"

	"github.com/509da70d/floodgate/analyzer/integer"
)

// Unit is a unit of the calendar. The zero value is none.
type Unit uint8

// Units of the calendar.
const (
	Hour Unit = 1 + iota
	Day
	Week  // from Monday
	Month // from the anchor day
	Year
)

// String returns hour, day, week, month or year, or "" if u is none of them.
func (u Unit) String() string {
	switch u {
	case Hour:
		return "hour"
	case Day:
		return "day"
	case Week:
		return "week"
	case Month:
		return "month"
	case Year:
		return "year"
	}
	return ""
}

// ParseUnit returns the unit that s names, or none.
func ParseUnit(s string) Unit {
	for u := Hour; u <= Year; u++ {
		if u.String() == s {
			return u
		}
	}
	return 0
}

// NewCalendar returns fixed windows that are the hours, days, weeks, months or years of the calendar in loc. A day
// starts at the first instant of its local date, so it has 23 or 25 hours when the clock is changed, and a date that a
// zone skipped has no window. A month starts on the anchor day, 1 to 31, or on its last day if it is shorter. Hours
// start where the local clock shows full ones, and at changes of the clock. The anchor of other units is ignored.
// NewCalendar panics if an argument is out of range.
func NewCalendar(unit Unit, loc *time.Location, anchor int) Algorithm {
	if unit != Month {
		anchor = 1
	}
	if unit < Hour || unit > Year || loc == nil || anchor < 1 || anchor > 31 {
		panic(fmt.Sprintf("BUG: calendar window of unit %d, zone %v, anchor %d", unit, loc, anchor))
	}
	return fixed{spans: calendar{unit: unit, loc: loc, anchor: anchor}, head: 2, grace: grace}
}

// calendar is the windows of a calendar. A head is {start, end}, so that only the first entry in a window, and a late one, ask the calendar.
type calendar struct {
	unit   Unit
	loc    *time.Location
	anchor int
}

func (calendar) begin(s State, w span) State { return append(s, w.start, w.end) }

func (calendar) newest(s State) span { return span{s[0], s[1]} }

func (c calendar) Length(t int64) int64 {
	w := c.bounds(t)
	return sub(w.end, w.start)
}

func (c calendar) Shape() string {
	return fmt.Sprintf("%s/%s/%s/%d", nameFixed, c.unit, c.loc, c.anchor)
}

func (calendar) Traits() Traits { return Traits{Slot: math.MaxInt64} }

const (
	second     = int64(time.Second)
	hourLength = 60 * 60 // seconds
	dayLength  = 24 * hourLength
	maxOffset  = 2 * dayLength // seconds; no zone was ever further from UTC than 16 hours
)

func (c calendar) bounds(t int64) span {
	if c.unit == Hour {
		return c.hour(t)
	}
	at := integer.FloorDiv(t, second)
	period := c.period(at)
	for c.start(period) > at {
		period--
	}
	next := c.start(period + 1)
	for next <= at {
		period++
		next = c.start(period + 1)
	}
	return span{mul(c.start(period), second), mul(next, second)}
}

// hour returns the full hour on the local clock that t falls into, cut where the clock was changed.
func (c calendar) hour(t int64) span {
	at := time.Unix(0, t).In(c.loc)
	_, offset := at.Zone()
	local := integer.FloorDiv(t, second) + int64(offset)
	first := local - (local - integer.FloorDiv(local, hourLength)*hourLength) - int64(offset)
	last := first + hourLength
	from, to := at.ZoneBounds()
	if !from.IsZero() {
		first = max(first, from.Unix())
	}
	if !to.IsZero() {
		last = min(last, to.Unix())
	}
	return span{mul(first, second), mul(last, second)}
}

// period returns the number of the day, week, month or year on the local clock at a time in Unix seconds. Where a clock
// is set back over midnight it may be one more or less than the window's, because windows never go back.
func (c calendar) period(at int64) int64 {
	local := time.Unix(at, 0).In(c.loc)
	_, offset := local.Zone()
	days := integer.FloorDiv(at+int64(offset), dayLength)
	switch c.unit {
	case Day:
		return days
	case Week:
		return integer.FloorDiv(days+3, 7) // the epoch was a Thursday
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
		year, month := int(integer.FloorDiv(period, 12)), time.Month(period-integer.FloorDiv(period, 12)*12+1)
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
