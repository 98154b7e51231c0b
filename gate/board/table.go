package board

import (
	"hash/maphash"
	"slices"
	"sort"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/heap"
)

// table holds decisions in force, and finds them by caller, by the order of their arrival, and by their ends. A slot says where a closure
// is: the page, and the place in it. Its memory has no pointers but those to pages and chunks. It grows and shrinks in steps of a page, a
// chunk or a segment of the index: no step takes long, and none needs all of it twice.
type table struct {
	pages   []*page  // by id; nil: no page has it
	free    []uint32 // ids of pages that are not there
	order   []*page  // by the numbers of their closures
	arena   arena    // of bodies
	terms   termsList
	index   index             // by caller
	ends    heap.Heap[uint32] // slots, by until
	callers int               // how many callers have a closure
	arrived uint64            // the number of the newest closure
	scratch body
}

func newTable(arrived uint64) *table {
	t := &table{arrived: arrived, index: index{seed: maphash.MakeSeed()}}
	t.ends = heap.New(t.endsBefore, func(slot *uint32, at int) { t.at(*slot).endsAt = uint32(at) })
	return t
}

// endsBefore reports whether the closure in slot a ends before that in slot b. Of equal ends, the one that arrived first comes first.
func (t *table) endsBefore(a, b *uint32) bool {
	x, y := t.at(*a), t.at(*b)
	return x.until < y.until || x.until == y.until && x.number < y.number
}

func (t *table) at(slot uint32) *closure { return &t.pages[slot/pageStep].closures[slot%pageStep] }

// len returns how many closures there are.
func (t *table) len() int { return t.ends.Len() }

// head returns what begins the body of a closure, with the kind of the caller.
func (t *table) head(c *closure) head { return t.headOf(t.arena.body(c.ref)) }

func (t *table) headOf(b body) head {
	h := b.head()
	h.kind = t.terms.at(h.terms).kind
	return h
}

// decision returns a decision in force.
func (t *table) decision(c *closure) (d schemas.Decision) {
	h := t.read(c, &d)
	d.Caller.ID = h.id()
	return d
}

// read sets d to a decision in force, but for the id of its caller. It returns the head of the body, which has it.
func (t *table) read(c *closure, d *schemas.Decision) head {
	b := t.arena.body(c.ref)
	h := t.headOf(b)
	*d = schemas.Decision{}
	t.terms.at(h.terms).set(d)
	b.read(d, &h, c.until)
	return h
}

// search is a search for the closures of a caller.
type search struct {
	probe

	table *table
	of    *caller
}

func (t *table) search(of *caller) search { return search{t.index.probe(t.index.hash(of)), t, of} }

// next returns the slot and the terms of the next closure; false if there are no more.
func (s *search) next() (slot uint32, with *terms, ok bool) {
	for {
		slot, ok := s.nextSlot()
		if !ok {
			return 0, nil, false
		}
		if h := s.table.head(s.table.at(slot)); h.is(s.of) {
			return slot, s.table.terms.at(h.terms), true
		}
	}
}

// find returns the slot of a closure, and whether there is one.
func (t *table) find(of *caller, rule string) (uint32, bool) {
	for s := t.search(of); ; {
		if slot, with, ok := s.next(); !ok || with.rule == rule {
			return slot, ok
		}
	}
}

// closed reports whether there is a closure of a caller.
func (t *table) closed(of *caller) bool {
	s := t.search(of)
	_, _, ok := s.next()
	return ok
}

// insert adds a closure that is not there.
func (t *table) insert(of *caller, d *schemas.Decision) {
	if !t.closed(of) {
		t.callers++
	}
	until := end(d)
	t.scratch = appendBody(t.scratch[:0], of, t.terms.take(termsOf(d)), d, until)
	p := t.openPage()
	slot := p.slot(p.used)
	t.arrived++
	p.closures[p.used] = closure{until: until, number: t.arrived, ref: t.arena.put(t.scratch)}
	p.used++
	p.held++
	t.index.add(t.index.hash(of), slot)
	t.ends.Add(slot)
}

// openPage returns the page that has room for the next closure.
func (t *table) openPage() *page {
	if n := len(t.order); n > 0 && t.order[n-1].used < pageSize {
		return t.order[n-1]
	}
	p := &page{id: uint32(len(t.pages))}
	if n := len(t.free); n > 0 {
		p.id, t.free = t.free[n-1], t.free[:n-1]
		t.pages[p.id] = p
	} else {
		t.pages = append(t.pages, p) // maxClosures is below
	}
	t.order = append(t.order, p)
	return p
}

// update makes a closure of a caller hold another decision. before is the head of its body.
func (t *table) update(slot uint32, before *head, of *caller, d *schemas.Decision) {
	c := t.at(slot)
	old := t.arena.body(c.ref)
	until := end(d)
	t.scratch = appendBody(t.scratch[:0], of, t.terms.take(termsOf(d)), d, until)
	if len(old) == padded(len(t.scratch)) {
		copy(old[1:], t.scratch[1:])
	} else {
		ref := c.ref
		c.ref = t.arena.put(t.scratch)
		t.arena.giveBack(ref)
	}
	t.terms.giveBack(before.terms)
	if c.until != until {
		c.until = until
		t.ends.Fix(int(c.endsAt))
	}
	t.compact()
}

// remove removes a closure.
func (t *table) remove(slot uint32) {
	c, p := t.at(slot), t.pages[slot/pageStep]
	h := t.head(c)
	t.index.remove(t.index.hash(&h.caller), slot)
	if !t.closed(&h.caller) {
		t.callers--
	}
	t.ends.Remove(int(c.endsAt))
	t.arena.giveBack(c.ref)
	t.terms.giveBack(h.terms)
	c.until = never
	p.held--
	t.tidy(p)
	t.compact()
}

// compact moves the bodies out of a chunk, if much memory is garbage.
func (t *table) compact() {
	if t.arena.wasteful() {
		t.empty(t.arena.worst())
	}
}

// empty moves the bodies out of a chunk, and gives its memory back.
func (t *table) empty(number uint32) {
	a := &t.arena
	if a.open == int(number)+1 {
		a.open = 0
	}
	for at, used := uint32(0), uint32(a.chunks[number].used)/granule; at < used && a.chunks[number].bytes != nil; {
		ref := number*granulesOfChunk + at
		b := a.body(ref)
		at += uint32(len(b)) / granule
		if c := t.owner(ref, b); c != nil {
			c.ref = a.put(b)
			a.giveBack(ref) // and that of the last frees the chunk
		}
	}
}

// owner returns the closure whose body is at a ref; nil if it was given back. The terms of such a body may be those of others now.
func (t *table) owner(ref uint32, b body) *closure {
	h := t.headOf(b)
	for p := t.index.probe(t.index.hash(&h.caller)); ; {
		slot, ok := p.nextSlot()
		if !ok {
			return nil
		}
		if c := t.at(slot); c.ref == ref {
			return c
		}
	}
}

// tidy frees a page without closures, unless it is the last. It joins a page that is half empty with the page before or behind it, if
// one has room for both.
func (t *table) tidy(p *page) {
	if p.held > pageSize/2 {
		return
	}
	i := sort.Search(len(t.order), func(i int) bool { return t.order[i].first() >= p.first() })
	switch {
	case p.held == 0 && i == len(t.order)-1:
		p.used = 0
	case p.held == 0:
		t.drop(i)
	case i > 0 && t.order[i-1].held+p.held <= pageSize:
		t.join(i - 1)
	case i+1 < len(t.order) && p.held+t.order[i+1].held <= pageSize:
		t.join(i)
	}
}

// join moves the closures of two pages in order to the first of them.
func (t *table) join(i int) {
	p, n := t.order[i], 0
	for _, from := range t.order[i : i+2] {
		for at := range from.closures[:from.used] {
			c := from.closures[at]
			if c.until == never {
				continue
			}
			if old, slot := from.slot(at), p.slot(n); old != slot {
				h := t.head(&c)
				t.index.renumber(t.index.hash(&h.caller), old, slot)
				*t.ends.At(int(c.endsAt)) = slot
				p.closures[n] = c
			}
			n++
		}
	}
	p.used, p.held = n, n
	t.drop(i + 1)
}

// drop frees a page of order.
func (t *table) drop(i int) {
	id := t.order[i].id
	t.pages[id] = nil
	t.free = append(t.free, id)
	t.order = slices.Delete(t.order, i, i+1)
	t.ends.Clip()
}

// visitFrom calls each for the closures whose numbers are higher than number, in the order of their numbers. It stops when each returns
// false, or when it has looked at the given number of places. It returns the number to continue from, and whether there may be more.
func (t *table) visitFrom(number uint64, maxVisits int, each func(*closure) bool) (last uint64, more bool) {
	behind := sort.Search(len(t.order), func(i int) bool { return t.order[i].first() > number })
	for _, p := range t.order[max(0, behind-1):] {
		closures := p.closures[:p.used]
		at := p.behind(number)
		for ; at < len(closures); at++ {
			if maxVisits--; maxVisits < 0 {
				return number, true
			}
			c := &closures[at]
			number = c.number
			if c.until != never && !each(c) {
				return number, true
			}
		}
	}
	return number, false
}

// firstEnd returns the slot of the closure that ends first, and whether there is one.
func (t *table) firstEnd() (uint32, bool) {
	if t.len() == 0 {
		return 0, false
	}
	return *t.ends.At(0), true
}
