package schemas

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestAddrIsTheNetworkOfOneClient(t *testing.T) {
	for _, test := range []struct {
		addr   string
		prefix int // 0 is the default
		want   string
	}{
		{"2001:db8:1:2:3::4", 0, "2001:db8:1:2::"},
		{"2001:db8:1:2:ffff:ffff:ffff:ffff", 0, "2001:db8:1:2::"},
		{"2001:db8:1:2::", 0, "2001:db8:1:2::"},
		{"2001:db8:1:2:3::4", 56, "2001:db8:1::"},
		{"2001:db8:1:2:3::4", 65, "2001:db8:1:2::"},
		{"2001:db8:1:2:8000::4", 65, "2001:db8:1:2:8000::"},
		{"2001:db8:1:2:3::4", 1, "::"},
		{"2001:db8::4", 128, "2001:db8::4"},
		{"fe80::1%eth0", 0, "fe80::"},
		{"192.0.2.1", 0, "192.0.2.1"},
		{"192.0.2.1", 8, "192.0.2.1"},
		{"::ffff:192.0.2.1", 0, "192.0.2.1"},
		{"::ffff:192.0.2.1", 128, "192.0.2.1"},
		{"::fffe:192.0.2.1", 0, "::"}, // one bit beside the mapped ones
	} {
		ids := IDs{IPv6Prefix: test.prefix}
		if got := ids.Addr(netip.MustParseAddr(test.addr)); got.String() != test.want {
			t.Errorf("%s/%d: got %v, want %s", test.addr, test.prefix, got, test.want)
		}
		want := Caller{Kind: KindIP, ID: test.want}
		if got := ids.Caller(Caller{Kind: KindIP, ID: test.addr}); got != want {
			t.Errorf("%s/%d: got %v, want %v", test.addr, test.prefix, got, want)
		}
	}
	if got := (IDs{}).Addr(netip.Addr{}); got.IsValid() {
		t.Errorf("no address: got %v, want none", got)
	}
	for _, c := range []Caller{{Kind: KindIP, ID: "nobody"}, {Kind: "key", ID: "2001:db8::1"}, {}} {
		if got := (IDs{}).Caller(c); got != c {
			t.Errorf("%v: got %v, want it as it is", c, got)
		}
	}
}

func TestPrefixesHaveBounds(t *testing.T) {
	for prefix, good := range map[int]bool{-1: false, 0: true, 1: true, 64: true, 128: true, 129: false} {
		if err := (IDs{IPv6Prefix: prefix}).Validate(); (err == nil) != good || err != nil && !errors.Is(err, ErrIDs) {
			t.Errorf("%d: got %v, want it fine: %t", prefix, err, good)
		}
	}
}

// TestNetworksAreThoseThatAreCounted: an address has one network, whose text is an id, and other spellings are told that one.
func TestNetworksAreThoseThatAreCounted(t *testing.T) {
	long := IDs{Net4: 20, Net6: 56}
	for _, test := range []struct {
		ids        IDs
		addr, want string
	}{
		{IDs{}, "203.0.113.9", "203.0.113.0/24"},
		{IDs{}, "::ffff:203.0.113.9", "203.0.113.0/24"},
		{IDs{}, "2001:db8:1:2::9", "2001:db8:1::/48"},
		{IDs{}, "fe80::1%eth0", "fe80::/48"},
		{long, "203.0.113.9", "203.0.112.0/20"},
		{long, "2001:db8:1:2ff::9", "2001:db8:1:200::/56"},
	} {
		if got := test.ids.AddrID(KindNet, netip.MustParseAddr(test.addr)); got != test.want {
			t.Errorf("%s: got %s, want %s", test.addr, got, test.want)
		}
		if got, want := test.ids.Caller(Caller{KindNet, test.addr}), (Caller{KindNet, test.want}); got != want {
			t.Errorf("%s: got the caller %s, want %s", test.addr, got, want)
		}
		if got, want := test.ids.ParseNet(test.want); got.String() != test.want || want != "" {
			t.Errorf("%s: got %v, want %q", test.want, got, want)
		}
	}
	for id, want := range map[string]string{
		"203.0.113.7/24": "203.0.113.0/24", "203.0.113.0/25": "a network of 24 bits, such as 203.0.113.0/24", "203.0.0.0/16": "a network of 24 bits",
		"203.0.113.9": "203.0.113.0/24", "::ffff:203.0.113.0/120": "a network of 24 bits, such as 203.0.113.0/24", "2001:DB8:1::/48": "2001:db8:1::/48",
		"2001:db8:1::1/48": "2001:db8:1::/48", "203.0.113": "a network, such as 203.0.113.0/24 or 2001:db8:1::/48", "": "a network, such as",
	} {
		if got, say := (IDs{}).ParseNet(id); got.IsValid() || !strings.Contains(say, want) {
			t.Errorf("%q: got %v and %q, want %q", id, got, say, want)
		}
	}
	for _, bad := range []IDs{{Net4: 7}, {Net4: 25}, {Net6: 15}, {Net6: 65}, {Net4: -1}} {
		if err := bad.Validate(); !errors.Is(err, ErrIDs) {
			t.Errorf("%+v: got %v, want ErrIDs", bad, err)
		}
	}
}

func TestSystemsHaveOneSpelling(t *testing.T) {
	for text, want := range map[string]string{
		"AS64500": "AS64500", "as64500": "AS64500", "64500": "AS64500", "4294967295": "AS4294967295",
		"4294967296": "", "0": "", "AS0": "", "AS064500": "", "AS": "", "": "", "+1": "", "AS-1": "", "hoster": "",
	} {
		if got, say := ParseASN(text); got != want || (say == "") != (want != "") {
			t.Errorf("%q: got %q and %q, want %q", text, got, say, want)
		}
	}
	ids := IDs{ASN: func(addr netip.Addr) string { return "AS of " + addr.String() }}
	if got := ids.AddrID(KindASN, netip.MustParseAddr("::ffff:203.0.113.9")); got != "AS of 203.0.113.9" {
		t.Errorf("got %q, want to be asked for a canonical address", got)
	}
	if got := ids.AddrID(KindASN, netip.Addr{}) + (IDs{}).AddrID(KindASN, netip.MustParseAddr("203.0.113.9")) + ids.AddrID("key", netip.MustParseAddr("::1")); got != "" {
		t.Errorf("got %q of no address, of no file and of another kind, want nothing", got)
	}
}

// FuzzAddr: whatever the bits below the prefix are, the client is the same one; and no IPv6 client becomes an IPv4 one.
func FuzzAddr(f *testing.F) {
	f.Add([]byte("\x20\x01\x0d\xb8\x00\x01\x00\x02\x00\x03\x00\x04\x00\x05\x00\x06"), uint8(64), uint64(7))
	f.Add(make([]byte, 16), uint8(96), uint64(1))
	f.Fuzz(func(t *testing.T, raw []byte, prefix uint8, low uint64) {
		addr, ok := netip.AddrFromSlice(raw)
		ids := IDs{IPv6Prefix: int(prefix%128) + 1}
		if !ok || addr.Is4() || addr.Is4In6() {
			return
		}
		id := ids.Addr(addr)
		if !id.Is6() || id.Is4In6() || id != ids.Addr(id) {
			t.Fatalf("%v/%d: got %v, want the first address of an IPv6 network", addr, ids.IPv6Prefix, id)
		}
		b := addr.As16()
		for bit := ids.IPv6Prefix; bit < 128; bit++ {
			if low>>(bit%64)&1 == 1 {
				b[bit/8] ^= 0x80 >> (bit % 8)
			}
		}
		if other := netip.AddrFrom16(b); !other.Is4In6() && ids.Addr(other) != id {
			t.Errorf("%v and %v/%d: got %v and %v, want one client", addr, other, ids.IPv6Prefix, id, ids.Addr(other))
		}
	})
}
