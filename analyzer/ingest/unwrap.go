package ingest

import (
	"fmt"
	"slices"
	"strings"
)

// maxUnwrap bounds how many wrappings a mapping names: a collector around a container runtime around a syslog.
const maxUnwrap = 3

// fullPart is how long the pieces are, in bytes, into which container runtimes cut long lines.
const fullPart = 16 << 10

// autoUnwraps returns the names of what collectors put around a line, in the order in which auto tries them: a prefix, or a JSON object
// that has the line in one of its members.
func autoUnwraps() []string {
	return []string{"cri", "syslog", "log", "message", "MESSAGE", "textPayload"}
}

// unwrapBody is the member of a record of OpenTelemetry that has its line: see Format.Records.
const unwrapBody = "body"

// unwrapNames returns all names that a mapping can give: those of autoUnwraps, the other names of two, and that of records.
func unwrapNames() []string { return append(autoUnwraps(), "docker", "journald", unwrapBody) }

// unwrapper takes off what a collector put around lines. One goroutine uses it.
type unwrapper interface {
	// unwrap returns the line inside of s, as a view of s or in l's scratch. The reason is OK, Continued, or why s has none.
	unwrap(s string, l *Line) (line string, reason Reason)
}

// newUnwrapper returns the unwrapper of that name; "docker" and "journald" are other names for log and MESSAGE.
func newUnwrapper(name string) (unwrapper, error) {
	switch name {
	case "cri":
		return &criLine{}, nil
	case "syslog":
		return syslogLine{}, nil
	case "docker":
		name = "log"
	case "journald":
		name = "MESSAGE"
	}
	if !slices.Contains(autoUnwraps(), name) && name != unwrapBody {
		return nil, fmt.Errorf("%w: got unwrap %q, want one of %s", ErrMapping, name, strings.Join(unwrapNames(), ", "))
	}
	return newMember(name), nil
}

// unwrapping is a scanner of lines that a collector has put something around.
type unwrapping struct {
	around []unwrapper
	inner  Scanner
}

// unwrapped returns what opens scanners that unwrap lines before open's read them.
func unwrapped(open func() Scanner, names []string) (func() Scanner, error) {
	if len(names) > maxUnwrap {
		return nil, fmt.Errorf("%w: got %d unwraps, want at most %d", ErrMapping, len(names), maxUnwrap)
	}
	for _, n := range names {
		if _, err := newUnwrapper(n); err != nil {
			return nil, err
		}
	}
	return func() Scanner {
		u := &unwrapping{inner: open()}
		for _, n := range names {
			if w, err := newUnwrapper(n); err == nil { // each was tried above
				u.around = append(u.around, w)
			}
		}
		return u
	}, nil
}

// Records returns the format as it reads records of OpenTelemetry. Each is a JSON object of attributes, and the member body may have the
// line of a log. A format that reads JSON reads the object, and any other one the body. Auto finds out. If the mapping has an unwrap, that
// decides.
func (f *Format) Records() *Format {
	made := *f
	if !f.object {
		made.open = func() Scanner { return &unwrapping{around: []unwrapper{newMember(unwrapBody)}, inner: f.open()} }
		return &made
	}
	made.open = func() Scanner {
		s := f.open()
		lookInBodies(s)
		return s
	}
	return &made
}

// lookInBodies makes the auto inside of s look for lines in bodies, too.
func lookInBodies(s Scanner) {
	switch s := s.(type) {
	case *auto:
		if len(s.around) > 0 {
			s.around = append([]string{unwrapBody}, s.around...)
		}
	case *notingScanner:
		lookInBodies(s.Scanner)
	}
}

// Scan implements Scanner.
func (u *unwrapping) Scan(line []byte, l *Line) Reason {
	text := view(line[:min(len(line), MaxLine)])
	l.wrapped = l.wrapped[:0]
	for _, w := range u.around {
		inner, reason := w.unwrap(text, l)
		if reason != OK {
			return reason
		}
		text = l.wrap(inner)
	}
	return u.inner.Scan(bytesOf(text), l)
}

// wrap returns s, which may be in l's scratch, in memory that the next reset of l does not change.
func (l *Line) wrap(s string) string {
	if l.Lasting || len(l.scratch) == 0 {
		return s // reset goes on behind what is in the scratch; or s is no text of it
	}
	n := len(l.wrapped) // earlier views stay valid: they hold on to the array that they point into
	l.wrapped = append(l.wrapped, s...)
	return view(l.wrapped[n:])
}

// criLine takes off what container runtimes write before a line: time, stream, and F for a whole line or P for a part.
type criLine struct{ parts parts }

func (c *criLine) unwrap(s string, _ *Line) (string, Reason) {
	stamp, rest, _ := strings.Cut(s, " ")
	stream, rest, _ := strings.Cut(rest, " ")
	tag, line, found := strings.Cut(rest, " ")
	if len(stamp) < len("2015-05-17T10:05:03Z") || stamp[4] != '-' || stamp[10] != 'T' || stream != "stdout" && stream != "stderr" || !found && tag != "F" {
		return "", BadFormat
	}
	tag, _, _ = strings.Cut(tag, ":") // tags behind the first mean nothing yet
	if tag != "F" && tag != "P" {
		return "", BadFormat
	}
	return line, c.parts.next(stream, tag == "P")
}

// parts remembers, for each stream, whether its last piece was a part of a line. The piece that follows is no line: it begins where a
// client's text was cut, so a client could choose how it looks.
type parts struct{ out, err bool }

func (p *parts) next(stream string, part bool) Reason {
	partial := &p.out
	if stream == "stderr" {
		partial = &p.err
	}
	continued := *partial
	if *partial = part; continued {
		return Continued
	}
	return OK
}

// member takes a line out of a member of a JSON object.
type member struct {
	decoder
	values             []string
	line, stream, part int
	parts              parts
}

func newMember(name string) *member {
	names := &jsonNames{slots: make(map[string]int)}
	m := &member{}
	for _, f := range []struct {
		slot *int
		name string
	}{{&m.line, name}, {&m.stream, "stream"}, {&m.part, "_p"}} {
		*f.slot, _ = names.slot(f.name) // there are three, and none is empty
	}
	for i := range names.wanted {
		names.wanted[i].bytes = name == "MESSAGE" && names.wanted[i].key == name
	}
	m.decoder, m.values = &jsonLog{jsonNames: names}, make([]string, names.size())
	return m
}

func (m *member) unwrap(s string, l *Line) (string, Reason) {
	l.reset(0)
	clear(m.values)
	if !strings.HasPrefix(strings.TrimLeft(s, " \ufeff"), "{") {
		return "", BadFormat
	}
	if reason := m.decode(s, m.values, l); reason == BadJSON {
		return "", BadJSON
	}
	line := m.values[m.line]
	if line == "" {
		return "", BadFormat
	}
	whole := strings.TrimRight(line, "\r\n")
	return whole, m.parts.next(m.values[m.stream], m.values[m.part] == "P" || len(whole) == len(line) && len(line) >= fullPart)
}

// syslogLine takes off the head of a syslog message, of RFC 3164 or 5424, with or without its priority.
type syslogLine struct{}

func (syslogLine) unwrap(s string, _ *Line) (string, Reason) {
	if strings.HasPrefix(s, "<") {
		priority, rest, found := strings.Cut(s[1:], ">")
		if !found || len(priority) > 3 || strings.Trim(priority, "0123456789") != "" {
			return "", BadFormat
		}
		if s = rest; strings.HasPrefix(s, "1 ") {
			return syslog5424(s[2:])
		}
	}
	const stamp = "Jan _2 15:04:05 "
	switch {
	case len(s) > len(stamp) && clfMonth(s[:3]) != 0 && s[3] == ' ' && s[6] == ' ' && s[9] == ':' && s[12] == ':' && s[15] == ' ':
		s = s[len(stamp):]
	case len(s) > 20 && s[4] == '-' && s[7] == '-' && s[10] == 'T' && s[13] == ':':
		_, s, _ = strings.Cut(s, " ")
	default:
		return "", BadFormat
	}
	word, rest, _ := strings.Cut(s, " ")
	if !strings.HasSuffix(word, ":") { // a host; then the program
		if word, rest, _ = strings.Cut(rest, " "); !strings.HasSuffix(word, ":") {
			return "", BadFormat
		}
	}
	return strings.TrimPrefix(rest, " "), OK
}

// syslog5424 returns the message behind the time, host, program, process, message id and structured data.
func syslog5424(s string) (string, Reason) {
	for range 5 {
		var found bool
		if _, s, found = strings.Cut(s, " "); !found {
			return "", BadFormat
		}
	}
	if rest, none := strings.CutPrefix(s, "- "); none {
		return strings.TrimPrefix(rest, "\ufeff"), OK
	}
	for strings.HasPrefix(s, "[") {
		quoted, end := false, 1
		for ; end < len(s) && (quoted || s[end] != ']'); end++ {
			switch s[end] {
			case '\\':
				end++
			case '"':
				quoted = !quoted
			}
		}
		if end >= len(s) {
			return "", BadFormat
		}
		s = s[end+1:]
	}
	rest, found := strings.CutPrefix(s, " ")
	if !found {
		return "", BadFormat
	}
	return strings.TrimPrefix(rest, "\ufeff"), OK
}
