package ingest

import "time"

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
