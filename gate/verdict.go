package gate

import (
	"math"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// Verdict is what Check found out about a request. The zero value admits the request. A Verdict may be kept: it shares no
// memory with the Callers.
type Verdict struct {
	Closed bool // refuse the request
	Shadow bool // a closure in mode shadow (the mode of its rule, or of the Set) would have refused it
	Stale  bool // refused because decisions are stale, by Options.Stale; no caller's gate is closed

	own     uint8 // a bit for each caller whose own enforcing gate is closed, by index
	counted uint8 // a bit for each of these that a closure closes which is not early, or is held

	// The closure that the verdict tells about: the one that lasts longest of those that refuse the request. If none refuses
	// it, the one that lasts longest of those in mode shadow.
	Caller     schemas.Caller
	Rule       string
	CloseAt    time.Time     // when the closure began
	Until      time.Time     // when the caller's gate reopens: with jitter, and with closures that follow without a gap
	RetryAfter time.Duration // from the time of the check to Until; > 0 if Closed
	Limit      int64         // weight allowed per Window; 0 if the decision does not contain it
	Window     time.Duration
} // a multiple of 16 bytes: otherwise a copy of the last bytes waits for the store before it

// ClosedFor reports whether caller i's own gate refused the request. The request is recorded as blocked for these callers
// only.
func (v Verdict) ClosedFor(i int) bool { return v.own>>i&1 != 0 }

// EarlyFor reports whether caller i's own gate refused the request on early closures only: on closures that are predicted, and
// not counted yet. The request is recorded as blocked early for these callers. By such requests the analyzer sees whether the
// prediction was right. A request that a counted closure would have refused all the same is not among them, and no request that is
// refused because of requests in flight (schemas.Decision.Held): that lasts for seconds, and would count as demand under other rules.
func (v Verdict) EarlyFor(i int) bool { return (v.own&^v.counted)>>i&1 != 0 }

// Refused returns the verdict of a request that another program has refused because the gates of all its callers were closed, to be
// recorded: early says that all closures in force were early, and none held.
func Refused(early bool) Verdict {
	v := Verdict{Closed: true, own: math.MaxUint8}
	if !early {
		v.counted = math.MaxUint8
	}
	return v
}

// Check judges a request by all its callers, by the coarse clock (see the package documentation). The request is refused
// if the gate of any of them is closed. Check does not allocate, lock or wait. It counts what it refuses: see
// Status.Refusals.
func (s *Set) Check(c *Callers) (v Verdict) {
	if s.view.Load() != nil {
		s.checkTable(&v, c)
	}
	return v
}

// checkTable is Check after the nil check. It is a function of its own so that the compiler inlines the check.
func (s *Set) checkTable(v *Verdict, c *Callers) {
	if t := s.view.Load(); t != nil && t.concerns(c) {
		s.checkCallers(v, t, c, time.Time{}, true)
	}
}

// CheckAt is Check at the time now. If now is zero, CheckAt reads time.Now where the answer depends on the time.
func (s *Set) CheckAt(c *Callers, now time.Time) (v Verdict) {
	if t := s.view.Load(); t != nil && t.concerns(c) {
		s.checkCallers(&v, t, c, now, false)
	}
	return v
}

// concerns reports whether the answer may depend on the table: it may hold one of the callers, or it is watchful.
func (t *table) concerns(c *Callers) bool {
	for i := range c.n {
		if t.mayHold(c.at[i].hash) {
			return true
		}
	}
	return t.watchful && c.n > 0 || c.otherIDs != nil && t.concernsOtherIDs(c.otherIDs)
}

// checkCallers is CheckAt after the filter, or Check if coarse is set.
func (s *Set) checkCallers(v *Verdict, t *table, c *Callers, now time.Time, coarse bool) {
	var found finding
	var shared sharedCallers
	for i := range int(c.n) {
		k := &c.at[i]
		if !t.mayHold(k.hash) {
			continue
		}
		cc := t.find(k.hash, k.tag, c.key(i))
		if cc == nil {
			continue
		}
		if coarse {
			now, coarse = s.timeFor(cc)
		} else if now.IsZero() {
			now = time.Now()
		}
		if cc.shared() && !s.findShares(&shared, t, i, cc, now.UnixNano()) {
			continue
		}
		f := finding{gate: k.gate}
		s.judge(&f, t, cc, now)
		v.note(i, &f)
		found.merge(&f)
	}
	if c.otherIDs != nil {
		if now.IsZero() {
			now = time.Now()
		}
		s.checkOtherIDs(v, t, c, now, &found)
	}
	counter := uint32(0)
	if found.caller != nil {
		counter = v.explain(t, &found, now)
	}
	if t.watchful && !v.Closed {
		if coarse || now.IsZero() {
			now = time.Now()
		}
		s.checkStale(v, c, now)
	}
	if shared.callers != 0 {
		counter = s.checkShares(v, t, c, &shared, now, counter)
	}
	if v.Closed && s.Mode() != Enforce {
		v.Closed, v.own, v.Shadow = false, 0, true
	}
	if v.Closed || v.Shadow {
		s.refusals.add(v, counter)
	}
}

// note keeps what was found about caller i.
func (v *Verdict) note(i int, f *finding) {
	bit := uint8(1) << (uint(i) % MaxCallers)
	if f.enforced {
		v.own |= bit
	}
	if f.counted {
		v.counted |= bit
	}
	v.Shadow = v.Shadow || f.shadowed
}

// finding is what the closures of one caller say at one time.
type finding struct {
	gate     *Gate
	caller   *closedCaller // nil if no closure is in force
	closure  closure       // of those in force the one that lasts longest, enforcing before shadow
	until    int64         // when the last of those that follow without a gap ends
	enforced bool
	counted  bool // an enforcing closure in force is not early, or is held
	shadowed bool // a shadow rule's closure is in force too
}

// merge makes *f the stricter of two findings: an enforcing one before a shadow one, then the one that ends later.
func (f *finding) merge(g *finding) {
	if g.caller != nil && (f.caller == nil || g.enforced && !f.enforced || g.enforced == f.enforced && g.until > f.until) {
		*f = *g
	}
}

// judge sets *f, which is empty but for its gate, to what the closures of a caller say at the time now, except for its shares.
func (s *Set) judge(f *finding, t *table, cc *closedCaller, now time.Time) {
	at := now.UnixNano()
	n, shared := cc.len(), cc.shared()
	for i := range n {
		c := cc.closure(i)
		if !c.covers(at) || shared && c.share() || s.policy == Open && s.ignores(t, c, now) {
			continue
		}
		f.shadowed = f.shadowed || c.shadow()
		f.counted = f.counted || c.terms < earlyBit // a held closure has heldBit instead
		enforcing := !c.shadow()
		if f.caller == nil || enforcing && !f.enforced || enforcing == f.enforced && c.until > f.until {
			f.caller, f.closure, f.until, f.enforced = cc, c, c.until, enforcing
		}
	}
	if f.caller != nil && n > 1 {
		f.until = cc.chain(f.until, f.enforced)
	}
}

// chain returns when a caller that is closed until a time is open again. Closures of the same mode that begin at that time or before
// keep it closed. Shares do not count.
func (cc *closedCaller) chain(until int64, enforced bool) int64 {
	for grown := true; grown; {
		grown = false
		for i := range cc.len() {
			if c := cc.closure(i); !c.share() && c.shadow() != enforced && c.closeAt <= until && c.until > until {
				until, grown = c.until, true
			}
		}
	}
	return until
}

// ignores reports whether a closure does not count because its partition is stale.
func (s *Set) ignores(t *table, c closure, now time.Time) bool {
	return s.liveness.freshness(t.arena.terms(c.terms).partition, now) == Stale
}

// explain sets the fields of v from a finding. It returns the counter of the rule.
func (v *Verdict) explain(t *table, f *finding, now time.Time) (counter uint32) {
	terms := t.arena.terms(f.closure.terms)
	v.Closed = f.enforced
	v.Caller = schemas.Caller{Kind: f.gate.kind, ID: f.caller.id()}
	v.Rule, v.Limit, v.Window = terms.rule, terms.limit, time.Duration(terms.window)
	v.CloseAt, v.Until = time.Unix(0, f.closure.closeAt), time.Unix(0, f.until)
	v.RetryAfter = v.Until.Sub(now)
	return terms.counter
}
