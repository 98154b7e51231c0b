package simulate

import (
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// maxIntervals is how many intervals of one rule and caller are kept for the picture.
const maxIntervals = 4096

// interval is from ≤ t < to, in Unix nanoseconds.
type interval struct{ from, to int64 }

// closures notes how long each caller was closed at one server, by its clock and without the gate's jitter. The zero value
// has noted nothing.
type closures struct{ of map[closureKey]*closureLog }

type closureKey struct {
	rule   string
	caller schemas.Caller
}

// closureLog is the closures of one rule and caller.
type closureLog struct {
	spans   [2]interval // of the newest decision
	since   int64       // when it was applied: what was before is in held
	held    []interval  // in which the caller was closed, apart from each other
	longest time.Duration
}

// apply notes that a decision came into force at now.
func (c *closures) apply(d *schemas.Decision, now int64) {
	key := closureKey{d.Rule, d.Caller}
	if c.of == nil {
		c.of = make(map[closureKey]*closureLog)
	}
	l := c.of[key]
	if l == nil {
		l = &closureLog{}
		c.of[key] = l
	}
	l.settle(now)
	l.spans = [2]interval{{d.CloseAt, d.Until}, {d.Next.CloseAt, d.Next.Until}}
}

// settle notes what has been in force until now.
func (l *closureLog) settle(now int64) {
	for _, s := range l.spans {
		from, to := max(s.from, l.since), min(s.to, now)
		if from >= to {
			continue
		}
		if n := len(l.held); n > 0 && from <= l.held[n-1].to {
			l.held[n-1].to = max(l.held[n-1].to, to)
		} else {
			if n == maxIntervals {
				l.held = append(l.held[:0], l.held[n/2:]...)
			}
			l.held = append(l.held, interval{from, to})
		}
		last := l.held[len(l.held)-1]
		l.longest = max(l.longest, time.Duration(last.to-last.from))
	}
	l.since = now
}

// finish notes what has been in force until the end.
func (c *closures) finish(end int64) {
	for _, l := range c.of {
		l.settle(end)
	}
}

// longest returns how long one closure of a rule and caller has lasted at most; 0 if it was never closed.
func (c *closures) longest(rule string, caller schemas.Caller) time.Duration {
	if l := c.of[closureKey{rule, caller}]; l != nil {
		return l.longest
	}
	return 0
}
