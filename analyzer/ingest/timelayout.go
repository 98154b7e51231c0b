package ingest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

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

// noZone reads a time that says no zone as one of UTC.
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
