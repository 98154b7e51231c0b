package gate

import (
	"errors"
	"hash/maphash"
	"net/netip"
	"strings"
	"time"
	"unsafe"

	"github.com/509da70d/floodgate/schemas"
)

var errKinds = errors.New("more than 256 kinds of caller")

// Gate is the closed callers of one kind. Set.Gate makes them. All methods may be called from any goroutine.
type Gate struct {
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
	t := g.set.view.Load()
	if t == nil {
		return false
	}
	id = g.canonical(id)
	return g.set.closed(t, g, id, g.hash(id))
}

// ClosedAddr is Closed for an address: IPv4-mapped IPv6 counts as IPv4, and zones are dropped. It does not allocate.
func (g *Gate) ClosedAddr(addr netip.Addr) bool {
	t := g.set.view.Load()
	if t == nil {
		return false
	}
	var text [maxAddrText]byte
	b := schemas.CanonicalAddr(addr).AppendTo(text[:0])
	id := unsafe.String(unsafe.SliceData(b), len(b)) //nolint:gosec // G103: b is not written to again
	return g.set.closed(t, g, id, g.hash(id))
}

// maxAddrText is the longest text of an address without a zone: eight groups of four digits and seven colons.
const maxAddrText = 39

// hash is the one hash of a caller: the table and the recorder share it. It differs from process to process.
func (g *Gate) hash(id string) uint64 { return maphash.String(g.set.seed, id) ^ g.salt }

// canonical returns the one form in which an id is counted. Only ids of addresses have more than one form, and of
// these only IPv6 text: netip reads IPv4 in canonical form alone.
func (g *Gate) canonical(id string) string {
	if !g.ip || strings.IndexByte(id, ':') < 0 {
		return id
	}
	addr, err := netip.ParseAddr(id)
	if err != nil {
		return id
	}
	var text [maxAddrText]byte
	b := schemas.CanonicalAddr(addr).AppendTo(text[:0])
	if string(b) == id {
		return id
	}
	return string(b)
}

// closed is Closed behind the nil check.
func (s *Set) closed(t *table, g *Gate, id string, hash uint64) bool {
	if Mode(s.mode.Load()) != Enforce {
		return false
	}
	if t.mayHold(hash) {
		if r := t.find(hash, g.index, id); r != nil {
			if s.judge(t, r, time.Now()).enforced {
				return true
			}
		}
	}
	return s.watchful() && s.refusesStale(g, hash, time.Now())
}
