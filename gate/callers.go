package gate

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"github.com/509da70d/floodgate/schemas"
)

// MaxCallers is the most callers of one request.
const MaxCallers = 8

// inlineAddrs is how many addresses a Callers value has room for. More would be zeroed for every request.
const inlineAddrs = 3

// Callers is who one request is from: up to MaxCallers callers, each of its own Gate, canonicalised and hashed once.
// The zero value is nobody and ready to use; keep it on the stack, or pool it and Reset it. One goroutine may use it,
// and it must not be copied while others hold keys from it.
type Callers struct {
	n     int
	addrs int // used of inline
	at    [MaxCallers]caller

	inline [inlineAddrs][16]byte
}

// caller has its key at ptr, or if that is nil among the inline addresses of the Callers it is in. (A pointer into its
// own Callers would force every one of them onto the heap.)
type caller struct {
	gate *Gate
	hash uint64
	ptr  *byte
	tag  uint32
	len  uint16
	addr uint8 // index of an inline address
}

// Reset forgets all callers.
func (c *Callers) Reset() {
	for i := range c.n {
		c.at[i] = caller{}
	}
	c.n, c.addrs = 0, 0
}

// Add adds the caller with this id, and reports whether it did: not if the id is empty or over schemas.MaxCallerID
// bytes, nor beyond MaxCallers, of which all but the empty id are counted in Status. The id must not change while c is
// in use. It does not allocate, unless the gate is for addresses and id is none. Where the caller is a netip.Addr,
// AddAddr is cheaper.
func (c *Callers) Add(g *Gate, id string) bool {
	if id == "" {
		return false
	}
	if len(id) > schemas.MaxCallerID || c.n >= MaxCallers {
		g.set.refused.Add(1)
		return false
	}
	if g.ip {
		if addr, err := netip.ParseAddr(id); err == nil {
			return c.AddAddr(g, addr)
		}
	}
	k := &c.at[c.n]
	k.gate, k.hash, k.ptr, k.len, k.tag = g, g.sum(id), unsafe.StringData(id), uint16(len(id)), g.tag()
	c.n++
	return true
}

// AddAddr adds the caller with this address, and reports whether it did: not if it is the zero Addr, nor beyond
// MaxCallers. IPv4-mapped IPv6 counts as IPv4, and zones are dropped. It does not allocate for the first three
// addresses.
func (c *Callers) AddAddr(g *Gate, addr netip.Addr) bool {
	if !addr.IsValid() {
		return false
	}
	if c.n >= MaxCallers {
		g.set.refused.Add(1)
		return false
	}
	k := &c.at[c.n]
	x, y := words(addr)
	k.gate, k.len, k.tag, k.hash = g, 16, g.tag()|addrTag, g.hash.Sum16(x, y)
	if c.addrs < inlineAddrs {
		k.addr = uint8(c.addrs)
		putWords(&c.inline[c.addrs], x, y)
		c.addrs++
	} else {
		more := new([16]byte)
		putWords(more, x, y)
		k.ptr = &more[0]
	}
	c.n++
	return true
}

// words returns the 16 bytes of an address as two little-endian numbers. (IPv4 apart because As16 costs as much as the
// hash: what it stores in halves is copied whole, which waits for both.)
func words(addr netip.Addr) (x, y uint64) {
	if addr.Is4() {
		b := addr.As4()
		return 0, 0xffff<<16 | uint64(binary.LittleEndian.Uint32(b[:]))<<32
	}
	b := addr.As16()
	return binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])
}

func putWords(b *[16]byte, x, y uint64) {
	binary.LittleEndian.PutUint64(b[:], x)
	binary.LittleEndian.PutUint64(b[8:], y)
}

// Len returns how many callers there are.
func (c *Callers) Len() int { return c.n }

// At returns the kind, id and hash of caller i, 0 ≤ i < Len. An id that was added as text shares memory with it; the id
// of an address is made anew. The hash is of kind and id, and differs from process to process.
func (c *Callers) At(i int) (kind, id string, hash uint64) {
	k := &c.at[i]
	if k.tag&addrTag == 0 {
		return k.gate.kind, c.key(i), k.hash
	}
	return k.gate.kind, netip.AddrFrom16([16]byte([]byte(c.key(i)))).Unmap().String(), k.hash
}

// Key is At without making text of addresses, for those who only compare: the key of an address is the 16 bytes of
// netip.Addr.As16, and addr says so; other keys are the id. It may share memory with c: copy it to keep it beyond c's
// use.
func (c *Callers) Key(i int) (kind, key string, hash uint64, addr bool) {
	k := &c.at[i]
	return k.gate.kind, c.key(i), k.hash, k.tag&addrTag != 0
}

func (c *Callers) key(i int) string {
	k := &c.at[i]
	p := k.ptr
	if p == nil {
		p = &c.inline[k.addr][0]
	}
	return unsafe.String(p, int(k.len)) // as Add was given it; inline is not rewritten before Reset
}
