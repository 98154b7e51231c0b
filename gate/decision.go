package gate

import (
	"net/netip"
	"time"

	"github.com/509da70d/floodgate/gate/internal/netkey"
	"github.com/509da70d/floodgate/schemas"
)

// Apply takes decisions over. Each decision is absolute: applying it twice changes nothing, and a newer decision for the
// same rule and caller replaces all of it: the closure from CloseAt until Until, and Next. A decision with Until ≤ CloseAt, or
// with Until and the end of Next in the past, ends the rule's closures of the caller. If only Until is in the past, Next closes
// the caller all the same. Of several rules that close a caller the strictest always wins. Until is clamped to
// schemas.MaxClosure after CloseAt. A Next that is longer, or reversed, or that does not follow the first closure, makes the
// decision invalid, and so does a share outside the bounds of schemas.Share.
//
// A share of a newer decision takes the place of the one before when its first period begins, or, if it comes later, with the next
// period; until then the one before holds. A decision without a share ends the rule's share at once.
//
// The order of the decisions matters, and schemas.Fence must have accepted each of them: Apply does not check that. Beyond
// Options.MaxClosed callers, new closures are dropped and counted. Readers never wait for Apply.
func (s *Set) Apply(ds []schemas.Decision) { s.ApplyAt(time.Now(), ds) }

// ApplyAt is Apply at the time now.
func (s *Set) ApplyAt(now time.Time, ds []schemas.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.writer
	for i := range ds {
		w.pending = len(ds) - i
		d := ds[i]
		if d.Caller.Kind == schemas.KindIP {
			d.Caller.ID = canonicalText(d.Caller.ID)
		}
		s.apply(&d, now.UnixNano())
	}
	w.pending = 0
	if len(ds) > 0 {
		w.counts.decided = now
	}
	s.publish()
}

// maxDecidedKinds is how many kinds of caller decisions may add. It leaves half of the kinds to the server's own gates.
const maxDecidedKinds = 128

// apply takes one decision over. Its caller is in canonical form.
func (s *Set) apply(d *schemas.Decision, now int64) {
	w := &s.writer
	spans := decidedSpans(d, s.options.MaxJitter)
	opens := !closes(spans[0], now) && !closes(spans[1], now) && !holds(d.Share, now)
	if d.Caller.Validate() != nil || len(d.Rule) > maxRule || d.Mode > schemas.ModeShadow || d.Mode == 0 && !opens ||
		!ordered(d) || !validShare(d.Share) {
		w.counts.invalid++
		return
	}
	if s.gates[d.Caller.Kind] == nil && len(s.kinds) >= maxDecidedKinds {
		w.counts.invalid++
		return
	}
	g, err := s.gate(d.Caller.Kind)
	if err != nil {
		w.counts.invalid++
		return
	}
	caller := g.subject(d.Caller.ID)
	hash := g.sum(caller.key)
	table := w.table
	slot, old := w.find(hash, caller)
	if opens && old == nil {
		w.counts.applied++
		return
	}
	if !s.reserve(old == nil, now) {
		w.counts.full++
		return
	}
	if w.table != table { // reserve has rebuilt the table
		slot, old = w.find(hash, caller)
	}
	closures := w.otherClosures(old, d.Rule, now)
	if !opens {
		terms := w.intern(d, s.refusals.counter(d.Rule))
		closures = closuresOf(closures, &spans, d.Held, terms, now)
		if len(closures) > maxClosures {
			w.counts.full++
			return
		}
		if holds(d.Share, now) {
			closures = s.sharesOf(closures, old, d, terms, now)
		}
	}
	s.put(slot, old, caller, hash, closures, now)
	w.counts.applied++
}

// closes reports whether a span closes its caller at the time now or later.
func closes(s schemas.Span, now int64) bool { return s.CloseAt < s.Until && now < s.Until }

// ordered reports whether a decision has no Next, or one that follows its first closure, and is not too long.
func ordered(d *schemas.Decision) bool {
	n := d.Next
	length := n.Until - n.CloseAt // < 0 where it overflowed
	return n == (schemas.Span{}) || d.CloseAt < d.Until && d.Until <= n.CloseAt &&
		n.CloseAt < n.Until && 0 < length && length <= int64(schemas.MaxClosure)
}

// canonicalText returns the canonical text of an address. A text that is no address stays as it is.
func canonicalText(id string) string {
	addr, err := netip.ParseAddr(id)
	if err != nil {
		return id
	}
	var buf [maxAddrText]byte
	b := schemas.CanonicalAddr(addr).AppendTo(buf[:0])
	if string(b) == id {
		return id
	}
	return string(b)
}

// subject returns the caller with this id, which is in canonical form.
func (g *Gate) subject(id string) subject {
	if g.ip {
		if addr, err := netip.ParseAddr(id); err == nil {
			key := addr.As16()
			return subject{tag: g.tag() | addrTag, key: string(key[:]), id: id}
		}
	}
	if addr, ok := g.addrOf(id); ok {
		key := netkey.Of(g.set.options.IDs.Net(addr))
		return subject{tag: g.tag() | addrTag, key: string(key[:]), id: id}
	}
	return subject{tag: g.tag(), key: id, id: id}
}

// Tick does periodic work: it sweeps closures that have ended out of a part of the table, and logs partitions that became
// stale or fresh. It is to be called a few times a second; kafkalink does so. Without it answers stay right, but ended
// closures keep their memory until there is no room for new ones.
func (s *Set) Tick(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.liveness.report(s.logger, now)
	w := &s.writer
	if w.table == nil {
		return
	}
	slots := w.table.slots()
	s.sweep(max(4096, slots/256), now.UnixNano())
	if w.wasteful() {
		s.rebuild(now.UnixNano())
	}
	s.publish()
}
