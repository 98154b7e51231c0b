// Package reject is the format of the topic floodgate.rejects: what could not be read, where it stood, and why. A message
// is one Reject as a JSON object. A reject may be there twice, after a crash: source and offset say which are the same.
package reject

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// MaxLine is how much of a line is kept, in bytes before they are escaped.
const MaxLine = 1 << 10

// ErrFormat says that a message is no Reject. Test with errors.Is.
var ErrFormat = errors.New("not a reject")

// Reject is one line, or a stretch of records, that could not be read.
type Reject struct {
	Time   time.Time `json:"time"`   // when it was read
	Source string    `json:"source"` // kafka:TOPIC/PARTITION or file:PATH
	Offset int64     `json:"offset"` // of the record in its partition, or of the line's first byte in its file
	Reason string    `json:"reason"`
	Bytes  int       `json:"bytes"` // how long the line was
	Line   string    `json:"line"`  // its beginning, escaped: printable ASCII only
}

// Escape returns the beginning of a line so that it does nothing to a terminal, a log or a parser: printable ASCII as it
// is, a backslash doubled, the rest as \n, \t, \xhh or \uhhhh.
func Escape(line []byte) string {
	return string(appendEscaped(nil, line[:min(len(line), MaxLine)]))
}

func appendEscaped(dst, line []byte) []byte {
	for len(line) > 0 {
		switch c := line[0]; {
		case c == '\\':
			dst, line = append(dst, `\\`...), line[1:]
		case c >= ' ' && c < 0x7f:
			dst, line = append(dst, c), line[1:]
		case c == '\n':
			dst, line = append(dst, `\n`...), line[1:]
		case c == '\t':
			dst, line = append(dst, `\t`...), line[1:]
		case c < utf8.RuneSelf:
			dst, line = fmt.Appendf(dst, `\x%02x`, c), line[1:]
		default:
			r, n := utf8.DecodeRune(line)
			if r == utf8.RuneError && n == 1 {
				dst, line = fmt.Appendf(dst, `\x%02x`, c), line[1:]
				continue
			}
			quoted := strconv.QuoteRuneToASCII(r)
			dst, line = append(dst, quoted[1:len(quoted)-1]...), line[n:]
		}
	}
	return dst
}

// New returns the reject of a line.
func New(at time.Time, source string, offset int64, reason string, line []byte) Reject {
	return Reject{Time: at.UTC(), Source: source, Offset: offset, Reason: reason, Bytes: len(line), Line: Escape(line)}
}

// Encode returns r as a message's value.
func (r *Reject) Encode() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("BUG: encode reject: %v", err)) // its fields always can be
	}
	return b
}

// Decode reads a message's value. What it returns holds nothing but printable ASCII, whoever wrote it.
func Decode(value []byte) (Reject, error) {
	var r Reject
	if err := json.Unmarshal(value, &r); err != nil {
		return Reject{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if r.Reason == "" {
		return Reject{}, fmt.Errorf("%w: no reason", ErrFormat)
	}
	for _, s := range []*string{&r.Source, &r.Reason, &r.Line} {
		*s = printable(*s)
	}
	return r, nil
}

// printable returns s with what is not printable ASCII escaped; what is escaped already stays.
func printable(s string) string {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			quoted := strconv.QuoteToASCII(s)
			return quoted[1 : len(quoted)-1]
		}
	}
	return s
}
