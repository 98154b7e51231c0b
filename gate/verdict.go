package gate

import (
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// Verdict is what Check found out about a request. The zero value admits it. It may be kept: it shares no memory with
// the Callers.
type Verdict struct {
	Closed bool // refuse the request
	Shadow bool // a closure in mode shadow, of the rule or of the Set, would have refused it
	Stale  bool // refused because decisions are stale, by Options.Stale; nobody's gate is closed

	own uint8 // callers whose own enforcing gate is closed, by their index

	// Which closure: of those that refuse the one that lasts longest, or if none does, of those that would have.
	Caller     schemas.Caller
	Rule       string
	CloseAt    time.Time     // since when
	Until      time.Time     // when the caller's gate reopens, with jitter and directly following closures
	RetryAfter time.Duration // until then, > 0 if Closed
	Limit      int64         // weight allowed per Window; 0 where the decision did not say
	Window     time.Duration
} // a multiple of 16 bytes: a copy of an odd half after the whole would wait for both stores

// ClosedFor reports whether caller i's own gate refused the request: only for those is it recorded as blocked.
func (v Verdict) ClosedFor(i int) bool { return v.own>>i&1 != 0 }

// Check judges a request by all its callers, by the coarse clock (see the package documentation): it is refused when
// any of their gates is closed. It does not allocate, lock or wait.
func (s *Set) Check(c *Callers) (v Verdict) {
	if s.view.Load() != nil {
		s.checkCoarse(&v, c)
	}
	return v
}

// checkCoarse is Check behind the nil check, apart from it so that the compiler inlines the check.
func (s *Set) checkCoarse(v *Verdict, c *Callers) {
	if t := s.view.Load(); t != nil && t.concerns(c) {
		s.check(v, t, c, time.Time{}, true)
	}
}

// CheckAt is Check at the time now. If that is zero, time.Now is read should it matter.
func (s *Set) CheckAt(c *Callers, now time.Time) (v Verdict) {
	if t := s.view.Load(); t != nil && t.concerns(c) {
		s.check(&v, t, c, now, false)
	}
	return v
}

// concerns reports whether the table may have something to say about one of the callers.
func (t *table) concerns(c *Callers) bool {
	for i := range c.n {
		if t.mayHold(c.at[i].hash) {
			return true
		}
	}
	return t.watchful && c.n > 0
}

// check is CheckAt behind the filter, or Check if coarse is set.
func (s *Set) check(v *Verdict, t *table, c *Callers, now time.Time, coarse bool) {
	var found finding
	for i := range c.n {
		k := &c.at[i]
		if !t.mayHold(k.hash) {
			continue
		}
		r := t.find(k.hash, k.tag, c.key(i))
		if r == nil {
			continue
		}
		if coarse {
			now, coarse = s.coarseNow(r)
		} else if now.IsZero() {
			now = time.Now()
		}
		f := s.judge(t, r, now)
		f.gate = k.gate
		if f.enforced {
			v.own |= 1 << i
		}
		v.Shadow = v.Shadow || f.shadowed
		found = found.stricter(f)
	}
	if found.record != nil {
		v.explain(t, found, now)
	}
	if t.watchful && !v.Closed {
		if coarse || now.IsZero() {
			now = time.Now()
		}
		s.checkStale(v, c, now)
	}
	if v.Closed && s.Mode() != Enforce {
		v.Closed, v.own, v.Shadow = false, 0, true
	}
}

// finding is what one caller's closures come to at one time.
type finding struct {
	gate     *Gate
	record   *record // nil if no closure is in force
	closure  closure // of those in force the one that lasts longest, enforcing before shadow
	until    int64   // when the last of those that follow without a gap ends
	enforced bool
	shadowed bool // a shadow rule's closure is in force too
}

// stricter returns the stricter of two findings: enforcing before shadow, later before earlier.
func (f finding) stricter(g finding) finding {
	switch {
	case g.record == nil:
		return f
	case f.record == nil, g.enforced && !f.enforced, g.enforced == f.enforced && g.until > f.until:
		return g
	}
	return f
}

// judge returns what a record says at now.
func (s *Set) judge(t *table, r *record, now time.Time) finding {
	at := now.UnixNano()
	var f finding
	for i := range r.len() {
		c := r.closure(i)
		if !c.covers(at) || s.policy == Open && s.ignores(t, c, now) {
			continue
		}
		f.shadowed = f.shadowed || c.shadow()
		enforcing := !c.shadow()
		if f.record == nil || enforcing && !f.enforced || enforcing == f.enforced && c.until > f.until {
			f.record, f.closure, f.until, f.enforced = r, c, c.until, enforcing
		}
	}
	if f.record != nil && r.len() > 1 {
		f.until = r.chain(f.until, f.enforced)
	}
	return f
}

// chain returns when the caller is open again, given that it is closed until a time: closures that begin before others
// end keep it closed.
func (r *record) chain(until int64, enforced bool) int64 {
	for grown := true; grown; {
		grown = false
		for i := range r.len() {
			if c := r.closure(i); c.shadow() != enforced && c.closeAt <= until && c.until > until {
				until, grown = c.until, true
			}
		}
	}
	return until
}

// ignores reports whether a closure does not count because its partition is stale.
func (s *Set) ignores(t *table, c closure, now time.Time) bool {
	return s.pulse.freshness(t.arena.terms(c.terms).partition, now) == Stale
}

// explain fills v in with what was found.
func (v *Verdict) explain(t *table, f finding, now time.Time) {
	terms := t.arena.terms(f.closure.terms)
	v.Closed = f.enforced
	v.Caller = schemas.Caller{Kind: f.gate.kind, ID: f.record.id()}
	v.Rule, v.Limit, v.Window = terms.rule, terms.limit, time.Duration(terms.window)
	v.CloseAt, v.Until = time.Unix(0, f.closure.closeAt), time.Unix(0, f.until)
	v.RetryAfter = v.Until.Sub(now)
}
