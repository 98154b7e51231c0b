package schemas

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
)

// DefaultIPv6Prefix is how many bits of an IPv6 address are one client: the network that one subscriber usually has.
const DefaultIPv6Prefix = 64

// Defaults of the networks that are callers of kind net: what one site or one customer of a hoster usually has.
const (
	DefaultNet4 = 24
	DefaultNet6 = 48
)

// Bounds of these networks. Gates rely on it that the last byte of such a network's address is zero.
const (
	minNet4, maxNet4 = 8, 24
	minNet6, maxNet6 = 16, 64
)

// ErrIDs says that IDs cannot be used. Test with errors.Is.
var ErrIDs = errors.New("bad options for caller ids")

// IDs says how the ids of callers are made. All gates, sidecars and ingests of one cluster must use the same IDs, or one
// client has several ids and each of them is counted on its own. The zero value has the defaults. Any goroutine may use
// an IDs.
type IDs struct {
	// IPv6Prefix is how many bits of an IPv6 address are one client, 1 to 128; 0 is DefaultIPv6Prefix. The other bits of
	// the address are zero in the id: 2001:db8:1:2::7 is counted as 2001:db8:1:2::. IPv4 addresses never change.
	IPv6Prefix int

	// Net4 and Net6 are how many bits of an IPv4 and of an IPv6 address are one caller of kind net, 8 to 24 and 16 to 64; 0
	// is DefaultNet4 and DefaultNet6.
	Net4, Net6 int

	// ASN returns the id of the autonomous system that announces a canonical address, such as AS64500, or "". Any goroutine may
	// call it. It should not allocate. nil: no address has one. Package schemas/asn has such a function.
	ASN func(netip.Addr) string

	// Hash hashes the ids of some kinds with a secret. nil is none.
	Hash *IDHasher
}

// Validate reports whether the fields are within their bounds.
func (o IDs) Validate() error {
	if o.IPv6Prefix < 0 || o.IPv6Prefix > 128 {
		return fmt.Errorf("%w: got an IPv6 prefix of %d bits, want 1 to 128", ErrIDs, o.IPv6Prefix)
	}
	if n4, n6 := o.netBits(); n4 < minNet4 || n4 > maxNet4 || n6 < minNet6 || n6 > maxNet6 {
		return fmt.Errorf("%w: got networks of %d bits of IPv4 and %d of IPv6, want %d to %d and %d to %d", ErrIDs, n4, n6,
			minNet4, maxNet4, minNet6, maxNet6)
	}
	return nil
}

// Prefix returns IPv6Prefix, or the default in its place.
func (o IDs) Prefix() int {
	if o.IPv6Prefix == 0 {
		return DefaultIPv6Prefix
	}
	return o.IPv6Prefix
}

// Addr returns the address under which a client is counted, in canonical form: of an IPv6 address the first address of
// its network, and IPv4 as it is. The zero Addr stays the zero Addr.
func (o IDs) Addr(addr netip.Addr) netip.Addr {
	addr = CanonicalAddr(addr)
	if !addr.Is6() {
		return addr
	}
	network, err := addr.Prefix(o.Prefix())
	if err != nil {
		return addr
	}
	return network.Addr()
}

// netBits returns Net4 and Net6, or the defaults in their places.
func (o IDs) netBits() (n4, n6 int) { return cmp.Or(o.Net4, DefaultNet4), cmp.Or(o.Net6, DefaultNet6) }

// Net returns the network whose text is the id of an address's caller of kind net. Of the zero Addr it returns the zero Prefix.
func (o IDs) Net(addr netip.Addr) netip.Prefix {
	addr = CanonicalAddr(addr)
	bits, n6 := o.netBits()
	if addr.Is6() {
		bits = n6
	}
	network, err := addr.Prefix(bits)
	if err != nil { // no address has fewer bits: it is the zero Addr
		return netip.Prefix{}
	}
	return network
}

// AddrID returns the id of an address's caller of kind ip, net or asn, or "" if there is none.
func (o IDs) AddrID(kind string, addr netip.Addr) string {
	if !addr.IsValid() {
		return ""
	}
	switch kind {
	case KindIP:
		return o.Addr(addr).String()
	case KindNet:
		return o.Net(addr).String()
	case KindASN:
		if o.ASN != nil {
			return o.ASN(CanonicalAddr(addr))
		}
	}
	return ""
}

// ParseNet returns the network that is the id of a caller of kind net. If the id is none, want says what it should be.
func (o IDs) ParseNet(id string) (network netip.Prefix, want string) {
	if addr, err := netip.ParseAddr(id); err == nil {
		return network, "the network of this address: " + o.Net(addr).String()
	}
	got, err := netip.ParsePrefix(id)
	if err != nil {
		n4, n6 := o.netBits()
		return network, fmt.Sprintf("a network, such as 203.0.113.0/%d or 2001:db8:1::/%d", n4, n6)
	}
	counted := o.Net(got.Addr())
	switch {
	case id == counted.String():
		return counted, ""
	case got.Bits() == counted.Bits():
		return network, counted.String()
	}
	return network, fmt.Sprintf("a network of %d bits, such as %s", counted.Bits(), counted)
}

// Caller returns the caller as it is counted, for a caller whose id is what a client sent.
func (o IDs) Caller(c Caller) Caller {
	if addr, err := netip.ParseAddr(c.ID); err == nil && (c.Kind == KindIP || c.Kind == KindNet) {
		c.ID = o.AddrID(c.Kind, addr)
		return c
	}
	if k := o.Hash.Kind(c.Kind); k != nil {
		c.ID = k.ID(c.ID)
		return c
	}
	c.ID = ID(c.ID)
	return c
}

// Overridden returns the ids that an override of an id applies to. The override writes the id in clear or in the form that is
// shown. The ids are the form in which it is counted and, while secrets rotate, the form under the other secret. Overridden
// does not mask addresses.
func (o IDs) Overridden(kind, id string) []string {
	k := o.Hash.Kind(kind)
	switch {
	case Hashed(id):
		return []string{id}
	case k == nil:
		return []string{ID(id)}
	case k.Rotating():
		return []string{k.ID(id), k.Other(id)}
	}
	return []string{k.ID(id)}
}
