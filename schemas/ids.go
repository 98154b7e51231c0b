package schemas

import (
	"errors"
	"fmt"
	"net/netip"
)

// DefaultIPv6Prefix is how many bits of an IPv6 address are one client: the network that one subscriber usually has.
const DefaultIPv6Prefix = 64

// ErrIDs says that IDs cannot be used. Test with errors.Is.
var ErrIDs = errors.New("bad options for caller ids")

// IDs says how the ids of callers are made. All gates, sidecars and ingests of one cluster must use the same IDs, or one
// client has several ids and each of them is counted on its own. The zero value has the defaults. Any goroutine may use
// an IDs.
type IDs struct {
	// IPv6Prefix is how many bits of an IPv6 address are one client, 1 to 128; 0 is DefaultIPv6Prefix. The other bits of
	// the address are zero in the id: 2001:db8:1:2::7 is counted as 2001:db8:1:2::. IPv4 addresses never change.
	IPv6Prefix int

	// Hash hashes the ids of some kinds with a secret. nil is none.
	Hash *IDHasher
}

// Validate reports whether the fields are within their bounds.
func (o IDs) Validate() error {
	if o.IPv6Prefix < 0 || o.IPv6Prefix > 128 {
		return fmt.Errorf("%w: got an IPv6 prefix of %d bits, want 1 to 128", ErrIDs, o.IPv6Prefix)
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

// Caller returns the caller as it is counted, for a caller whose id is what a client sent.
func (o IDs) Caller(c Caller) Caller {
	if c.Kind == KindIP {
		if addr, err := netip.ParseAddr(c.ID); err == nil {
			c.ID = o.Addr(addr).String()
			return c
		}
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
