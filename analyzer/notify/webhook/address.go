package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// ErrAddress says that an address must not be dialled. Test with errors.Is.
var ErrAddress = errors.New("address is not public")

// Allowed are networks that may be dialled although they are not public. The zero value allows public addresses only.
type Allowed []netip.Prefix

// Check returns an error that is ErrAddress unless the address is public or allowed.
func (a Allowed) Check(address netip.Addr) error {
	address = address.WithZone("").Unmap()
	why := notPublic(address)
	if why == "" {
		return nil
	}
	for _, network := range a {
		if network.Contains(address) {
			return nil
		}
	}
	return fmt.Errorf("%w: got %s, which is %s; want a public one, or one of allow_addresses", ErrAddress, address, why)
}

// control is net.Dialer.Control: it sees each address after names are resolved, before anything is sent to it.
func (a Allowed) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: got %q, want an address and a port", ErrAddress, address)
	}
	return a.Check(at.Addr())
}

// reserved is a network that is not public, beside those that package netip knows.
type reserved struct{ network, why string }

// reservedNetworks are those of IANA's registries of special-purpose addresses, and the one address of a metadata service that
// is in a public network. The IPv6 networks that carry an IPv4 address could lead to any network, so they are here as a whole.
var reservedNetworks = [...]reserved{
	{"0.0.0.0/8", "of this network"},
	{"100.64.0.0/10", "shared between networks of a provider"},
	{"168.63.129.16/32", "a metadata service"},
	{"192.0.0.0/24", "reserved"},
	{"192.0.2.0/24", "for documentation"},
	{"192.88.99.0/24", "a relay to IPv6"},
	{"198.18.0.0/15", "for benchmarks"},
	{"198.51.100.0/24", "for documentation"},
	{"203.0.113.0/24", "for documentation"},
	{"240.0.0.0/4", "reserved"},
	{"::/96", "an IPv4 address in IPv6"},
	{"::ffff:0:0:0/96", "an IPv4 address in IPv6"},
	{"64:ff9b::/96", "an IPv4 address in IPv6"},
	{"64:ff9b:1::/48", "an IPv4 address in IPv6"},
	{"100::/64", "for discarding"},
	{"2001::/23", "reserved, or an IPv4 address in IPv6"},
	{"2001:db8::/32", "for documentation"},
	{"2002::/16", "an IPv4 address in IPv6"},
	{"3fff::/20", "for documentation"},
	{"5f00::/16", "for routing by segments"},
	{"fec0::/10", "local to a site"},
}

// notPublic returns what an address is if it is not public, or "".
func notPublic(a netip.Addr) string {
	switch {
	case !a.IsValid():
		return "no address"
	case a.IsUnspecified():
		return "unspecified"
	case a.IsLoopback():
		return "loopback"
	case a.IsPrivate():
		return "private"
	case a.IsLinkLocalUnicast():
		return "link-local"
	case a.IsMulticast():
		return "multicast"
	}
	for _, r := range reservedNetworks {
		if netip.MustParsePrefix(r.network).Contains(a) {
			return r.why
		}
	}
	return ""
}
