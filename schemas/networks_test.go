package schemas

import (
	"net/netip"
	"strings"
	"testing"
)

func TestNetworks(t *testing.T) {
	for _, c := range []struct {
		networks, addr string
		want           bool
	}{
		{"", "10.0.0.1", false},
		{"10.0.0.0/8", "10.255.0.1", true},
		{"10.0.0.0/8", "11.0.0.0", false},
		{"10.1.2.99/24", "10.1.2.3", true}, // host bits do not count
		{"192.0.2.0/24 10.0.0.0/8", "10.0.0.1", true},
		{"2001:db8::/32", "2001:db8:ffff::1", true},
		{"2001:db8::/32", "2001:db9::", false},
		{"::ffff:10.0.0.0/104", "10.1.2.3", true},
		{"::ffff:0.0.0.0/96", "203.0.113.9", true},
		{"::/64", "10.1.2.3", false},
		{"::/0", "10.1.2.3", false},
		{"::ffff:0:0/95", "10.1.2.3", false},
		{"0.0.0.0/0", "10.1.2.3", true},
		{"0.0.0.0/0", "::1", false},
	} {
		var prefixes []netip.Prefix
		for s := range strings.FieldsSeq(c.networks) {
			prefixes = append(prefixes, netip.MustParsePrefix(s))
		}
		if got := NewNetworks(prefixes).Contain(netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("%s in %q: got %t, want %t", c.addr, c.networks, got, c.want)
		}
	}
	all := NewNetworks([]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")})
	if (Networks{}).Contain(netip.Addr{}) || all.Contain(netip.Addr{}) {
		t.Error("a network contains the zero Addr")
	}
}
