package gate

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/509da70d/floodgate/gate/internal/keyhash"
)

var errKinds = errors.New("more than 256 kinds of caller")

// Gate is the closed callers of one kind. Set.Gate makes them. All methods may be called from any goroutine.
type Gate struct {
	view  *atomic.Pointer[table] // the set's: one load less than by way of set
	set   *Set
	kind  string
	hash  keyhash.Key // the set's for this kind
	index uint8
	ip    bool
}

// A caller is looked up by its key. That is its id, or if it is an address the 16 bytes of it, which are the same
// however it was written: no text is made of an address on the path of a request. Its tag says which of these, and of
// which gate.

func (g *Gate) tag() uint32 { return uint32(g.index) }

// Kind returns the kind of caller that the gate is for.
func (g *Gate) Kind() string { return g.kind }

// Closed reports whether the caller's gate is closed now, by the coarse clock (see the package documentation); in the
// Set's mode Shadow it never is. It does not allocate, unless the gate is for addresses and id is none. Where the caller
// is a netip.Addr, ClosedAddr is cheaper.
func (g *Gate) Closed(id string) bool {
	t := g.view.Load()
	return t != nil && g.closed(t, id)
}

// ClosedAddr is Closed for an address: IPv4-mapped IPv6 counts as IPv4, and zones are dropped. It does not allocate.
func (g *Gate) ClosedAddr(addr netip.Addr) bool {
	t := g.view.Load()
	return t != nil && g.closedAddr(t, addr)
}

// closed is Closed behind the nil check, apart from it so that the compiler inlines the check.
func (g *Gate) closed(t *table, id string) bool {
	if g.ip {
		if addr, err := netip.ParseAddr(id); err == nil {
			return g.closedAddr(t, addr)
		}
	}
	hash := g.sum(id)
	if !t.mayHold(hash) {
		return t.watchful && g.closedStale(hash)
	}
	if t.surelyCloses(g.set, hash, who(g.tag(), id), id) {
		return g.set.Mode() == Enforce
	}
	return g.closedHeld(t, hash, g.tag(), id)
}

func (g *Gate) closedAddr(t *table, addr netip.Addr) bool {
	if !addr.IsValid() {
		return false
	}
	x, y := words(addr)
	hash := g.hash.Sum16(x, y)
	if !t.mayHold(hash) {
		return t.watchful && g.closedStale(hash)
	}
	var a [16]byte
	putWords(&a, x, y)
	key := unsafe.String(&a[0], len(a)) // a is not written to again
	if t.surelyCloses(g.set, hash, who(g.tag()|addrTag, key), key) {
		return g.set.Mode() == Enforce
	}
	return g.closedHeld(t, hash, g.tag()|addrTag, key)
}

// closedHeld is what closed comes to if the table may hold the caller.
func (g *Gate) closedHeld(t *table, hash uint64, tag uint32, key string) bool {
	if r := t.find(hash, tag, key); r != nil && g.set.judge(t, r, time.Now()).enforced {
		return g.set.Mode() == Enforce
	}
	return t.watchful && g.closedStale(hash)
}

// closedStale is what closed comes to for a caller that is not closed, if staleness matters to those.
func (g *Gate) closedStale(hash uint64) bool {
	return g.set.Mode() == Enforce && g.set.refusesStale(g, hash, time.Now())
}

// sum is the one hash of a caller, by its key: the table and the recorder share it. It differs from process to process.
func (g *Gate) sum(key string) uint64 { return g.hash.Sum(key) }
