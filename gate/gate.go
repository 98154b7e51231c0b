package gate

import (
	"errors"
	"hash/maphash"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/509da70d/floodgate/schemas"
)

var errKinds = errors.New("more than 256 kinds of caller")

// Gate is the closed callers of one kind. Set.Gate makes them. All methods may be called from any goroutine.
type Gate struct {
	view  *atomic.Pointer[table] // the set's: one load less than by way of set
	set   *Set
	kind  string
	salt  uint64
	index uint8
	ip    bool
}

// Kind returns the kind of caller that the gate is for.
func (g *Gate) Kind() string { return g.kind }

// Closed reports whether the caller's gate is closed now, which in the Set's mode Shadow is never. It does not
// allocate for ids in canonical form; where the caller is a netip.Addr, ClosedAddr is cheaper.
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
		id = canonicalText(id)
	}
	hash := g.hash(id)
	return t.mayHold(hash) && g.closedHeld(t, id, hash) || t.watchful && g.closedStale(hash)
}

func (g *Gate) closedAddr(t *table, addr netip.Addr) bool {
	var buf [maxAddrText]byte
	b := schemas.CanonicalAddr(addr).AppendTo(buf[:0])
	id := unsafe.String(unsafe.SliceData(b), len(b)) // b is not written to again
	hash := g.hash(id)
	return t.mayHold(hash) && g.closedHeld(t, id, hash) || t.watchful && g.closedStale(hash)
}

// closedHeld is what closed comes to if the table may hold the caller.
func (g *Gate) closedHeld(t *table, id string, hash uint64) bool {
	r := t.find(hash, g.index, id)
	return r != nil && g.set.Mode() == Enforce && g.set.judge(t, r, time.Now()).enforced
}

// closedStale is what closed comes to for a caller that is not closed, if staleness matters to those.
func (g *Gate) closedStale(hash uint64) bool {
	return g.set.Mode() == Enforce && g.set.refusesStale(g, hash, time.Now())
}

// maxAddrText is the longest text of an address without a zone: eight groups of four digits and seven colons.
const maxAddrText = 39

// hash is the one hash of a caller: the table and the recorder share it. It differs from process to process.
func (g *Gate) hash(id string) uint64 { return maphash.String(g.set.seed, id) ^ g.salt }

// canonicalText returns the one form in which the text of an address is counted; what is no address stays as it is. Only
// IPv6 has more than one form: netip reads no IPv4 that is not canonical.
func canonicalText(id string) string {
	if strings.IndexByte(id, ':') < 0 {
		return id
	}
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
