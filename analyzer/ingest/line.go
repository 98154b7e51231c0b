package ingest

import (
	"unsafe"

	"github.com/509da70d/floodgate/schemas"
)

// MaxLine is how much of a line is read, in bytes. A longer one is cut here and then judged like any damaged line, so
// that a client cannot escape counting by sending a header that makes its line long.
const MaxLine = 64 << 10

// maxScratch is how much scratch a Line keeps from one scan to the next: many Lines are kept, and few lines need more.
const maxScratch = 1 << 10

// Line is one request of an access log. The zero value is ready for Scan; one goroutine uses it at a time.
//
// IDs and Resource are views: into the scanned bytes, or into the Line's own scratch where the log's text is not in canonical
// form. (A hashed id has memory of its own.) They are valid until the scanned bytes are overwritten, or until the next scan into
// the Line. With Lasting, the next scan leaves them valid.
type Line struct {
	Time     int64    // Unix nanoseconds: of the arrival, if the mapping names a duration
	End      int64    // … of the response; Time if no duration is known
	Arrived  int64    // of both entries: see schemas.Entry; 0 without a duration in the mapping, and if the arrival was blocked
	Declared int64    // what the request was expected to cost, in the unit of Cost; ≥ 0; 0 if unknown
	IDs      []string // one per kind of Format.Kinds, in that order; "" where the line has no such caller
	Resource string   // path without the query, at most schemas.MaxResource bytes; "" if unknown
	Cost     int64    // bytes sent, or what the mapping says; ≥ 0
	Status   uint16   // HTTP status; 0 if unknown
	Blocked  bool     // the server refused the request because a gate was closed: its status says so
	Part     Part     // which entries the line makes

	Lasting bool // views stay valid after the next scan

	request   string // the request line, if the line has one
	forwarded bool   // the line has forwarded addresses, where they were looked for
	behind    bool   // the client is one of them
	scratch   []byte
	wrapped   []byte // what collectors put something around: see unwrapping
}

// Scanner reads lines of one format. One goroutine uses it. Format.Scanner makes one.
type Scanner interface {
	// Scan reads one line, without its line end, into l. It returns OK, or the reason why the line does not count; the
	// fields of l then mean nothing. It reads at most MaxLine bytes, never panics, and does not keep line.
	Scan(line []byte, l *Line) Reason
}

// Reason says why a line could not be read. The zero value, OK, says that it could.
type Reason uint8

// Reasons, in the order in which summaries list them.
const (
	OK           Reason = iota
	Dropped             // nothing wrong with it: a drop filter of the mapping holds
	Header              // nothing wrong with it: it names the columns
	Continued           // nothing wrong with it: the rest of a line that a container runtime has cut
	Empty               // nothing but white space
	BadAddress          // an ip caller is not an IP address
	BadTime             // the time cannot be read, or is before 1970 or after 2261
	BadJSON             // not a JSON object, or damaged before its time and a caller
	BadFormat           // not of the format at all
	Ambiguous           // unescaped quotes inside fields: the fields cannot be separated with certainty
	MissingField        // the time, or every caller field of the mapping, is not there
	TooLong             // longer than MaxLine, and its first MaxLine bytes cannot be read
	TooMany             // more lines in one Kafka record than there are offsets for
	Reasons             // how many there are
)

// String returns the reason as summaries and metric labels show it; "ok" for OK.
func (r Reason) String() string {
	switch r {
	case OK:
		return "ok"
	case Dropped:
		return "dropped"
	case Header:
		return "header"
	case Continued:
		return "continued"
	case Empty:
		return "empty"
	case BadAddress:
		return "client address"
	case BadTime:
		return "bad time"
	case BadJSON:
		return "bad json"
	case BadFormat:
		return "other format"
	case Ambiguous:
		return "ambiguous quotes"
	case MissingField:
		return "missing field"
	case TooLong:
		return "line too long"
	case TooMany:
		return "too many lines"
	}
	return "unknown"
}

// Rejected reports whether a line with this reason could not be read.
func (r Reason) Rejected() bool { return r > Continued }

// Scan reads one line with s. It removes a carriage return at the end, recognises empty lines, and cuts lines over MaxLine.
func Scan(s Scanner, line []byte, l *Line) Reason {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if len(line) > MaxLine {
		if reason := s.Scan(line[:MaxLine], l); !reason.Rejected() {
			return reason
		}
		return TooLong
	}
	reason := s.Scan(line, l)
	if reason.Rejected() && blank(line) {
		return Empty
	}
	return reason
}

// blank reports whether b is only spaces and control characters, such as the zeros of a file that was extended but not
// yet written.
func blank(b []byte) bool {
	for _, c := range b {
		if c > ' ' {
			return false
		}
	}
	return true
}

// reset makes l ready to be scanned into, with room for n callers.
func (l *Line) reset(n int) {
	l.Time, l.Cost, l.Status, l.Resource, l.Blocked, l.request = 0, 0, 0, "", false, ""
	l.End, l.Arrived, l.Declared, l.Part = 0, 0, 0, Whole
	l.forwarded, l.behind = false, false
	switch used := len(l.scratch); {
	case l.Lasting && used > 0:
		if l.scratch = l.scratch[used:]; cap(l.scratch) < maxScratch {
			l.scratch = make([]byte, 0, 8*maxScratch)
		}
	case l.Lasting:
	case cap(l.scratch) > maxScratch:
		l.scratch = nil
	default:
		l.scratch = l.scratch[:0]
	}
	if cap(l.IDs) < n {
		l.IDs = make([]string, n)
	}
	l.IDs = l.IDs[:n]
	clear(l.IDs)
}

// keep appends parts to l's scratch and returns them as one view. Earlier views stay valid: they hold on to the array
// that they point into even if scratch moves to a larger one.
func (l *Line) keep(parts ...string) string {
	n := len(l.scratch)
	for _, p := range parts {
		l.scratch = append(l.scratch, p...)
	}
	return view(l.scratch[n:])
}

// resource sets l's resource, within its bound.
func (l *Line) resource(s string) { l.Resource = s[:min(len(s), schemas.MaxResource)] }

// view returns b as a string that shares its memory: a copy of each would be most of the cost of a line.
func view(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// bytesOf returns s as bytes that share its memory. Nobody may write to them.
func bytesOf(s string) []byte {
	return unsafe.Slice(unsafe.StringData(s), len(s))
}
