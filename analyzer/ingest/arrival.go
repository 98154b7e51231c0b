package ingest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// Part says which entries a line makes of its request. The zero value, Whole, is both.
type Part uint8

// Parts.
const (
	Whole    Part = iota // the arrival and the response
	Arrival              // the server logs when a request arrives, and again when it ends: this is the first line
	Response             // this is the last one, or somebody else reports arrivals
)

// TimeAt is which end of a request the time of a line is.
type TimeAt uint8

// Ends. The zero value says that the format does not know.
const (
	TimeAtUnknown TimeAt = iota
	TimeAtStart
	TimeAtEnd
	timeAts
)

// String returns the end as a mapping says it.
func (a TimeAt) String() string {
	switch a {
	case TimeAtStart:
		return "start"
	case TimeAtEnd:
		return "end"
	}
	return "unknown"
}

// maxDuration bounds the duration of a request. A longer one is taken as 0: it is rather a mistake, and would make its request late.
const maxDuration = int64(24 * time.Hour)

// durationUnit returns the unit of that name, or 0.
func durationUnit(name string) time.Duration {
	switch name {
	case "s":
		return time.Second
	case "ms":
		return time.Millisecond
	case "us":
		return time.Microsecond
	case "ns":
		return time.Nanosecond
	}
	return 0
}

// arrivals is how a mapping finds the arrival of a line's request.
type arrivals struct {
	said     bool // the mapping says something of them
	duration ref
	unit     int64
	fromTime bool // the time of a line is that of the arrival; else it is the end
	declared ref
	lines    []fieldFilter // the lines that are arrivals; nil: see none
	none     bool          // no line is
}

// arrivals compiles what m says of arrivals.
func (c *compiler) arrivals(m Mapping) arrivals {
	if m.Duration != "" && m.TimeAt == TimeAtUnknown {
		c.fail(errors.New("got a duration, and a time that may be of the start or of the end of a request: want time: {at: start} or {at: end}"))
	}
	if len(m.Arrivals) > maxFilters {
		c.fail(fmt.Errorf("got %d fields that say which lines are arrivals, want at most %d", len(m.Arrivals), maxFilters))
		return arrivals{}
	}
	return arrivals{
		said:     m.Duration != "" || len(m.Arrivals) > 0 || m.NoArrivals,
		duration: c.field(m.Duration), unit: int64(m.Unit), fromTime: m.TimeAt == TimeAtStart, declared: c.field(m.Declared),
		lines: c.fieldFilters(m.Arrivals), none: m.NoArrivals,
	}
}

// arrival sets when the request of l arrived and ended, what it was expected to cost, and which part of it l is. The time and the end of l
// are the one time that the log has.
func (s *scan) arrival(l *Line) {
	a := &s.m.arrivals
	switch {
	case a.none:
		l.Part = Response
	case a.lines != nil && s.match(a.lines, l):
		l.Part = Arrival
	case a.lines != nil:
		l.Part = Response
	}
	if a.duration.what == refNone {
		return
	}
	if l.Declared = scaled(s.first(&a.declared), s.m.scale); l.Part == Arrival {
		if !l.Blocked {
			l.Arrived = schemas.Tick(l.Time)
		}
		return
	}
	text := s.first(&a.duration)
	if a.unit == second {
		text = strings.TrimSuffix(text, "s") // protobuf writes durations so
	}
	took := scaled(text, a.unit)
	if took > maxDuration || took > l.Time {
		took = 0
	}
	if a.fromTime {
		l.End += took
	} else {
		l.Time -= took
	}
	// Nobody has counted the arrival of a blocked request as admitted, unless an earlier line was it.
	if !l.Blocked || a.lines != nil {
		l.Arrived = schemas.Tick(l.Time)
	}
}
