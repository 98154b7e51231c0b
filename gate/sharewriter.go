package gate

import (
	"cmp"
	"slices"

	"github.com/509da70d/floodgate/schemas"
)

// maxHeld is how many older shares of one rule a caller has at most: those that hold until the newest one begins.
const maxHeld = 3

// sharesOf appends the shares that a caller has after a decision with a share: the new share, and older ones until it begins. A share
// begins when one of its periods begins, so that two shares of a rule never hold in one period. If the decision comes after the share's
// From while another share holds, the other one holds until the next period. If all cells are in use, the new share is ignored. If the
// caller has too many closures, nothing is appended.
func (s *Set) sharesOf(closures []closure, old *closedCaller, d *schemas.Decision, terms uint32, now int64) []closure {
	w := &s.writer
	if len(closures) > maxClosures-maxHeld-1 {
		w.counts.noCell++
		return closures
	}
	before := w.sharesBefore(old, d, terms, now)
	newest := closure{terms: before.same, closeAt: d.Share.From, until: d.Share.Until}
	switch {
	case before.same != 0:
		newest.closeAt = before.begins
	case before.inForce && newest.closeAt < now:
		newest.closeAt += (1 + (now-newest.closeAt-1)/d.Share.Period) * d.Share.Period
	}
	held := w.heldUntil(before.others, newest.closeAt, now)
	closures = append(closures, held...)
	if newest.closeAt >= newest.until {
		return closures
	}
	if before.same == 0 {
		var last *share
		if len(held) > 0 {
			last = w.table.arena.share(held[len(held)-1].terms)
		}
		made, ok := s.newShare(d.Share, before, last, now)
		if !ok {
			w.counts.noCell++
			return closures
		}
		made.terms = terms &^ termBits
		newest.terms = w.table.arena.putShare(made) | terms&shadowBit
		w.table.garbage += shareSize // counted at once, as terms are
	}
	return append(closures, newest)
}

// priorShares are the shares of one rule that a caller has.
type priorShares struct {
	others  []closure // in the order in which they begin
	inForce bool      // one of others is
	same    uint32    // the field terms of the decision's own share, if it has been applied before
	begins  int64     // when that one begins
	cell    uint32    // of all of them; those that have ended still have one
	hasCell bool
}

// sharesBefore returns what a caller has of shares of the decision's rule. They are valid until the next call.
func (w *writer) sharesBefore(old *closedCaller, d *schemas.Decision, terms uint32, now int64) (b priorShares) {
	if old == nil || !old.shared() {
		return b
	}
	a, own := &w.table.arena, fingerprint(d.Share)
	b.others = w.shares[:0]
	for i := range old.len() {
		c := old.closure(i)
		if !c.share() || a.termsOf(c).rule != d.Rule {
			continue
		}
		sh := a.share(c.terms)
		b.cell, b.hasCell = sh.cell, true
		if sh.fingerprint == own && sh.terms|c.terms&shadowBit == terms {
			b.same, b.begins = c.terms, c.closeAt
			continue
		}
		b.inForce = b.inForce || c.covers(now)
		b.others = append(b.others, c)
	}
	w.shares = b.others
	slices.SortFunc(b.others, func(x, y closure) int { return cmp.Compare(x.closeAt, y.closeAt) })
	return b
}

// heldUntil returns the shares of a rule that hold before a newer one begins. Each of them ends when the next one begins. It changes the
// closures that it is given.
func (w *writer) heldUntil(others []closure, begins, now int64) []closure {
	held := others[:0]
	for i, c := range others {
		next := begins
		if i+1 < len(others) {
			next = min(next, others[i+1].closeAt)
		}
		if c.until = min(w.table.arena.share(c.terms).until, next); c.closeAt < c.until && now < c.until && len(held) < maxHeld {
			held = append(held, c)
		}
	}
	return held
}

// newShare returns this gate's part of a share, and whether there is a cell for it. last is the share before it, or nil.
func (s *Set) newShare(d *schemas.Share, before priorShares, last *share, now int64) (sh share, ok bool) {
	length := subPeriod(d.DemandUntil - d.DemandFrom)
	cell := before.cell
	if !before.hasCell {
		if cell, ok = s.cells.alloc(length, now); !ok {
			return sh, false
		}
	}
	c := s.cells.at(cell)
	if c.length.Load() != length {
		c.reset(length, now)
	}
	sh = share{
		cell: cell, from: d.From, until: d.Until, period: d.Period, permits: d.Permits,
		fingerprint: fingerprint(d), inverse: inverse(d.Period), first: uint32(d.From / d.Period), quota: singlePermit(d.Permits),
	}
	if own, ok := c.measured(d.DemandFrom, d.DemandUntil, now); ok {
		sh.quota = quotaOf(d.Permits, own, d.Demand)
	} else if last != nil && last.permits == sh.permits && last.period == sh.period {
		sh.quota = last.quota
	}
	return sh, true
}

// freeCells frees the cells of a caller's shares that none of the closures kept has. The arena is that of the caller, and the
// closures are of the table.
func (s *Set) freeCells(a *arena, cc *closedCaller, kept []closure, now int64) {
	if !cc.shared() {
		return
	}
	for i := range cc.len() {
		c := cc.closure(i)
		if !c.share() {
			continue
		}
		cell := a.share(c.terms).cell
		again := a.hasCell(cc, i, cell)
		for _, k := range kept {
			again = again || k.share() && s.writer.table.arena.share(k.terms).cell == cell
		}
		if !again {
			s.cells.free(cell, now)
		}
	}
}

// hasCell reports whether a share among the first n closures of a caller has a cell.
func (a *arena) hasCell(cc *closedCaller, n int, cell uint32) bool {
	for i := range n {
		if c := cc.closure(i); c.share() && a.share(c.terms).cell == cell {
			return true
		}
	}
	return false
}

// moveShare copies a share to the table's arena, and returns the field terms of its closure. Its cell remains.
func (w *writer) moveShare(old *arena, c closure) uint32 {
	sh := *old.share(c.terms)
	sh.terms = w.internTerms(old.terms(sh.terms))
	w.table.garbage += shareSize
	return w.table.arena.putShare(sh) | c.terms&shadowBit
}
