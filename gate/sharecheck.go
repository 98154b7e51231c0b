package gate

import (
	"math/bits"
	"time"
)

// sharedCallers are those of a request's callers that have shares.
type sharedCallers struct {
	callers uint8         // a bit for each, by index
	last    *closedCaller // the last of them
	at      int64         // when it was looked at
	only    closure       // the share of last that holds; zero if there is none, or if more than one may hold
}

// findShares notes that caller i has shares. It reports whether a closure that is no share closes the caller at a time. It sets
// shared.only to the share that holds then, if all shares of the caller have one cell: they are of one rule, and at most one of them
// holds. That is nearly always so, and then no other function needs to look through the closures again.
func (s *Set) findShares(shared *sharedCallers, t *table, i int, cc *closedCaller, at int64) (closes bool) {
	shared.callers |= 1 << (uint(i) % MaxCallers)
	shared.last, shared.at, shared.only = cc, at, closure{}
	only, several := cc.closure(0), s.policy == Open // see shareHolds
	if !only.covers(at) {
		only = closure{}
	}
	for n := 1; n < cc.len(); n++ {
		c := cc.closure(n)
		holds := c.covers(at)
		if !c.share() {
			closes = closes || holds
			continue
		}
		several = several || t.arena.share(c.terms).cell != t.arena.share(cc.terms).cell
		if holds {
			only = c
		}
	}
	if !several {
		shared.only = only
	}
	return closes
}

// checkShares is checkCallers for the shares of its callers. If nothing else refuses the request, it takes a permit of each share,
// and gives all of them back if one has none left. Then it counts the request as demand of the callers for which it is
// recorded. It returns the counter of the rule that the verdict names. (Shares under the second of two secrets do not
// count: no demand is recorded there.)
func (s *Set) checkShares(v *Verdict, t *table, c *Callers, shared *sharedCallers, now time.Time, counter uint32) uint32 {
	if shared.callers&(shared.callers-1) != 0 || shared.only.terms == 0 || v.Closed {
		return s.checkManyShares(v, t, c, shared.callers, now, counter)
	}
	sh := t.arena.share(shared.only.terms)
	start, ok := s.pass(sh, shared.at)
	if ok {
		return counter
	}
	i := bits.TrailingZeros8(shared.callers) % MaxCallers
	f := finding{gate: c.at[i].gate}
	f.refuse(shared.last, shared.only, sh, start)
	return v.addShare(t, i, &f, now, counter)
}

// pass counts a request as demand under a share, and takes a permit of it. It returns when the period began, and whether there was a
// permit.
func (s *Set) pass(sh *share, at int64) (start int64, ok bool) {
	cell := s.cells.at(sh.cell)
	cell.count(at)
	n, start := sh.periodAt(at)
	return start, cell.spend(periodTag(start), sh.period, sh.quota.in(uint64(sh.first)+n))
}

// checkManyShares is checkShares for any callers and shares.
func (s *Set) checkManyShares(v *Verdict, t *table, c *Callers, shared uint8, now time.Time, counter uint32) uint32 {
	var callers [MaxCallers]*closedCaller
	var took [MaxCallers]uint64
	at := now.UnixNano()
	for left := shared; left != 0; left &= left - 1 {
		i := bits.TrailingZeros8(left) % MaxCallers
		k := &c.at[i]
		callers[i] = t.find(k.hash, k.tag, c.key(i)) // nil if the writer has opened it since
		if v.Closed {
			continue
		}
		var f finding
		if took[i] = s.spend(t, callers[i], at, now, &f); f.caller == nil {
			continue
		}
		f.gate = k.gate
		counter = v.addShare(t, i, &f, now, counter)
		for before := shared & (1<<i - 1); v.Closed && before != 0; before &= before - 1 {
			j := bits.TrailingZeros8(before) % MaxCallers
			s.giveBack(t, callers[j], took[j])
		}
	}
	admitted := !v.Closed || s.Mode() != Enforce
	for left := shared; left != 0; left &= left - 1 {
		if i := bits.TrailingZeros8(left) % MaxCallers; admitted || v.ClosedFor(i) {
			s.count(t, callers[i], at)
		}
	}
	return counter
}

// addShare adds what was found about the shares of caller i. It returns the counter of the rule that the verdict names.
func (v *Verdict) addShare(t *table, i int, f *finding, now time.Time, counter uint32) uint32 {
	v.Shadow = v.Shadow || f.shadowed
	if !f.enforced && v.Rule != "" {
		return counter
	}
	v.note(i, f)
	return v.explain(t, f, now)
}

// closedByShare is closedExact for a caller that has a share.
func (g *Gate) closedByShare(t *table, cc *closedCaller, hash uint64, now time.Time) bool {
	s, at := g.set, now.UnixNano()
	var shared sharedCallers
	var f finding
	if s.findShares(&shared, t, 0, cc, at) {
		s.judge(&f, t, cc, now)
	}
	if !f.enforced {
		if t.watchful && g.closedByStaleness(hash) {
			return true
		}
		if shared.only.terms != 0 {
			_, ok := s.pass(t.arena.share(shared.only.terms), at)
			return !ok && !shared.only.shadow() && s.Mode() == Enforce
		}
		f = finding{}
		s.spend(t, cc, at, now, &f)
	}
	s.count(t, cc, at)
	return f.enforced && s.Mode() == Enforce
}

// shareHolds reports whether a closure of a caller is a share that holds at a time.
func (s *Set) shareHolds(t *table, c closure, at int64, now time.Time) bool {
	return c.share() && c.covers(at) &&
		(s.policy != Open || s.liveness.freshness(t.arena.termsOf(c).partition, now) != Stale)
}

// spend takes a permit of each of a caller's shares. If an enforcing share has none left, spend gives the other permits back, and notes
// the share in *f. It also notes a shadow share without permits. *f must be zero before the call. took has a bit for each permit taken,
// by the index of the closure. (Of a caller with more than 64 closures, the permits of those beyond are not given back.)
func (s *Set) spend(t *table, cc *closedCaller, at int64, now time.Time, f *finding) (took uint64) {
	for i := range cc.len() {
		c := cc.closure(i)
		if !s.shareHolds(t, c, at, now) {
			continue
		}
		sh := t.arena.share(c.terms)
		n, start := sh.periodAt(at)
		if s.cells.at(sh.cell).spend(periodTag(start), sh.period, sh.quota.in(uint64(sh.first)+n)) {
			took |= 1 << uint(i)
			continue
		}
		f.refuse(cc, c, sh, start)
		if f.enforced {
			s.giveBack(t, cc, took)
			return 0
		}
	}
	return took
}

// refuse notes that a share has no permit left in the period that begins at start. The share is closure c of the caller.
func (f *finding) refuse(cc *closedCaller, c closure, sh *share, start int64) {
	end := min(start+sh.period, c.until)
	if end < start {
		end = c.until // it overflowed
	}
	enforcing := !c.shadow()
	f.shadowed = f.shadowed || !enforcing
	if f.caller == nil || enforcing {
		f.caller, f.enforced, f.counted = cc, enforcing, enforcing
		f.closure = closure{terms: sh.terms | c.terms&shadowBit, closeAt: max(start, c.closeAt), until: end}
		f.until = cc.chain(end, enforcing)
	}
}

// giveBack gives back the permits that spend took.
func (s *Set) giveBack(t *table, cc *closedCaller, took uint64) {
	for ; took != 0; took &= took - 1 {
		c := cc.closure(bits.TrailingZeros64(took))
		s.cells.at(t.arena.share(c.terms).cell).giveBack()
	}
}

// count adds a request to the demand of a caller's shares, each cell once. It counts from the moment at which a share is known,
// also while it is not in force yet.
func (s *Set) count(t *table, cc *closedCaller, at int64) {
	for i := range cc.len() {
		c := cc.closure(i)
		if !c.share() {
			continue
		}
		if cell := t.arena.share(c.terms).cell; i == 0 || !t.arena.hasCell(cc, i, cell) {
			s.cells.at(cell).count(at)
		}
	}
}
