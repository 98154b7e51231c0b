package outbox

import (
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// recent remembers for a while which decisions about closures were published or spared.
type recent struct {
	counted generations[int64]        // when a counted closure was published, by the publisher's clock
	early   generations[schemas.Span] // the last predicted closure that was published
	spared  generations[bool]         // whether the last decision about a closure was spared
}

const (
	// keepEarly is longer than any early closure lasts after it was published.
	keepEarly = int64(2 * time.Minute)
	// keepSpared is longer than any spared closure lasts.
	keepSpared = 2 * maxSpared
)

// sent notes a decision that is published at now.
func (g *recent) sent(key Key, i *Item, now int64) {
	if i.Kind == Closed || i.Kind == Moved {
		g.counted.put(key, now, now, minInterval)
	}
	span := earlySpan(&i.Decision)
	if _, ok := g.early.get(key); ok || span != (schemas.Span{}) {
		g.early.put(key, span, now, keepEarly)
	}
	if g.spared.of(key) {
		g.spared.put(key, false, now, keepSpared)
	}
}

// spare notes that a closure is not published.
func (g *recent) spare(key Key, now int64) { g.spared.put(key, true, now, keepSpared) }

// outlasts reports whether gates hold a predicted closure that ends after the decision's first closure, and is not its next one. Then
// gates must get the decision.
func (g *recent) outlasts(key Key, d *schemas.Decision) bool {
	span := g.early.of(key)
	return span.Until > d.Until && span.Until != d.Next.Until
}

// due returns when to publish a counted closure. A moved end waits, but gates get it before the end that they know of, which is
// before. Two decisions about closures of one key are at least minInterval apart.
func (g *recent) due(key Key, kind Kind, before int64, t *Terms) int64 {
	due := t.Now
	if kind == Moved && t.Lag > 0 && !g.spared.of(key) {
		due += min(max(before-t.Margin-t.Lag-t.AsOf, 0), maxWait)
	}
	if at, ok := g.counted.get(key); ok && at <= t.Now {
		due = max(due, at+minInterval)
	}
	return due
}

// generations is a map that forgets old values many at a time. The zero value is empty.
type generations[V any] struct {
	young, old map[Key]V
	began      int64 // when young began
}

// maxYoung is how many keys a generation holds. The next key begins another generation, whatever the age of this one.
const maxYoung = 1 << 15

// put keeps a value for at least keep nanoseconds, unless there are too many.
func (g *generations[V]) put(key Key, v V, now, keep int64) {
	switch age := now - g.began; {
	case age < 0 || age >= 2*keep: // the clock was put back, or all values are old
		g.young, g.old, g.began = nil, nil, now
	case age >= keep || len(g.young) >= maxYoung:
		g.young, g.old, g.began = nil, g.young, now
	}
	if g.young == nil {
		g.young = make(map[Key]V)
	}
	g.young[key] = v
}

// get returns the value that was put last.
func (g *generations[V]) get(key Key) (V, bool) {
	if v, ok := g.young[key]; ok {
		return v, true
	}
	v, ok := g.old[key]
	return v, ok
}

// of returns the value that was put last; the zero value if there is none.
func (g *generations[V]) of(key Key) V {
	v, _ := g.get(key)
	return v
}
