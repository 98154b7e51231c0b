package ingest

import "strings"

// The fields of a line in combined format, and how many of them the common format has.
const (
	fieldIP = iota
	fieldUser
	fieldMethod
	fieldTarget
	fieldReferer
	fieldAgent
	combinedFields
	commonFields = fieldReferer
)

// combinedNames are the names of those fields: ours, and the variables of nginx.
func combinedNames() []string {
	return []string{"ip|remote_addr", "user|remote_user", "method|request_method", "target|request_uri", "referer|http_referer", "agent|http_user_agent"}
}

// combined reads the combined log format of Apache and nginx, and the common log format, which is its first part:
//
//	83.149.9.216 - - [17/May/2015:10:05:03 +0000] "GET /index.html?q=1 HTTP/1.1" 200 203023 "referer" "user agent"
//
// The servers escape quotes inside of fields, so that the first `] "` ends the time whatever a client sends as its user
// name, and the time is what stands right before.
type combined struct {
	clock clfClock
	more  bool // some of user, referer and agent are asked for
}

// newCLF returns what reads the first n fields.
func newCLF(n int) func(Mapping) (fieldNames, func() decoder, error) {
	return func(Mapping) (fieldNames, func() decoder, error) {
		names := newFixedNames(combinedNames()[:n])
		return names, func() decoder {
			return &combined{more: names.asked(fieldUser) || names.asked(fieldReferer) || names.asked(fieldAgent)}
		}, nil
	}
}

// decode implements decoder.
func (c *combined) decode(s string, values []string, l *Line) Reason {
	l.Time = noTime
	n := ipv4Len(s)
	if n == 0 {
		if n = strings.IndexByte(s, ' '); n < 0 {
			n = len(s)
		}
	}
	values[fieldIP] = s[:n]
	end := c.time(s, n, l)
	if end == 0 {
		l.Time = noTime
		return BadTime
	}
	request, rest := quoted(s[end:])
	values[fieldMethod], values[fieldTarget] = splitRequest(request)
	rest = l.numbers(rest)
	if !c.more {
		return BadAddress
	}
	if open := strings.LastIndexByte(s[:end], '['); open > n {
		values[fieldUser] = userOf(s[n:open])
	}
	if len(values) > fieldReferer {
		values[fieldReferer], rest = quoted(rest)
		values[fieldAgent], _ = quoted(rest)
	}
	return BadAddress
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

// targetOf returns the target of a request line "GET /path HTTP/1.1", and s itself if it is none.
func targetOf(s string) string {
	if s == "" || s[0] == '/' {
		return s
	}
	i := strings.IndexByte(s, ' ')
	if i <= 0 || strings.Trim(s[:i], "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != "" || !strings.Contains(s[i:], " HTTP/") {
		return s
	}
	_, target := splitRequest(s)
	return target
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
