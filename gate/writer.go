package gate

import (
	"slices"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// writer is the writing side of a Set, which its mu protects.
type writer struct {
	table   *table           // nil while nothing was ever closed
	terms   map[terms]uint32 // where they are in the table's arena
	held    tally            // callers in the table, for Status
	scratch []closure
	coming  int   // decisions that are still to be applied: a table that is made anew has room for them
	hand    int   // the slot where the next sweep starts
	swept   int64 // Unix nanoseconds: last time all was swept for lack of room
	counts  counts
}

// holding is what a caller in the table is counted under.
type holding struct {
	gate   uint8
	shadow bool // under shadow rules only
}

// tally is how many callers there are of each holding.
type tally [256][2]int

func (t *tally) of(h holding) *int {
	if h.shadow {
		return &t[h.gate][1]
	}
	return &t[h.gate][0]
}

// counts are what Status reports of the writer.
type counts struct {
	applied, full, invalid, expired, rebuilds uint64
	decided                                   time.Time // when decisions were last applied
}

// find returns where the caller's record is and the record, or nil.
func (w *writer) find(hash uint64, who subject) (int, *record) {
	if w.table == nil {
		return 0, nil
	}
	r := w.table.find(hash, who.tag, who.key)
	if r == nil {
		return 0, nil
	}
	return w.table.slot(hash, r), r
}

// others returns the closures of a record that are neither the rule's nor over. They are valid until the next call.
func (w *writer) others(r *record, rule string, now int64) []closure {
	w.scratch = w.scratch[:0]
	for i := range r.len() {
		if c := r.closure(i); now < c.until && w.table.arena.terms(c.terms).rule != rule {
			w.scratch = append(w.scratch, c)
		}
	}
	return w.scratch
}

// intern returns the terms of a decision as its closure has them.
func (w *writer) intern(d *schemas.Decision) uint32 {
	ref := w.internTerms(terms{
		rule: d.Rule, limit: d.Evidence.Limit, window: d.Evidence.Window, partition: d.Partition,
	})
	if d.Mode == schemas.ModeShadow {
		ref |= shadowBit
	}
	return ref
}

func (w *writer) internTerms(t terms) uint32 {
	if ref, ok := w.terms[t]; ok {
		return ref
	}
	ref := w.table.arena.putTerms(t)
	w.table.garbage += termsHead + len(t.rule) // some day; what lasts is counted anew by the next rebuild
	w.terms[w.table.arena.terms(ref)] = ref    // its rule does not pin the decision's memory
	return ref
}

// put makes closures what the table holds of a caller, whose record in slot is old, or nil. There is room: reserve.
func (w *writer) put(slot int, old *record, who subject, hash uint64, closures []closure) {
	switch {
	case len(closures) == 0 && old != nil:
		w.drop(slot)
		return
	case len(closures) == 0, old.holds(closures):
		return
	}
	most := 0 // the one that a lookup had better see first
	for i, c := range closures {
		if m := closures[most]; c.shadow() == m.shadow() && c.until > m.until || !c.shadow() && m.shadow() {
			most = i
		}
	}
	closures[0], closures[most] = closures[most], closures[0]
	ref := w.table.arena.putRecord(who, closures)
	if old == nil {
		w.table.insert(hash, ref)
	} else {
		*w.held.of(old.holding())--
		w.table.replace(slot, ref)
	}
	*w.held.of(w.table.arena.record(ref).holding())++
}

// drop forgets the caller in a slot.
func (w *writer) drop(slot int) {
	*w.held.of(w.table.record(slot).holding())--
	w.table.remove(slot)
}

// sweep drops the callers whose closures have all ended among the next n slots.
func (w *writer) sweep(n int, now int64) {
	slots := w.table.slots()
	for range min(n, slots) {
		if w.hand++; w.hand >= slots {
			w.hand = 0
		}
		if w.table.used(w.hand) && w.table.record(w.hand).over(now) {
			w.drop(w.hand)
			w.counts.expired++
		}
	}
}

// wasteful reports whether so much of the table is of no use any more that it should be built anew: stale filter bits
// let more misses through, and replaced records take memory.
func (w *writer) wasteful() bool {
	t := w.table
	return t.deleted > 64+t.live/2 || t.garbage > chunkSize+t.arena.size()/2
}

// reserve makes room for another record, of another caller if more is set, and reports whether there is.
func (s *Set) reserve(more bool, now int64) bool {
	w := &s.writer
	if w.table == nil {
		s.rebuild(now)
	}
	if more && w.table.live >= s.options.MaxClosed && now-w.swept > int64(time.Second) {
		w.swept = now
		w.sweep(w.table.slots(), now)
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

// rebuild makes a table of what has not ended, with room to grow. Readers go on with the old one until publish.
func (s *Set) rebuild(now int64) {
	w := &s.writer
	old := w.table
	live, size := 0, 0
	if old != nil {
		live, size = old.live, old.arena.size()
	}
	t := newTable(live + max(live/2, min(w.coming, s.options.MaxClosed-live)))
	t.watchful = s.watchful()
	t.arena = newArena(size + t.slots()*maxRecord/32)
	w.table, w.terms, w.held, w.hand = t, make(map[terms]uint32), tally{}, 0
	if old == nil {
		return
	}
	w.counts.rebuilds++
	var before, after uint32 // terms that were moved last: most closures of a table are on the same few
	for i := range old.slots() {
		if !old.used(i) {
			continue
		}
		r := old.record(i)
		closures := w.scratch[:0]
		for j := range r.len() {
			if c := r.closure(j); now < c.until {
				if was := c.terms &^ shadowBit; was != before {
					before, after = was, w.internTerms(old.arena.terms(was))
				}
				c.terms = after | c.terms&shadowBit
				closures = append(closures, c)
			}
		}
		w.scratch = closures
		if len(closures) == 0 {
			w.counts.expired++
			continue
		}
		w.put(0, nil, r.subject(), s.kinds[r.gate()].sum(r.key()), closures)
	}
	t.garbage = 0
}

// holds reports whether the record has exactly these closures, in any order.
func (r *record) holds(cs []closure) bool {
	if r.len() != len(cs) {
		return false
	}
	for i := range r.len() {
		if !slices.Contains(cs, r.closure(i)) {
			return false
		}
	}
	return true
}

// holding returns what the record's caller is counted under.
func (r *record) holding() holding {
	for i := range r.len() {
		if !r.closure(i).shadow() {
			return holding{gate: r.gate()}
		}
	}
	return holding{gate: r.gate(), shadow: true}
}

// over reports whether all closures of the record have ended.
func (r *record) over(now int64) bool {
	for i := range r.len() {
		if now < r.closure(i).until {
			return false
		}
	}
	return true
}
