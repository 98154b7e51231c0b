package gate

import (
	"bytes"
	"encoding/binary"
	"math"
	"net/netip"
	"unsafe"

	"github.com/509da70d/floodgate/gate/internal/netkey"
	"github.com/509da70d/floodgate/schemas"
)

// MaxCallers is how many callers one request may have.
const MaxCallers = 8

// inlineAddrs is how many addresses a Callers value has room for. More would be zeroed for every request.
const inlineAddrs = 3

// Callers are the callers of one request: up to MaxCallers, each with its Gate, in canonical form and hashed once. The zero
// value is empty and ready to use; keep it on the stack, or pool it and Reset it. One goroutine at a time may use it. It
// must not be copied while a key that it returned is in use.
type Callers struct {
	n        int32
	addrs    int32     // how many of inline are in use
	otherIDs *otherIDs // nil unless a secret is being rotated
	at       [MaxCallers]caller

	inline [inlineAddrs][16]byte
}

// caller is one of the Callers. Its key lies at ptr, or, if ptr is nil, among the inline addresses of the Callers. (A
// pointer into its own Callers would force every Callers value onto the heap.)
type caller struct {
	gate *Gate
	hash uint64
	ptr  *byte
	tag  uint32
	len  uint16
	addr uint8 // index of an inline address
}

// Reset removes all callers.
func (c *Callers) Reset() {
	for i := range c.n {
		c.at[i] = caller{}
	}
	c.n, c.addrs = 0, 0
	if c.otherIDs != nil {
		*c.otherIDs = otherIDs{}
	}
}

// Add adds the caller with this id, in the form that schemas.ID gives it, and reports whether it did. It does not add an
// empty id, nor a caller beyond MaxCallers; Status.Refused counts the latter. The bytes of id must not change while c is in
// use. Add allocates in three cases: the gate is for addresses and id is no address; id has over schemas.MaxCallerID bytes;
// ids of this kind are hashed with a secret (see Options.IDs). For a netip.Addr, AddAddr is cheaper. To a gate of kind net, an
// address stands for its network.
func (c *Callers) Add(g *Gate, id string) bool {
	if id == "" {
		return false
	}
	if c.n >= MaxCallers {
		g.set.refused.Add(1)
		return false
	}
	if g.special {
		var addr netip.Addr
		if id, addr = c.addrOrID(g, id); addr.IsValid() {
			return c.AddAddr(g, addr)
		}
	} else {
		id = schemas.ID(id)
	}
	k := &c.at[c.n]
	k.gate, k.hash, k.ptr, k.len, k.tag = g, g.sum(id), unsafe.StringData(id), uint16(len(id)), g.tag()
	c.n++
	return true
}

// addrOrID returns the address, if the id is one, and otherwise the id in the form in which it is counted.
func (c *Callers) addrOrID(g *Gate, id string) (string, netip.Addr) {
	if g.secret != nil {
		return c.hashedID(g, id), netip.Addr{}
	}
	if addr, err := netip.ParseAddr(id); err == nil {
		return "", addr
	}
	if addr, ok := g.addrOf(id); ok {
		return "", addr
	}
	return schemas.ID(id), netip.Addr{}
}

// AddAddr adds the caller with this address, and reports whether it did. It does not add the zero Addr, nor a caller beyond
// MaxCallers. An IPv6 address counts by its network, as Options.IDs says, by default a /64. IPv4-mapped IPv6 counts as
// IPv4, and zones are dropped. To a gate of kind net AddAddr adds the address's network, as IDs.Net makes it. AddAddr does not allocate for the first three addresses, unless ids of the kind are hashed
// with a secret.
func (c *Callers) AddAddr(g *Gate, addr netip.Addr) bool {
	if !addr.IsValid() {
		return false
	}
	if c.n >= MaxCallers {
		g.set.refused.Add(1)
		return false
	}
	if g.secret != nil {
		return c.Add(g, g.set.options.IDs.Addr(addr).String())
	}
	k := &c.at[c.n]
	x, y := g.network.words(addr)
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

// mask is which bits of addresses are kept, as numbers as words returns them, and which are set.
type mask struct {
	x, y uint64 // kept of an IPv6 address
	v4   uint32 // kept of an IPv4 address, little-endian
	set4 uint64 // in the second number of an IPv4 address
	set6 uint64
}

// mapped is the second number of the IPv4 address 0.0.0.0.
const mapped = 0xffff << 16

// addrMask returns the mask that keeps the first bits of an IPv6 address, 1 to 128, and IPv4 addresses as they are.
func addrMask(bits int) mask {
	ones := netip.AddrFrom16([16]byte(bytes.Repeat([]byte{0xff}, 16)))
	kept := netip.PrefixFrom(ones, bits).Masked().Addr().As16()
	return mask{x: binary.LittleEndian.Uint64(kept[:]), y: binary.LittleEndian.Uint64(kept[8:]), v4: math.MaxUint32, set4: mapped}
}

// netMask returns the mask that makes keys of networks of addresses: see package netkey.
func netMask(ids schemas.IDs) mask {
	ones4, ones6 := netip.AddrFrom4([4]byte{255, 255, 255, 255}), netip.AddrFrom16([16]byte(bytes.Repeat([]byte{0xff}, 16)))
	net4, net6 := ids.Net(ones4), ids.Net(ones6)
	m, kept := addrMask(net6.Bits()), net4.Addr().As4()
	m.v4 = binary.LittleEndian.Uint32(kept[:])
	m.set4, m.set6 = mapped|uint64(net4.Bits())<<56, uint64(net6.Bits())<<56
	return m
}

// words returns the 16 bytes of an address as two little-endian numbers, with the bits that the mask keeps and sets. (IPv4 has a
// path of its own because As16 costs as much as the hash: it stores two halves, and the copy of the whole waits for both.)
func (m *mask) words(addr netip.Addr) (x, y uint64) {
	if addr.Is4() {
		b := addr.As4()
		return 0, m.set4 | uint64(binary.LittleEndian.Uint32(b[:])&m.v4)<<32
	}
	b := addr.As16()
	x, y = binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])
	if x == 0 && uint32(y) == mapped {
		return 0, m.set4 | uint64(uint32(y>>32)&m.v4)<<32
	}
	return x & m.x, y&m.y | m.set6
}

func putWords(b *[16]byte, x, y uint64) {
	binary.LittleEndian.PutUint64(b[:], x)
	binary.LittleEndian.PutUint64(b[8:], y)
}

// Len returns how many callers there are.
func (c *Callers) Len() int { return int(c.n) }

// At returns the kind, id and hash of caller i, 0 ≤ i < Len. An id that was added as text shares memory with that text. The
// id of an address or network is a new string. The hash is of kind and id, and differs from process to process.
func (c *Callers) At(i int) (kind, id string, hash uint64) {
	k := &c.at[i]
	if k.tag&addrTag == 0 {
		return k.gate.kind, c.key(i), k.hash
	}
	key := [16]byte([]byte(c.key(i)))
	if k.gate.net {
		return k.gate.kind, netkey.Prefix(key).String(), k.hash
	}
	return k.gate.kind, netip.AddrFrom16(key).Unmap().String(), k.hash
}

// Key is At without making text of addresses, for code that only compares keys. The key of an address is the 16 bytes of
// netip.Addr.As16, that of a network has its length in the last byte, and addr is true for both. Other keys are the id. The key may share memory with c: copy it to keep it longer than
// c is in use.
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
	return unsafe.String(p, int(k.len)) // the bytes that Add was given, or inline, which is not rewritten before Reset
}
