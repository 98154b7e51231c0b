package replay

import "github.com/509da70d/floodgate/schemas"

// span is a time during which a caller is closed: from ≤ t < until, in Unix nanoseconds.
type span struct{ from, until int64 }

// closures knows who is closed at a time that never goes back: it is what the gates of all servers would know. A caller
// is closed while any of the spans put in for it lasts, whatever rules they came from. The zero value has none closed.
// One goroutine uses it.
type closures struct {
	spans  map[schemas.Caller][]span // in the order in which they were put in
	enough int                       // at this size, drop what is over
}

// close puts in that a caller is closed in s.
func (c *closures) close(caller schemas.Caller, s span) {
	if s.from >= s.until {
		return
	}
	if c.spans == nil {
		c.spans = make(map[schemas.Caller][]span)
	}
	spans := c.spans[caller]
	for i := range spans {
		if last := &spans[i]; s.from <= last.until && last.from <= s.from {
			last.until = max(last.until, s.until)
			return
		}
	}
	if c.spans[caller] = append(spans, s); len(c.spans) >= c.enough {
		c.sweep(s.from)
	}
}

// sweep drops what is over at t.
func (c *closures) sweep(t int64) {
	for caller := range c.spans {
		c.closed(caller, t)
	}
	c.enough = 2*len(c.spans) + 1024
}

// closed reports whether a caller is closed at t, which must not be before that of an earlier call.
func (c *closures) closed(caller schemas.Caller, t int64) bool {
	if len(c.spans) == 0 {
		return false
	}
	spans, ok := c.spans[caller]
	if !ok {
		return false
	}
	kept, closed := spans[:0], false
	for _, s := range spans {
		if t < s.until {
			kept = append(kept, s)
			closed = closed || s.from <= t
		}
	}
	switch {
	case len(kept) == 0:
		delete(c.spans, caller)
	case len(kept) < len(spans):
		c.spans[caller] = kept
	}
	return closed
}
