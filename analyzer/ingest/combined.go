package ingest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/509da70d/floodgate/schemas"
)

// The fields of a line in combined format that a mapping may name, and how many of them the common format has.
const (
	fieldIP = iota
	fieldUser
	fieldMethod
	fieldResource
	fieldReferer
	fieldAgent
	combinedFields
	commonFields = fieldReferer
)

// combined scans the combined log format of Apache and nginx, and the common log format, which is its first part:
//
//	83.149.9.216 - - [17/May/2015:10:05:03 +0000] "GET /index.html?q=1 HTTP/1.1" 200 203023 "referer" "user agent"
//
// The servers escape quotes inside of fields, so that the first `] "` ends the time whatever a client sends as its user
// name, and the time is what stands right before.
type combined struct {
	clock   clfClock
	kinds   []string
	callers [][]int // per kind: the fields that make it
}

func newCombined(m Mapping) (*Format, error) { return newCLF("combined", m, combinedFields) }
func newCommon(m Mapping) (*Format, error)   { return newCLF("common", m, commonFields) }

// newCLF returns the format that has the first n fields.
func newCLF(name string, m Mapping, n int) (*Format, error) {
	if m.Time != "" || m.Layout != TimeAuto || m.Resource != "" || m.Status != "" || m.Cost != "" {
		return nil, fmt.Errorf("%w: format %s has its own time, resource, status and cost", ErrMapping, name)
	}
	names := []string{"ip", "user", "method", "resource", "referer", "agent"}[:n]
	c := combined{kinds: []string{schemas.KindIP}, callers: [][]int{{fieldIP}}}
	for _, caller := range m.Callers {
		if caller.Kind == schemas.KindIP {
			return nil, fmt.Errorf("%w: format %s always has callers of kind ip", ErrMapping, name)
		}
		fields := make([]int, len(caller.Fields))
		for i, f := range caller.Fields {
			if fields[i] = slices.Index(names, f); fields[i] < 0 {
				return nil, fmt.Errorf("%w: format %s: got field %q, want one of %s", ErrMapping, name, f, strings.Join(names, ", "))
			}
		}
		c.kinds, c.callers = append(c.kinds, caller.Kind), append(c.callers, fields)
	}
	return &Format{name: name, kinds: c.kinds, open: func() Scanner { s := c; return &s }}, nil
}

// Scan implements Scanner.
func (c *combined) Scan(line []byte, l *Line) Reason {
	s := view(line[:min(len(line), MaxLine)])
	l.reset(len(c.callers))
	n := ipv4Len(s)
	if n > 0 {
		l.IDs[0] = s[:n]
	} else {
		if n = strings.IndexByte(s, ' '); n < 0 {
			n = len(s)
		}
		l.IDs[0] = address(s[:n], l)
	}
	if l.IDs[0] == "" && len(c.callers) == 1 {
		return BadAddress
	}
	end := c.time(s, n, l)
	if end == 0 {
		return BadTime
	}
	request, rest := quoted(s[end:])
	method, target := splitRequest(request)
	l.resource(pathOf(target))
	rest = l.numbers(rest)
	if len(c.callers) == 1 {
		return OK
	}
	fields := [combinedFields]string{fieldIP: l.IDs[0], fieldMethod: method, fieldResource: l.Resource}
	if open := strings.LastIndexByte(s[:end], '['); open > n {
		fields[fieldUser] = userOf(s[n:open])
	}
	fields[fieldReferer], rest = quoted(rest)
	fields[fieldAgent], _ = quoted(rest)
	return c.more(&fields, l)
}

// more sets the callers of l that the mapping adds. If neither they nor the address can be read, it says why.
func (c *combined) more(fields *[combinedFields]string, l *Line) Reason {
	reason, found := BadAddress, l.IDs[0] != ""
	for i := 1; i < len(c.callers); i++ {
		var parts [maxParts]string
		for j, f := range c.callers[i] {
			if parts[j] = fields[f]; parts[j] == "-" {
				parts[j] = ""
			}
		}
		if r := l.caller(i, c.kinds[i], parts[:len(c.callers[i])]); r != OK {
			reason = r
		}
		found = found || l.IDs[i] != ""
	}
	if found {
		return OK
	}
	return reason
}

// time reads l's time, which stands somewhere after the first from bytes of s, and returns the index after it, its
// bracket, or 0 if s has no time.
func (c *combined) time(s string, from int, l *Line) int {
	// Nearly every line: no ident, no user.
	if end := from + len(" - - [") + clfLen + 1; end+2 <= len(s) && s[from:from+6] == " - - [" && s[end-1:end+2] == `] "` {
		var ok bool
		if l.Time, ok = c.clock.parse(s[from+6 : end-1]); ok {
			return end
		}
	}
	first := strings.IndexByte(s[from:], '"')
	q := from + first + 1 // just after the quote that opens the request
	if q < from+clfLen+4 || s[q-3] != ']' || s[q-2] != ' ' {
		// A quote in the user name, or something between time and request, or a line that was cut before the request.
		if q = from + strings.Index(s[from:], `] "`) + 3; q < from+3 {
			before := s
			if first >= 0 {
				before = s[:from+first]
			}
			q = strings.LastIndexByte(before, '[') + clfLen + 4
		}
	}
	open := q - clfLen - 4
	if open < from || q-3 > len(s) || s[open] != '[' || q-3 < len(s) && s[q-3] != ']' {
		return 0
	}
	var ok bool
	if l.Time, ok = c.clock.parse(s[open+1 : q-3]); !ok {
		return 0
	}
	return min(q-2, len(s))
}

// quoted returns the next quoted field of s without its quotes, and what follows it. An unclosed field is all the rest.
func quoted(s string) (field, rest string) {
	open := 2
	if len(s) < 2 || s[1] != '"' || s[0] != ' ' {
		if open = strings.IndexByte(s, '"') + 1; open == 0 {
			return "", ""
		}
	}
	end := open
	for {
		i := strings.IndexByte(s[end:], '"')
		if i < 0 {
			return s[open:], ""
		}
		if end += i; !escaped(s[open:end]) {
			return s[open:end], s[end+1:]
		}
		end++
	}
}

// escaped reports whether what follows s is escaped: s ends in an odd number of backslashes.
func escaped(s string) bool {
	odd := false
	for i := len(s) - 1; i >= 0 && s[i] == '\\'; i-- {
		odd = !odd
	}
	return odd
}

// splitRequest splits a request line "GET /path HTTP/1.1". A line of one word has no target.
func splitRequest(s string) (method, target string) {
	method, target, found := strings.Cut(s, " ")
	if !found {
		return "", ""
	}
	if n := len(target) - len(" HTTP/1.1"); n >= 0 && target[n:n+6] == " HTTP/" {
		target = target[:n]
	} else if n := len(target) - len(" HTTP/2"); n >= 0 && target[n:n+6] == " HTTP/" {
		target = target[:n]
	}
	return method, target
}

// pathOf returns the path of a request target, without the query; of an absolute URL, the path of it.
func pathOf(target string) string {
	if i := strings.IndexByte(target, '?'); i >= 0 {
		target = target[:i]
	}
	if target == "" || target[0] == '/' {
		return target
	}
	if _, after, found := strings.Cut(target, "://"); found {
		if i := strings.IndexByte(after, '/'); i >= 0 {
			return after[i:]
		}
		return "/"
	}
	return target
}

// numbers reads " 200 203023" at the start of s, which follows the request, into l, and returns the rest.
func (l *Line) numbers(s string) string {
	if len(s) < 4 || s[0] != ' ' {
		return s
	}
	d0, d1, d2 := s[1]-'0', s[2]-'0', s[3]-'0'
	if d0 <= 9 && d1 <= 9 && d2 <= 9 && (len(s) == 4 || s[4] == ' ') {
		l.Status = uint16(d0)*100 + uint16(d1)*10 + uint16(d2)
		s = s[4:]
	} else {
		s = afterWord(s[1:])
	}
	if s == "" {
		return s
	}
	cost, n := int64(0), 1
	for ; n < len(s) && s[n]-'0' <= 9 && n <= 18; n++ {
		cost = cost*10 + int64(s[n]-'0')
	}
	if n < len(s) && s[n] != ' ' {
		return afterWord(s[n:])
	}
	l.Cost = cost
	return s[n:]
}

// afterWord returns s from its next space on.
func afterWord(s string) string {
	if i := strings.IndexByte(s, ' '); i >= 0 {
		return s[i:]
	}
	return ""
}

// userOf returns the user of " ident user ", the text between the address and the time. A user may hold spaces.
func userOf(s string) string {
	s = strings.TrimSuffix(strings.TrimPrefix(s, " "), " ")
	_, user, _ := strings.Cut(s, " ")
	return user
}
