package gatehttp

import (
	"net/http"
	"strconv"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/internal/front"
)

// setFields sets the fields of the answer to a refused request.
func setFields(h http.Header, v gate.Verdict) {
	seconds := strconv.FormatInt(front.WholeSeconds(v.RetryAfter), 10)
	h.Set("Retry-After", seconds)
	name, ok := quoted(v.Rule)
	if !ok {
		return
	}
	h.Set("Ratelimit", name+";r=0;t="+seconds)
	if v.Limit > 0 && v.Limit <= maxInteger && v.Window > 0 {
		h.Set("Ratelimit-Policy", name+";q="+strconv.FormatInt(v.Limit, 10)+";w="+strconv.FormatInt(front.WholeSeconds(v.Window), 10))
	}
}

// maxInteger is the largest integer of a structured field (RFC 9651, 3.3.1).
const maxInteger = 999_999_999_999_999

// quoted returns a name as a string of a structured field (RFC 9651, 3.3.3), and whether it can be one: it has at least
// one character, all of them printable ASCII. So nothing in a rule's name can end the field or begin another.
func quoted(name string) (string, bool) {
	b := make([]byte, 0, len(name)+2)
	b = append(b, '"')
	for i := range len(name) {
		switch c := name[i]; {
		case c < ' ' || c > '~':
			return "", false
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"')), name != ""
}
