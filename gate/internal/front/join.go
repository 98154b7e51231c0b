package front

import (
	"math"
	"strings"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// Join returns the composite id of n parts: the parts, each in the form of schemas.Part, with schemas.CompositeSeparator
// between them. part returns a part by its index. If a part is empty, Join returns "".
func Join(n int, part func(i int) string) string {
	var id strings.Builder
	for i := range n {
		p := part(i)
		if p == "" {
			return ""
		}
		if i < n-1 {
			p = schemas.Part(p, schemas.CompositeSeparator)
		}
		if i > 0 {
			id.WriteString(schemas.CompositeSeparator)
		}
		id.WriteString(p)
	}
	return id.String()
}

// Repeated reports whether a field with these lines has more than one value. A comma separates values too: proxies join the
// lines of a field by commas (RFC 9110, 5.3).
func Repeated(lines []string) bool {
	return len(lines) > 1 || len(lines) == 1 && strings.IndexByte(lines[0], ',') >= 0
}

// WholeSeconds rounds up to seconds, at least 1. A client that waits that long does not come too early.
func WholeSeconds(d time.Duration) int64 {
	if d <= time.Second {
		return 1
	}
	if d > math.MaxInt64-time.Second {
		d = math.MaxInt64 - time.Second
	}
	return int64((d + time.Second - 1) / time.Second)
}
