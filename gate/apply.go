package gate

import (
	"math"
	"net/netip"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// Apply takes decisions over. Each is absolute: applying it twice changes nothing, a newer one for the same rule and
// caller replaces it, and one with Until ≤ CloseAt, or in the past, opens the caller as far as that rule is concerned.
// Of several rules that close a caller the strictest always wins. Until is clamped to schemas.MaxClosure after CloseAt.
//
// Order matters, and whoever calls Apply has dropped what schemas.Fence refuses. Beyond Options.MaxClosed callers, new
// closures are dropped and counted. Readers are never held up.
func (s *Set) Apply(ds []schemas.Decision) { s.ApplyAt(time.Now(), ds) }

// ApplyAt is Apply at the time now.
func (s *Set) ApplyAt(now time.Time, ds []schemas.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.writer
	for i := range ds {
		w.coming = len(ds) - i
		d := ds[i]
		if d.Caller.Kind == schemas.KindIP {
			d.Caller.ID = canonicalText(d.Caller.ID)
		}
		s.apply(&d, now.UnixNano())
	}
	w.coming = 0
	if len(ds) > 0 {
		w.counts.decided = now
	}
	s.publish()
}

// maxDecidedKinds leaves half of the kinds to the server that asks, whatever kinds decisions make up.
const maxDecidedKinds = 128

// apply takes one decision over, whose caller is canonical.
func (s *Set) apply(d *schemas.Decision, now int64) {
	w := &s.writer
	until := reopens(d, s.options.MaxJitter)
	opens := until <= d.CloseAt || until <= now
	if d.Caller.Validate() != nil || len(d.Rule) > maxRule || d.Mode > schemas.ModeShadow || d.Mode == 0 && !opens {
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
	who := g.subject(d.Caller.ID)
	hash := g.sum(who.key)
	table := w.table
	slot, old := w.find(hash, who)
	if opens && old == nil {
		w.counts.applied++
		return
	}
	if !s.reserve(old == nil, now) {
		w.counts.full++
		return
	}
	if w.table != table { // made room by building anew
		slot, old = w.find(hash, who)
	}
	closures := w.others(old, d.Rule, now)
	if !opens {
		if len(closures) == maxClosures {
			w.counts.full++
			return
		}
		closures = append(closures, closure{terms: w.intern(d), closeAt: d.CloseAt, until: until})
	}
	w.put(slot, old, who, hash, closures)
	w.counts.applied++
}

// canonicalText returns the one form in which the text of an address is shown; what is no address stays as it is.
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

// subject returns the caller with a canonical id.
func (g *Gate) subject(id string) subject {
	if g.ip {
		if addr, err := netip.ParseAddr(id); err == nil {
			key := addr.As16()
			return subject{tag: g.tag() | addrTag, key: string(key[:]), id: id}
		}
	}
	return subject{tag: g.tag(), key: id, id: id}
}

// reopens returns when a decision's gate reopens: its Until, clamped, and later by the jitter.
func reopens(d *schemas.Decision, maxJitter time.Duration) int64 {
	if d.Until <= d.CloseAt {
		return d.Until
	}
	length := d.Until - d.CloseAt
	if length < 0 || length > int64(schemas.MaxClosure) { // < 0 where it overflowed
		length = int64(schemas.MaxClosure)
	}
	length += int64(float64(min(length/10, int64(maxJitter))) * spread(d.Caller))
	if d.CloseAt > math.MaxInt64-length {
		return math.MaxInt64
	}
	return d.CloseAt + length
}

// spread maps a caller to [0, 1), the same in every process: FNV-1a, with the finalizer of MurmurHash3 because FNV by
// itself mixes short ids badly. Nobody gains more by choosing an id well than to reopen when it was decided.
func spread(c schemas.Caller) float64 {
	h := uint64(14695981039346656037)
	for _, part := range [...]string{c.Kind, ":", c.ID} {
		for i := range len(part) {
			h = (h ^ uint64(part[i])) * 1099511628211
		}
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return float64(h>>11) / (1 << 53)
}

// Tick does what only needs doing from time to time: it sweeps closures that have ended out of a part of the table, and
// reports partitions that went stale to the log. Call it a few times a second; whoever runs the link does. Without it
// answers stay right, but ended closures keep their memory until there is no room for new ones.
func (s *Set) Tick(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulse.report(s.logger, now)
	w := &s.writer
	if w.table == nil {
		return
	}
	slots := w.table.slots()
	w.sweep(max(4096, slots/256), now.UnixNano())
	if w.wasteful() {
		s.rebuild(now.UnixNano())
	}
	s.publish()
}
