package front

import (
	"math"
	"strings"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// Join returns the composite id of n parts, which part returns by their index, with schemas.CompositeSeparator between them. It is empty
// if a part is, or if one before the last contains it: different callers would be counted as one.
func Join(n int, part func(i int) string) string {
	var id strings.Builder
	for i := range n {
		p := part(i)
		if p == "" || i < n-1 && strings.Contains(p, schemas.CompositeSeparator) {
			return ""
		}
		if i > 0 {
			id.WriteString(schemas.CompositeSeparator)
		}
		id.WriteString(p)
	}
	return id.String()
}

// WholeSeconds rounds up to seconds, at least 1: whoever waits that long does not come too early.
func WholeSeconds(d time.Duration) int64 {
	if d <= time.Second {
		return 1
	}
	if d > math.MaxInt64-time.Second {
		d = math.MaxInt64 - time.Second
	}
	return int64((d + time.Second - 1) / time.Second)
}
