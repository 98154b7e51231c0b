package ingest

import (
	"strings"
)

// The fields of a line in combined format, and how many of them the common format has.
const (
	fieldIP = iota
	fieldUser
	fieldMethod
	fieldTarget
	fieldReferer
	fieldAgent
	fieldForwarded
	combinedFields
	commonFields = fieldReferer
)

// combinedNames are the names of those fields: ours, and the variables of nginx.
func combinedNames() []string {
	return []string{"ip|remote_addr", "user|remote_user", "method|request_method", "target|request_uri", "referer|http_referer", "agent|http_user_agent", "forwarded|http_x_forwarded_for"}
}

// combined reads the combined log format of Apache and nginx, and the common log format, which is its first part:
//
//	83.149.9.216 - - [17/May/2015:10:05:03 +0000] "GET /index.html?q=1 HTTP/1.1" 200 203023 "referer" "user agent"
//
// The servers escape quotes inside of fields, so that the first `] "` ends the time whatever a client sends as its user
// name, and the time is what stands right before. What stands before the time must be the client, an ident and a user: see owner.
// A quoted field that follows the user agent at once is taken for X-Forwarded-For, as in the log_format main of nginx's packages, if
// the mapping trusts proxies.
// With vhost, a word NAME:PORT that the server wrote stands before the client, as in vhost_combined of Debian's Apache.
type combined struct {
	clock  clfClock
	more   bool // some of user, referer and agent are asked for
	vhost  bool
	strict bool // no line proves the format: clients may have written the words that are taken for the vhost
	proven bool // the log has had a line that can be read in one way only
}

// newCLF returns what reads the first n fields.
func newCLF(n int, vhost bool) func(Mapping) (fieldNames, func() decoder, error) {
	return func(m Mapping) (fieldNames, func() decoder, error) {
		names := newFixedNames(combinedNames()[:n])
		return names, func() decoder {
			return &combined{more: names.asked(fieldUser) || names.asked(fieldReferer) || names.asked(fieldAgent) || names.asked(fieldForwarded), vhost: vhost, strict: vhost && m.guessed}
		}, nil
	}
}

// decode implements decoder.
func (c *combined) decode(s string, values []string, l *Line) Reason {
	l.Time = noTime
	if c.vhost {
		if c.strict && startsIPv6(s) { // lighttpd writes the peer first, and then the host, which the client chooses
			return BadFormat
		}
		if s = afterVhost(s); s == "" {
			return BadFormat
		}
	}
	n := strings.IndexByte(s, ' ')
	if n < 0 {
		n = len(s)
	}
	values[fieldIP] = s[:n]
	end, reason := c.time(s, n, l)
	if reason != OK {
		l.Time = noTime
		return reason
	}
	request, rest := quoted(s[end:])
	values[fieldMethod], values[fieldTarget] = l.splitRequest(request)
	rest = l.numbers(rest)
	if !c.more {
		return BadAddress
	}
	if open := end - clfLen - len("[]"); open > n && s[end-1] == ']' {
		values[fieldUser] = userOf(s[n:open])
	}
	if len(values) > fieldReferer {
		values[fieldReferer], rest = quoted(rest)
		values[fieldAgent], rest = quoted(rest)
		if strings.HasPrefix(rest, ` "`) {
			list, _ := quoted(rest)
			if strings.HasPrefix(rest[len(` "`)+len(list):], `"`) { // a list that was cut ends where the client chose
				values[fieldForwarded] = list
			}
		}
	}
	return BadAddress
}

// time reads l's time, which stands somewhere after the first from bytes of s, and returns the index after it and its
// bracket.
func (c *combined) time(s string, from int, l *Line) (end int, reason Reason) {
	// Nearly every line: no ident, no user.
	if end := from + len(" - - [") + clfLen + 1; end+2 <= len(s) && s[from:from+6] == " - - [" && s[end-1:end+2] == `] "` {
		var ok bool
		if l.Time, ok = c.clock.parse(s[from+6 : end-1]); ok {
			c.proven = !c.strict
			return end, OK
		}
	}
	end = from + strings.Index(s[from:], `] "`) + 1
	text := s[:max(end-1, 0)]
	if end == from { // the line was cut before the request
		text = strings.TrimSuffix(strings.TrimSuffix(s, " "), "]")
		end = min(len(text)+1, len(s))
	}
	open := len(text) - clfLen - 1
	if open < from || text[open] != '[' {
		return 0, timeReason(s[from:])
	}
	var ok bool
	if l.Time, ok = c.clock.parse(text[open+1:]); !ok {
		return 0, BadTime
	}
	return end, c.owner(s[from:open])
}

// timeReason returns what is wrong with a line that has no time right before its request, or before its end.
func timeReason(s string) Reason {
	if i := strings.IndexByte(s, '['); i >= 0 && len(s) > i+clfLen && strings.Contains(s[i+clfLen:], `] `) {
		return BadFormat // something stands between the time and the request
	}
	return BadTime
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

// splitRequest splits the request line "GET /path HTTP/1.1" of l. A line of one word has no target.
func (l *Line) splitRequest(s string) (method, target string) {
	method, target, found := strings.Cut(s, " ")
	if !found {
		return "", ""
	}
	l.request = s
	if n := len(target) - len(" HTTP/1.1"); n >= 0 && target[n:n+6] == " HTTP/" {
		target = target[:n]
	} else if n := len(target) - len(" HTTP/2"); n >= 0 && target[n:n+6] == " HTTP/" {
		target = target[:n]
	}
	return method, target
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

// owner checks what stands between the client and the time of a line in common log format: " ident user ". A user name may hold
// spaces. It reports what is wrong, because a log may have more words there than the format has:
//
//	$host $remote_addr - $remote_user [$time_local] …                  the first word is what the client asked for
//	$http_x_forwarded_for $remote_addr - $remote_user [$time_local] …  the first words are what the client sent
//
// In such a log the client would choose which address is counted. So the ident must be "-" or a name without dots. A line whose user
// name holds an address, or ends like "name - -", can be read in both ways. It is refused until a line has shown that the log is of this
// format: one with three words, "-" for the ident and no address for the user. From then on, a line with the ident "-" counts, whatever
// its user name is.
func (c *combined) owner(s string) Reason {
	if s == " - - " {
		c.proven = !c.strict
		return OK
	}
	if len(s) < len(" - ") || s[0] != ' ' || s[len(s)-1] != ' ' {
		return BadFormat
	}
	ident, user, found := strings.Cut(s[1:len(s)-1], " ")
	switch {
	case !found, !nameOnly(ident): // an address or a host name is no ident
		return BadFormat
	case strings.IndexByte(user, ' ') >= 0:
		if ident != "-" && twoReadings(user) {
			return BadFormat
		}
		if !c.proven && twoReadings(user) {
			return Ambiguous
		}
	case likeAddress(user):
		if !c.proven {
			return Ambiguous
		}
	default:
		c.proven = c.proven || ident == "-" && !c.strict
	}
	return OK
}

// twoReadings reports whether the words of a user name could hold a client with its ident and user.
func twoReadings(user string) bool {
	words, before := 0, ""
	for rest, more := user, true; more; words++ {
		last := before
		before, rest, more = strings.Cut(rest, " ")
		if likeAddress(before) || !more && words > 1 && last == "-" {
			return true
		}
	}
	return false
}

// likeAddress reports whether a server might write s for the other end of a connection. It may be true for other texts, but it is never
// false for an address.
func likeAddress(s string) bool {
	if strings.HasPrefix(s, "unix:") {
		return true
	}
	s = strings.TrimRight(s, ",")
	separators, digits := 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.', c == ':':
			separators++
		case c-'0' <= 9:
			digits++
		case c|0x20 >= 'a' && c|0x20 <= 'f', c == '[', c == ']':
		case c == '%' && separators >= 2:
			return true // a zone follows
		default:
			return false
		}
	}
	return separators >= 2 || separators == 1 && digits > 1
}

// nameOnly reports whether s is letters, digits, "-" and "_".
func nameOnly(s string) bool {
	for i := range len(s) {
		if c := s[i]; c-'0' > 9 && (c|0x20 < 'a' || c|0x20 > 'z') && c != '-' && c != '_' {
			return false
		}
	}
	return s != ""
}

// afterVhost returns s behind its first word, which must be NAME:PORT, or "".
func afterVhost(s string) string {
	vhost, rest, found := strings.Cut(s, " ")
	i := strings.LastIndexByte(vhost, ':')
	if !found || i < 1 || i == len(vhost)-1 || strings.Trim(vhost[i+1:], "0123456789") != "" {
		return ""
	}
	return rest
}

// startsIPv6 reports whether the first word of s is an IPv6 address without brackets, whose end may look like a port.
func startsIPv6(s string) bool {
	word, _, _ := strings.Cut(s, " ")
	return word != "" && word[0] != '[' && strings.Count(word, ":") > 1
}

// userOf returns the user of " ident user ", the text between the address and the time. A user may hold spaces.
func userOf(s string) string {
	s = strings.TrimSuffix(strings.TrimPrefix(s, " "), " ")
	_, user, _ := strings.Cut(s, " ")
	return user
}
