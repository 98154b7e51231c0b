package haproxy

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unique"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
)

// never is the time at which nothing happens.
const never = math.MaxInt64

// value is what an entry of a map says. The zero value is that of no entry.
type value struct {
	until int64 // Unix milliseconds
	terms unique.Handle[terms]
}

// terms are what a refused client is told beside the time.
type terms struct {
	rule          string // "" if it cannot be told
	limit, window int64  // window in seconds; 0 if they cannot be told
}

// maxInteger is the largest integer of a structured field (RFC 9651, 3.3.1).
const maxInteger = 999_999_999_999_999

// termsOf returns the terms of a decision. A rule whose name is not one that rules have is left out, so that it can neither end the value
// nor a field of the answer.
func termsOf(d *schemas.Decision) unique.Handle[terms] {
	t := terms{rule: d.Rule, limit: d.Evidence.Limit, window: wholeSeconds(d.Evidence.Window)}
	if !plain(t.rule, "_.-") {
		t.rule = ""
	}
	if t.rule == "" || t.limit <= 0 || t.limit > maxInteger || t.window <= 0 {
		t.limit, t.window = 0, 0
	}
	return unique.Make(t)
}

func wholeSeconds(nanoseconds int64) int64 {
	seconds := nanoseconds / int64(time.Second)
	if nanoseconds%int64(time.Second) > 0 {
		seconds++
	}
	return seconds
}

// plain reports whether a text has only letters and digits of ASCII, and the others.
func plain(text, others string) bool {
	for i := range len(text) {
		if !isAlphanumeric(text[i]) && strings.IndexByte(others, text[i]) < 0 {
			return false
		}
	}
	return true
}

// append appends the text of a value.
func (v value) append(b []byte) []byte {
	b = strconv.AppendInt(b, v.until, 10)
	t := v.terms.Value()
	if t.rule == "" {
		return b
	}
	b = append(append(b, ':'), t.rule...)
	if t.limit > 0 {
		b = strconv.AppendInt(append(b, ':'), t.limit, 10)
		b = strconv.AppendInt(append(b, ':'), t.window, 10)
	}
	return b
}

// foreign is the value of an entry whose text no Writer has written. It never ends, and equals no value that is wanted.
func foreign() value { return value{never, unique.Make(terms{limit: -1})} }

// parseValue returns the value whose text this is, or foreign.
func parseValue(text string) value {
	fields := strings.SplitN(text, ":", 5)
	var t terms
	var v value
	v.until, _ = strconv.ParseInt(fields[0], 10, 64) // what is not as append writes it is foreign
	if len(fields) > 1 {
		t.rule = fields[1]
	}
	if len(fields) > 3 {
		t.limit, _ = strconv.ParseInt(fields[2], 10, 64)
		t.window, _ = strconv.ParseInt(fields[3], 10, 64)
	}
	v.terms = unique.Make(t)
	if v.until <= 0 || string(v.append(nil)) != text {
		return foreign()
	}
	return v
}

// inForce returns what closes a caller at now, in Unix nanoseconds, of the decisions about it: as at a gate, the closure that ends last, and
// as its end that of the closures that follow without a gap. It also returns when the answer may change although no decision comes.
func inForce(ds []schemas.Decision, now int64) (v value, due int64) {
	var all []schemas.Span
	var last *schemas.Decision
	until := int64(math.MinInt64)
	due = never
	for i := range ds {
		if ds[i].Mode != schemas.ModeEnforce {
			continue
		}
		for _, s := range gate.Spans(&ds[i]) {
			switch {
			case s.Until <= s.CloseAt || s.Until <= now:
			case s.CloseAt > now:
				due = min(due, s.CloseAt)
				all = append(all, s)
			case s.Until > until:
				until, last = s.Until, &ds[i]
			}
		}
	}
	if last == nil {
		return value{}, due
	}
	for grown := true; grown; {
		grown = false
		for _, s := range all {
			if s.CloseAt <= until && s.Until > until {
				until, grown = s.Until, true
			}
		}
	}
	return value{ceilMilliseconds(until), termsOf(last)}, until
}

// ceilMilliseconds returns the first whole millisecond that is not before a time in Unix nanoseconds: nobody is let in too early.
func ceilMilliseconds(nanoseconds int64) int64 {
	ms := nanoseconds / int64(time.Millisecond)
	if nanoseconds%int64(time.Millisecond) > 0 {
		ms++
	}
	return ms
}
