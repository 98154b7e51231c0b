package ingest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Times of a log, in Unix seconds: from 1970 to the last whole year whose nanoseconds fit an int64.
const (
	minYear   = 1970
	maxYear   = 2261
	maxSecond = 9_214_646_399 // 2261-12-31T23:59:59Z
	second    = int64(time.Second)
)

// clfClock reads the times of the common log format, "17/May/2015:10:05:03 +0000". It remembers the minute it saw last,
// because the next line is nearly always of the same one. The zero value is ready; it is used by one goroutine.
type clfClock struct {
	date, hour, zone uint64 // the last text, its seconds masked out; date 0 means none
	tail             uint16
	minute           int64 // Unix seconds of that minute
}

// clfLen is the length of a time in the common log format.
const clfLen = len("17/May/2015:10:05:03 +0000")

// clfSeconds masks the two digits of the seconds out of bytes 16 to 23, read as a little-endian word.
const clfSeconds = ^uint64(0xffff << 16)

// parse returns the Unix nanoseconds of b, which must be clfLen bytes long, and whether b is a time.
func (c *clfClock) parse(b string) (int64, bool) {
	b = b[:clfLen]
	date, hour := word(b), word(b[8:])
	zone, tail := word(b[16:])&clfSeconds, uint16(b[24])|uint16(b[25])<<8
	if date != c.date || hour != c.hour || zone != c.zone || tail != c.tail || date == 0 {
		minute, ok := clfMinute(b)
		if !ok {
			return 0, false
		}
		c.date, c.hour, c.zone, c.tail, c.minute = date, hour, zone, tail, minute
	}
	sec, ok := twoDigits(b[18:], 59)
	return (c.minute + sec) * second, ok
}

// clfMinute returns the Unix seconds of b's minute.
func clfMinute(b string) (int64, bool) {
	month := clfMonth(b[3:6])
	if month == 0 || b[2] != '/' || b[6] != '/' || b[11] != ':' || b[14] != ':' || b[17] != ':' || b[20] != ' ' {
		return 0, false
	}
	minute, ok := civilMinute(b[7:11], month, b[0:2], b[12:14], b[15:17])
	offset, zoneOK := zoneOffset(b[21:26])
	minute -= offset
	return minute, ok && zoneOK && minute >= 0 && minute < maxSecond
}

// clfMonth returns 1 to 12 for Jan to Dec, 0 for anything else.
func clfMonth(b string) time.Month {
	const names = "JanFebMarAprMayJunJulAugSepOctNovDec"
	for m := range 12 {
		if names[3*m:3*m+3] == b {
			return time.Month(m + 1)
		}
	}
	return 0
}

// isoClock reads RFC 3339 times and their usual variations: 'T', 't' or a space before the hour, a fraction of any
// length (digits beyond nanoseconds are dropped), and the zone as Z, z, ±hh:mm or ±hhmm. It remembers the last minute as
// clfClock does. The zero value is ready; it is used by one goroutine.
type isoClock struct {
	date, hour uint64 // bytes 0 to 7 and 8 to 15 of the last text; date 0 means none
	minute     int64  // Unix seconds of that minute, its zone not yet taken off
}

// parse returns the Unix nanoseconds of b and whether b is a time.
func (c *isoClock) parse(b string) (int64, bool) {
	if len(b) < len("2015-05-17T10:05:03Z") || b[16] != ':' {
		return 0, false
	}
	date, hour := word(b), word(b[8:])
	if date != c.date || hour != c.hour || date == 0 {
		minute, ok := isoMinute(b)
		if !ok {
			return 0, false
		}
		c.date, c.hour, c.minute = date, hour, minute
	}
	sec, ok := twoDigits(b[17:], 59)
	if !ok {
		return 0, false
	}
	var frac int64
	rest := b[19:]
	if rest[0] == '.' || rest[0] == ',' {
		if frac, rest, ok = fraction(rest[1:]); !ok {
			return 0, false
		}
	}
	sec += c.minute
	if len(rest) != 1 || rest[0]|0x20 != 'z' {
		offset, ok := zoneOffset(rest)
		if !ok {
			return 0, false
		}
		sec -= offset
	}
	return sec*second + frac, sec >= 0 && sec <= maxSecond
}

// isoMinute returns the seconds since 1970 of b's minute in b's own zone.
func isoMinute(b string) (int64, bool) {
	if b[4] != '-' || b[7] != '-' || b[10]|0x20 != 't' && b[10] != ' ' || b[13] != ':' {
		return 0, false
	}
	month, ok := twoDigits(b[5:], 12)
	if !ok || month == 0 {
		return 0, false
	}
	return civilMinute(b[0:4], time.Month(month), b[8:10], b[11:13], b[14:16])
}

// civilMinute returns the seconds since 1970 of a minute, in its own zone.
func civilMinute(yyyy string, month time.Month, dd, hh, mm string) (int64, bool) {
	century, ok1 := twoDigits(yyyy, 99)
	year, ok2 := twoDigits(yyyy[2:], 99)
	day, ok3 := twoDigits(dd, 31)
	hour, ok4 := twoDigits(hh, 23)
	minute, ok5 := twoDigits(mm, 59)
	year += century * 100
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || year < minYear || year > maxYear {
		return 0, false
	}
	t := time.Date(int(year), month, int(day), int(hour), int(minute), 0, 0, time.UTC)
	return t.Unix(), t.Day() == int(day) // false for the 30th of February and the 0th of anything
}

// zoneOffset returns the seconds east of UTC of ±hhmm or ±hh:mm.
func zoneOffset(b string) (int64, bool) {
	n := len(b)
	if (n != 5 && (n != 6 || b[3] != ':')) || b[0] != '+' && b[0] != '-' {
		return 0, false
	}
	hours, ok1 := twoDigits(b[1:], 23)
	minutes, ok2 := twoDigits(b[n-2:], 59)
	offset := hours*3600 + minutes*60
	if b[0] == '-' {
		offset = -offset
	}
	return offset, ok1 && ok2
}

// fraction reads the digits after a decimal point as nanoseconds and returns what follows them. At least one digit must be
// there.
func fraction(b string) (nanos int64, rest string, ok bool) {
	unit, i := second/10, 0
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		nanos += int64(b[i]-'0') * unit
		unit /= 10
	}
	return nanos, b[i:], i > 0 && i < len(b)
}

// twoDigits returns the number of the two digits at the start of b, and whether they are digits and at most limit.
func twoDigits(b string, limit int64) (int64, bool) {
	hi, lo := b[0]-'0', b[1]-'0'
	v := int64(hi)*10 + int64(lo)
	return v, hi <= 9 && lo <= 9 && v <= limit
}

// word returns the first eight bytes of b as a little-endian word; the compiler makes one load of it.
func word(b string) uint64 {
	_ = b[7]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// TimeLayout is how a JSON log writes its times.
type TimeLayout uint8

// Layouts. The zero value, TimeAuto, distinguishes the others by their look: numbers by their magnitude (below 10^11
// seconds, below 10^14 milliseconds, below 10^17 microseconds, else nanoseconds).
const (
	TimeAuto      TimeLayout = iota
	TimeRFC3339              // 2015-05-17T10:05:03.123Z
	TimeCLF                  // 17/May/2015:10:05:03 +0000
	TimeUnix                 // seconds since 1970, with or without a fraction
	TimeUnixMilli            // milliseconds
	TimeUnixMicro            // microseconds
	TimeUnixNano             // nanoseconds
	TimeNoZone               // 17/May/2015:10:05:03.123 or 2015-05-17 10:05:03, taken as UTC
	timeLayouts
)

// layoutNames returns the names of the layouts, in their order.
func layoutNames() []string {
	return []string{"auto", "rfc3339", "clf", "unix", "unix_ms", "unix_us", "unix_ns", "no_zone"}
}

// ParseTimeLayout returns the layout of that name.
func ParseTimeLayout(name string) (TimeLayout, error) {
	i := slices.Index(layoutNames(), name)
	if i < 0 {
		return 0, fmt.Errorf("%w: got time layout %q, want one of %s", ErrMapping, name, strings.Join(layoutNames(), ", "))
	}
	return TimeLayout(i), nil
}

// String returns the layout's name.
func (t TimeLayout) String() string {
	if t < timeLayouts {
		return layoutNames()[t]
	}
	return "unknown"
}

// clock reads times of any layout. It is used by one goroutine.
type clock struct {
	layout TimeLayout
	clf    clfClock
	iso    isoClock
}

// parse returns the Unix nanoseconds of s and whether s is a time.
func (c *clock) parse(s string) (int64, bool) {
	layout := c.layout
	if layout == TimeAuto {
		layout = guessLayout(s)
	}
	switch layout {
	case TimeRFC3339:
		return c.iso.parse(s)
	case TimeCLF:
		if len(s) != clfLen {
			return 0, false
		}
		return c.clf.parse(s)
	case TimeNoZone:
		return c.noZone(s)
	case TimeUnix:
		return unixTime(s, 1_000_000_000)
	case TimeUnixMilli:
		return unixTime(s, 1_000_000)
	case TimeUnixMicro:
		return unixTime(s, 1_000)
	}
	return unixTime(s, 1)
}

// noZone reads a time without a zone as UTC.
func (c *clock) noZone(s string) (int64, bool) {
	var text [clfLen]byte
	if len(s) > len("17/May/2015") && s[2] == '/' {
		whole, frac, _ := strings.Cut(s, ".")
		if len(whole) != clfLen-len(" +0000") || len(frac) > 9 {
			return 0, false
		}
		copy(text[copy(text[:], whole):], " +0000")
		v, ok := c.clf.parse(string(text[:]))
		nanos, valid := unixTime("0."+frac, second)
		return v + nanos, ok && (valid || frac == "")
	}
	if len(s) != len("2015-05-17 10:05:03") {
		return 0, false
	}
	copy(text[copy(text[:], s):], "Z")
	return c.iso.parse(string(text[:len(s)+1]))
}

// guessLayout returns the layout that s has by its look.
func guessLayout(s string) TimeLayout {
	if len(s) > 4 && s[4] == '-' {
		return TimeRFC3339
	}
	if len(s) == clfLen && s[2] == '/' {
		return TimeCLF
	}
	if strings.ContainsAny(s, "eE") {
		return TimeUnix
	}
	digits := strings.IndexByte(s, '.')
	if digits < 0 {
		digits = len(s)
	}
	switch {
	case digits <= 11:
		return TimeUnix
	case digits <= 14:
		return TimeUnixMilli
	case digits <= 17:
		return TimeUnixMicro
	}
	return TimeUnixNano
}

// unixTime returns the nanoseconds of the decimal number s in a unit of that many nanoseconds. Digits below a nanosecond
// are dropped.
func unixTime(s string, unit int64) (int64, bool) {
	const maxNanos = maxSecond*second + second - 1
	var v int64
	i := 0
	for ; i < len(s) && s[i]-'0' <= 9; i++ {
		digit := int64(s[i] - '0')
		if v > (maxNanos/unit-digit)/10 {
			return 0, false
		}
		v = v*10 + digit
	}
	if i == 0 {
		return 0, false
	}
	v *= unit
	if i < len(s) && s[i] == '.' {
		digit := unit
		for i++; i < len(s) && s[i]-'0' <= 9; i++ {
			digit /= 10
			v += int64(s[i]-'0') * digit
		}
	}
	if i == len(s) {
		return v, true
	}
	return unixFloat(s, unit)
}

// unixFloat is unixTime for numbers with an exponent, which are exact to some hundred nanoseconds only.
func unixFloat(s string, unit int64) (int64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	f *= float64(unit)
	if err != nil || !(f >= 0 && f <= maxSecond*float64(second)) {
		return 0, false
	}
	return int64(f), true
}

// whole returns the whole part of the decimal number s, from 0 to the largest int64; 0 if s is no number. It is exact but
// for numbers with an exponent, which have the 53 bits of a float64.
func whole(s string) int64 {
	var v uint64
	for i := range len(s) {
		d := s[i] - '0'
		if d > 9 || v > math.MaxInt64/10 {
			if s[i] == '.' && i > 0 && strings.Trim(s[i+1:], "0123456789") == "" {
				break // a float64 might round what follows the point up
			}
			return wholeFloat(s)
		}
		v = v*10 + uint64(d)
	}
	return int64(min(v, math.MaxInt64))
}

// wholeFloat is whole for numbers that are large or not written as digits alone.
func wholeFloat(s string) int64 {
	if strings.Trim(s, "0123456789.eE+-") != "" {
		return 0 // ParseFloat also knows inf and 0x1p9
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case f >= math.MaxInt64: // also with err: out of range is infinite
		return math.MaxInt64
	case err != nil || !(f > 0):
		return 0
	}
	return int64(f)
}

// scaled is whole for s times scale; digits that are still behind the point then are cut.
func scaled(s string, scale int64) int64 {
	if scale == 1 {
		return whole(s)
	}
	digits, frac, point := strings.Cut(s, ".")
	if strings.Trim(digits, "0123456789") != "" || strings.Trim(frac, "0123456789") != "" || digits == "" && frac == "" {
		if f, err := strconv.ParseFloat(s, 64); err == nil && f > 0 && strings.Trim(s, "0123456789.eE+-") == "" {
			return int64(min(f*float64(scale), 1<<62))
		}
		return 0
	}
	v := whole(digits)
	if v > math.MaxInt64/scale-1 {
		return math.MaxInt64
	}
	v *= scale
	if point {
		unit := scale
		for i := range len(frac) {
			// Nanoseconds are the finest scale: what is cut off here is less than one.
			if unit /= 10; unit == 0 {
				break
			}
			v += int64(frac[i]-'0') * unit
		}
	}
	return v
}
