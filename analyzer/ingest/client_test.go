package ingest

import (
	"net/netip"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

// addresses are texts that are, or look much like, IP addresses.
func addresses() []string {
	return []string{
		"0.0.0.0", "1.2.3.4", "255.255.255.255", "83.149.9.216", "10.0.0.1", "192.168.100.200",
		"256.1.1.1", "1.2.3.256", "999.1.1.1", "01.2.3.4", "1.2.3.04", "1.2.3", "1.2.3.", "1.2.3.4.", "1.2.3.4.5", ".1.2.3",
		"1..2.3", "1.2.3.4:80", "1.2.3.4,", "1.2.3.4%eth0", "1.2.3.-4", "1.2.3.4\x00", "0x1.2.3.4", "1234.1.1.1", "",
		"::", "::1", "2001:db8::1", "2001:DB8::1", "2001:0db8:0:0:0:0:0:1", "fe80::1%eth0", "fe80::1%", "fe80::1%a%b", "%eth0",
		"::ffff:1.2.3.4", "::FFFF:1.2.3.4", "::ffff:102:304", "::ffff:1.2.3.4%eth0", "[::1]", "::1::", "1:2:3:4:5:6:7:8:9", "2001:db8::g",
		"localhost", "-", "example.com", "a.b.c.d", "\x1b[31m", "１.2.3.4",
	}
}

func FuzzAddress(f *testing.F) {
	for _, a := range addresses() {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l := new(Line)
		got := address(s, l)
		want := ""
		if addr, err := netip.ParseAddr(s); err == nil {
			want = schemas.CanonicalAddr(addr).String()
		}
		if got != want {
			t.Errorf("address(%q): got %q, want %q", s, got, want)
		}
		if got != "" && !within(got, s) && !within(got, view(l.scratch)) {
			t.Errorf("address(%q): a view into nothing", s)
		}
		if addr, err := netip.ParseAddr(s); isIPv4(s) != (err == nil && addr.Is4()) {
			t.Errorf("isIPv4(%q): got %v, netip says %v, %v", s, isIPv4(s), addr, err)
		}
	})
}

func TestOneAddressIsOneCaller(t *testing.T) {
	l := new(Line)
	for _, s := range []string{"2001:db8::1", "2001:DB8:0:0::1", "2001:db8::1%eth0", "2001:0db8::0001%7"} {
		if got := address(s, l); got != "2001:db8::1" {
			t.Errorf("%s: got %q", s, got)
		}
	}
	for _, s := range []string{"1.2.3.4", "::ffff:1.2.3.4", "::ffff:102:304"} {
		if got := address(s, l); got != "1.2.3.4" {
			t.Errorf("%s: got %q", s, got)
		}
	}
}
