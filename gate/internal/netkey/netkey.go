// Package netkey is the form in which gates and recorders hold a caller of kind net: 16 bytes, as an address has, so that a request
// need not make text of its network. The last byte is the length of the prefix: no network that is a caller has bits there.
package netkey

import "net/netip"

// Of returns the key of a network, as schemas.IDs.Net makes it.
func Of(p netip.Prefix) [16]byte {
	key := p.Addr().As16()
	key[15] = byte(p.Bits())
	return key
}

// Prefix returns the network with a key.
func Prefix(key [16]byte) netip.Prefix {
	bits := int(key[15])
	key[15] = 0
	return netip.PrefixFrom(netip.AddrFrom16(key).Unmap(), bits)
}
