package gate

import (
	"net/netip"
	"unsafe"

	"github.com/509da70d/floodgate/schemas"
)

// MaxCallers is the most callers of one request.
const MaxCallers = 8

// inlineText is how many bytes of ids a Callers value has room for: three addresses of the longest kind. More would be
// zeroed for every request.
const inlineText = 3 * maxAddrText

// Callers is who one request is from: up to MaxCallers callers, each of its own Gate, canonicalised and hashed once.
// The zero value is nobody and ready to use; keep it on the stack, or pool it and Reset it. One goroutine may use it,
// and it must not be copied while others hold ids from it.
type Callers struct {
	n    int
	used int // bytes of text
	at   [MaxCallers]caller
	text [inlineText]byte
}

// caller has its id at ptr, or if that is nil in the text of the Callers it is in. (A pointer into its own Callers would
// force every one of them onto the heap.)
type caller struct {
	gate *Gate
	hash uint64
	ptr  *byte
	from uint16
	len  uint16
}

// Reset forgets all callers.
func (c *Callers) Reset() {
	for i := range c.n {
		c.at[i] = caller{}
	}
	c.n, c.used = 0, 0
}

// Add adds the caller with this id, and reports whether it did: not if the id is empty or over schemas.MaxCallerID
// bytes, nor beyond MaxCallers, of which all but the empty id are counted in Status. The id must not change while c is
// in use. It does not allocate unless the id is IPv6 text that is not in canonical form.
func (c *Callers) Add(g *Gate, id string) bool {
	if id == "" {
		return false
	}
	if len(id) > schemas.MaxCallerID || c.n == MaxCallers {
		g.set.refused.Add(1)
		return false
	}
	if g.ip {
		id = canonicalText(id)
	}
	c.at[c.n] = caller{gate: g, hash: g.hash(id), ptr: unsafe.StringData(id), len: uint16(len(id))}
	c.n++
	return true
}

// AddAddr adds the caller with this address, and reports whether it did: not if it is the zero Addr, nor beyond
// MaxCallers. IPv4-mapped IPv6 counts as IPv4, and zones are dropped. It does not allocate.
func (c *Callers) AddAddr(g *Gate, addr netip.Addr) bool {
	if !addr.IsValid() {
		return false
	}
	if c.n == MaxCallers {
		g.set.refused.Add(1)
		return false
	}
	addr = schemas.CanonicalAddr(addr)
	if c.used+maxAddrText > inlineText {
		return c.Add(g, addr.String())
	}
	to := len(addr.AppendTo(c.text[:c.used]))
	c.at[c.n] = caller{gate: g, from: uint16(c.used), len: uint16(to - c.used)}
	c.at[c.n].hash = g.hash(c.id(c.n))
	c.n++
	c.used = to
	return true
}

// Len returns how many callers there are.
func (c *Callers) Len() int { return c.n }

// At returns the kind, id and hash of caller i, 0 ≤ i < Len. The id may share memory with c: copy it to keep it beyond
// c's use. The hash is of kind and id, and differs from process to process.
func (c *Callers) At(i int) (kind, id string, hash uint64) {
	return c.at[i].gate.kind, c.id(i), c.at[i].hash
}

func (c *Callers) id(i int) string {
	k := &c.at[i]
	p := k.ptr
	if p == nil {
		p = &c.text[k.from]
	}
	return unsafe.String(p, int(k.len)) // as Add was given it; text is not rewritten before Reset
}
