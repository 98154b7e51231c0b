package gate

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/509da70d/floodgate/gate/internal/keyhash"
	"github.com/509da70d/floodgate/schemas"
)

// Which function answers, the cheapest first; those indented are called by the one above them:
//
//	Closed, ClosedAddr          open if nothing is closed (one load, inlined)
//	└ closed, closedAddr        open if the filter does not know the caller, unless closedByStaleness
//	  ├ closedFast              closed if the first slot with its mark holds the caller and inForceFast, by the coarse clock
//	  └ closedExact             find and judge, at time.Now; if that says open, closedByStaleness
//	Check, CheckAt              open if nothing is closed
//	└ checkTable (Check only)   concerns: open if the filter knows none of the callers
//	  └ checkCallers            find and judge each caller; the time is timeFor (coarse where that suffices) or CheckAt's

var errKinds = errors.New("more than 256 kinds of caller")

// Gate is the closed callers of one kind. Set.Gate makes them. All methods may be called from any goroutine.
type Gate struct {
	view  *atomic.Pointer[table] // the set's: one load less than by way of set
	set   *Set
	kind  string
	hash  keyhash.Key // the set's for this kind
	index uint8

	special bool // ids are addresses or networks, or hashed with a secret; other ids are texts that schemas.ID makes
	ip, net bool // kind ip, or kind net

	network mask                // keeps the bits of an address that stand for one client, or for one network
	secret  *schemas.KindHasher // nil if ids are not hashed with one
}

// A caller is looked up by its key. The key is the caller's id, or, if the caller is an address, the 16 bytes of it, and if it is a
// network, those that package netkey makes. These are the same however the address was written, and a request need not make text of it.

// tag returns the tag of callers whose key is their id: the index of the gate. For addresses, addrTag is added.
func (g *Gate) tag() uint32 { return uint32(g.index) }

// Kind returns the kind of caller that the gate is for.
func (g *Gate) Kind() string { return g.kind }

// Closed reports whether the caller's gate is closed now, by the coarse clock (see the package documentation). In the
// Set's modes Shadow and Off it returns false. It allocates in the cases in which Callers.Add does. For a netip.Addr,
// ClosedAddr is cheaper.
func (g *Gate) Closed(id string) bool {
	t := g.view.Load()
	return t != nil && g.closed(t, id, true)
}

// ClosedAddr is Closed for an address. An IPv6 address counts by its network, as Options.IDs says. IPv4-mapped IPv6 counts
// as IPv4, and zones are dropped. A gate of kind net says whether the address's network is closed. It does not allocate, unless ids of the kind are hashed with a secret.
func (g *Gate) ClosedAddr(addr netip.Addr) bool {
	t := g.view.Load()
	return t != nil && g.closedAddr(t, addr)
}

// closed is Closed after the nil check. It is a function of its own so that the compiler inlines the check. sent says that
// a client sent the id; otherwise the id has the form already in which it is counted.
func (g *Gate) closed(t *table, id string, sent bool) bool {
	if sent {
		if g.special {
			return g.closedSpecial(t, id)
		}
		id = schemas.ID(id)
	}
	hash := g.sum(id)
	if !t.mayHold(hash) {
		return t.watchful && g.closedByStaleness(hash)
	}
	if t.closedFast(g.set, hash, tagAndLen(g.tag(), id), id) {
		return g.set.Mode() == Enforce
	}
	return g.closedExact(t, hash, g.tag(), id)
}

// closedSpecial is closed for ids that are addresses, or that are hashed with a secret.
func (g *Gate) closedSpecial(t *table, id string) bool {
	if g.secret != nil {
		if other := g.secret.Other(id); other != "" && g.closedUnderOtherSecret(t, other) {
			return g.set.Mode() == Enforce
		}
		return g.closed(t, g.secret.ID(id), false)
	}
	if addr, err := netip.ParseAddr(id); err == nil {
		return g.closedAddr(t, addr)
	}
	if addr, ok := g.addrOf(id); ok {
		return g.closedAddr(t, addr)
	}
	return g.closed(t, schemas.ID(id), false)
}

// addrOf returns the first address of a network, if the gate's ids are networks and id is one of them.
func (g *Gate) addrOf(id string) (addr netip.Addr, ok bool) {
	if !g.net {
		return addr, false
	}
	p, want := g.set.options.IDs.ParseNet(id)
	return p.Addr(), want == ""
}

func (g *Gate) closedAddr(t *table, addr netip.Addr) bool {
	if !addr.IsValid() {
		return false
	}
	if g.secret != nil {
		return g.closed(t, g.set.options.IDs.Addr(addr).String(), true)
	}
	x, y := g.network.words(addr)
	hash := g.hash.Sum16(x, y)
	if !t.mayHold(hash) {
		return t.watchful && g.closedByStaleness(hash)
	}
	var a [16]byte
	putWords(&a, x, y)
	key := unsafe.String(&a[0], len(a)) // a is not written to again
	if t.closedFast(g.set, hash, tagAndLen(g.tag()|addrTag, key), key) {
		return g.set.Mode() == Enforce
	}
	return g.closedExact(t, hash, g.tag()|addrTag, key)
}

// closedUnderOtherSecret reports whether a closure is in force for an id that is hashed with the second of two secrets.
// Nothing is counted under such an id.
func (g *Gate) closedUnderOtherSecret(t *table, id string) bool {
	hash := g.sum(id)
	if !t.mayHold(hash) {
		return false
	}
	cc := t.find(hash, g.tag(), id)
	if cc == nil {
		return false
	}
	var f finding
	g.set.judge(&f, t, cc, time.Now())
	return f.enforced
}

// closedExact is closed for a caller that passed the filter and that closedFast did not find closed.
func (g *Gate) closedExact(t *table, hash uint64, tag uint32, key string) bool {
	if cc := t.find(hash, tag, key); cc != nil {
		now := time.Now()
		if cc.shared() {
			return g.closedByShare(t, cc, hash, now)
		}
		var f finding
		if g.set.judge(&f, t, cc, now); f.enforced {
			return g.set.Mode() == Enforce
		}
	}
	return t.watchful && g.closedByStaleness(hash)
}

// closedByStaleness reports whether a caller without a closure is refused because decisions are stale. It is asked only if
// the table is watchful.
func (g *Gate) closedByStaleness(hash uint64) bool {
	return g.set.Mode() == Enforce && g.set.refusesStale(g, hash, time.Now())
}

// sum returns the hash of a caller, given its key. The table and the recorder share it. It differs from process to process.
func (g *Gate) sum(key string) uint64 { return g.hash.Sum(key) }
