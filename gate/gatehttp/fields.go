package gatehttp

import (
	"net/http"
	"strconv"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/internal/front"
)

// setFields sets the header fields of the answer to a refused request. In a flood most answers are of this kind, so all
// fields share two allocations: one for the text, one for the slices of the header.
func setFields(h http.Header, v gate.Verdict) {
	var buf [128]byte
	seconds := strconv.AppendInt(buf[:0], front.WholeSeconds(v.RetryAfter), 10)
	b, ok := appendQuoted(seconds, v.Rule)
	if !ok {
		h["Retry-After"] = []string{string(seconds)}
		return
	}
	first, name := len(seconds), b[len(seconds):]
	b = append(append(b, ";r=0;t="...), seconds...)
	second := len(b)
	limited := v.Limit > 0 && v.Limit <= maxInteger && v.Window > 0
	if limited {
		b = strconv.AppendInt(append(append(b, name...), ";q="...), v.Limit, 10)
		b = strconv.AppendInt(append(b, ";w="...), front.WholeSeconds(v.Window), 10)
	}
	text := string(b)
	values := []string{text[:first], text[first:second], text[second:]}
	h["Retry-After"], h["Ratelimit"] = values[0:1:1], values[1:2:2]
	if limited {
		h["Ratelimit-Policy"] = values[2:3:3]
	}
}

// maxInteger is the largest integer of a structured field (RFC 9651, 3.3.1).
const maxInteger = 999_999_999_999_999

// appendQuoted appends a name as a string of a structured field (RFC 9651, 3.3.3), and reports whether the name can be one:
// it has at least one character, and all are printable ASCII. So a rule's name can neither end the field nor begin another.
func appendQuoted(b []byte, name string) ([]byte, bool) {
	b = append(b, '"')
	for i := range len(name) {
		switch c := name[i]; {
		case c < ' ' || c > '~':
			return b, false
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"'), name != ""
}
