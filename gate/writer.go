package gate

import (
	"slices"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// writer is the writing side of a Set. The Set's mu protects it.
type writer struct {
	table   *table           // nil while nothing was ever closed
	terms   map[terms]uint32 // refs into the table's arena
	counted tally            // callers in the table, for Status
	scratch []closure
	shares  []closure
	pending int   // decisions of this call that are still to be applied: a new table has room for them
	sweepAt int   // the slot where the next sweep starts
	swept   int64 // Unix nanoseconds: when the whole table was last swept because it was full
	counts  counts

	repeat   uint32 // how often RepeatBegins was called
	repeated uint32 // closures of decisions that were applied before this repeat have ended
}

// tallyKey says how a caller in the table is counted.
type tallyKey struct {
	gate uint8
	as   countedAs
}

// countedAs says which closures a caller has.
type countedAs uint8

const (
	withClosure countedAs = iota // an enforcing one
	withShadow                   // in mode shadow only, and perhaps shares
	withShares                   // shares only
)

// tally is how many callers there are of each tallyKey.
type tally [256][3]int

func (t *tally) of(k tallyKey) *int { return &t[k.gate][k.as] }

// counts are what Status reports of the writer.
type counts struct {
	applied, full, invalid, expired, rebuilds uint64
	noCell                                    uint64    // shares ignored
	decided                                   time.Time // when decisions were last applied
}

// find returns the slot of a caller, and the closed caller in it, or nil.
func (w *writer) find(hash uint64, caller subject) (int, *closedCaller) {
	if w.table == nil {
		return 0, nil
	}
	cc := w.table.find(hash, caller.tag, caller.key)
	if cc == nil {
		return 0, nil
	}
	return w.table.slot(hash, cc), cc
}

// otherClosures returns the closures of a caller that are of other rules and have not ended. They are valid until the next
// call.
func (w *writer) otherClosures(cc *closedCaller, rule string, now int64) []closure {
	w.scratch = w.scratch[:0]
	for i := range cc.len() {
		if c := cc.closure(i); now < c.until && w.table.arena.termsOf(c).rule != rule {
			w.scratch = append(w.scratch, c)
		}
	}
	return w.scratch
}

// intern returns the field terms of the closure that a decision makes. counter is that of its rule.
func (w *writer) intern(d *schemas.Decision, counter uint32) uint32 {
	ref := w.internTerms(terms{
		rule: d.Rule, limit: d.Evidence.Limit, window: d.Evidence.Window, partition: d.Partition, counter: counter,
		repeat: w.repeat,
	})
	if d.Mode == schemas.ModeShadow {
		ref |= shadowBit
	}
	return ref
}

// closuresOf appends the closures that a decision makes on these terms, of its spans that have not ended. held is Held of the decision.
func closuresOf(closures []closure, spans *[2]schemas.Span, held bool, terms uint32, now int64) []closure {
	for i, s := range spans {
		if !closes(s, now) {
			continue
		}
		c := closure{terms: terms, closeAt: s.CloseAt, until: s.Until}
		switch {
		case s.Early && held && i == 0:
			c.terms |= heldBit
		case s.Early:
			c.terms |= earlyBit
		}
		closures = append(closures, c)
	}
	return closures
}

func (w *writer) internTerms(t terms) uint32 {
	if ref, ok := w.terms[t]; ok {
		return ref
	}
	ref := w.table.arena.putTerms(t)
	w.table.garbage += termsHead + len(t.rule) // counted at once: they may become garbage, and a rebuild counts anew
	w.terms[w.table.arena.terms(ref)] = ref    // its rule does not pin the decision's memory
	return ref
}

// put makes the table hold these closures of a caller, and no others. old is what slot holds of the caller, or nil. reserve
// has made room.
func (s *Set) put(slot int, old *closedCaller, caller subject, hash uint64, closures []closure, now int64) {
	w := &s.writer
	switch {
	case len(closures) == 0 && old != nil:
		s.drop(slot, now)
		return
	case len(closures) == 0, old.equals(closures):
		return
	}
	first := 0 // the strictest closure: closedFast looks at the first one only
	for i, c := range closures {
		if c.stricter(closures[first], now) {
			first = i
		}
	}
	closures[0], closures[first] = closures[first], closures[0]
	ref := w.table.arena.putCaller(caller, closures)
	if old == nil {
		w.table.insert(hash, ref)
	} else {
		*w.counted.of(old.countedAs())--
		s.freeCells(&w.table.arena, old, closures, now)
		w.table.replace(slot, ref)
	}
	*w.counted.of(w.table.arena.caller(ref).countedAs())++
}

// stricter reports whether a closure is stricter than another one: shares come first, then enforcing closures, then those that begin
// earlier (all that are in force begin together), then those that end later.
func (c closure) stricter(other closure, now int64) bool {
	switch from, otherFrom := max(c.closeAt, now), max(other.closeAt, now); {
	case c.share() != other.share():
		return c.share()
	case c.shadow() != other.shadow():
		return other.shadow()
	case from != otherFrom:
		return from < otherFrom
	}
	return c.until > other.until
}

// drop removes the caller in a slot.
func (s *Set) drop(slot int, now int64) {
	w := &s.writer
	cc := w.table.caller(slot)
	*w.counted.of(cc.countedAs())--
	s.freeCells(&w.table.arena, cc, nil, now)
	w.table.remove(slot)
}

// sweep looks at the next n slots, and drops the callers in them whose closures have all ended.
func (s *Set) sweep(n int, now int64) {
	w := &s.writer
	slots := w.table.slots()
	for range min(n, slots) {
		if w.sweepAt++; w.sweepAt >= slots {
			w.sweepAt = 0
		}
		if w.table.used(w.sweepAt) && w.table.caller(w.sweepAt).ended(now) {
			s.drop(w.sweepAt, now)
			w.counts.expired++
		}
	}
}

// wasteful reports whether the table should be rebuilt because too much of it is dead: the filter bits of deleted callers
// let more misses pass, and replaced values take memory.
func (w *writer) wasteful() bool {
	t := w.table
	return t.deleted > 64+t.live/2 || t.garbage > chunkSize+t.arena.size()/2
}

// reserve makes room for one more value in the arena, and if more is set for one more caller. It reports whether there is
// room.
func (s *Set) reserve(more bool, now int64) bool {
	w := &s.writer
	if w.table == nil {
		s.rebuild(now)
	}
	if more && w.table.live >= s.options.MaxClosed && now-w.swept > int64(time.Second) {
		w.swept = now
		s.sweep(w.table.slots(), now)
	}
	if more && w.table.live >= s.options.MaxClosed {
		if w.counts.full == 0 {
			s.logger.Warn("gate is full: new closures are dropped", "closed", w.table.live)
		}
		return false
	}
	if more && w.table.full() || !w.table.arena.room() || w.wasteful() {
		s.rebuild(now)
	}
	return w.table.arena.room()
}

// rebuild makes a new table of the closures that have not ended, with room to grow. Closures from before the last repeat have ended.
// Readers use the old table until publish.
func (s *Set) rebuild(now int64) {
	w := &s.writer
	old := w.table
	live, size := 0, 0
	if old != nil {
		live, size = old.live, old.arena.size()
	}
	t := newTable(live + max(live/2, min(w.pending, s.options.MaxClosed-live)))
	t.watchful = s.watchful()
	t.arena = newArena(size + t.slots()*maxClosedCaller/32)
	w.table, w.terms, w.counted, w.sweepAt = t, make(map[terms]uint32), tally{}, 0
	if old == nil {
		return
	}
	w.counts.rebuilds++
	moving := mover{writer: w, from: &old.arena}
	for i := range old.slots() {
		if !old.used(i) {
			continue
		}
		cc := old.caller(i)
		closures := w.scratch[:0]
		for j := range cc.len() {
			if c, ok := moving.move(cc.closure(j), now); ok {
				closures = append(closures, c)
			}
		}
		w.scratch = closures
		s.freeCells(&old.arena, cc, closures, now)
		if len(closures) == 0 {
			w.counts.expired++
			continue
		}
		s.put(0, nil, cc.subject(), s.kinds[cc.gate()].sum(cc.key()), closures, now)
	}
	t.garbage = 0
}

// mover moves closures to the writer's table from the one before.
type mover struct {
	*writer

	from     *arena
	old, new uint32 // refs of the terms that were moved last: most closures share a few terms
	over     bool   // closures on these terms have ended
}

// move returns a closure as the table has it, and whether it goes on.
func (m *mover) move(c closure, now int64) (closure, bool) {
	if now >= c.until {
		return c, false
	}
	if c.share() {
		c.terms = m.moveShare(m.from, c)
		return c, true
	}
	if old := c.terms &^ termBits; old != m.old {
		t := m.from.terms(old)
		if m.old, m.over = old, t.repeat < m.repeated; !m.over {
			m.new = m.internTerms(t)
		}
	}
	c.terms = m.new | c.terms&termBits
	return c, !m.over
}

// equals reports whether the caller has exactly these closures, in any order. nil has none.
func (cc *closedCaller) equals(cs []closure) bool {
	if cc.len() != len(cs) {
		return false
	}
	for i := range cc.len() {
		if !slices.Contains(cs, cc.closure(i)) {
			return false
		}
	}
	return true
}

// countedAs returns how the caller is counted.
func (cc *closedCaller) countedAs() tallyKey {
	k := tallyKey{gate: cc.gate(), as: withShares}
	for i := range cc.len() {
		switch c := cc.closure(i); {
		case c.share():
		case c.shadow():
			k.as = withShadow
		default:
			k.as = withClosure
			return k
		}
	}
	return k
}

// ended reports whether all closures of the caller have ended.
func (cc *closedCaller) ended(now int64) bool {
	for i := range cc.len() {
		if now < cc.closure(i).until {
			return false
		}
	}
	return true
}
