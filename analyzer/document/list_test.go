package document

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseNetwork(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/8": "10.0.0.0/8", "0.0.0.0/0": "0.0.0.0/0", "192.0.2.1/32": "192.0.2.1/32", "2001:DB8::/32": "2001:db8::/32", "::/0": "::/0",
		"::ffff:10.0.0.0/104": "10.0.0.0/8", "::ffff:0:0/96": "0.0.0.0/0", "::ffff:192.0.2.1/128": "192.0.2.1/32",
	} {
		if got, err := ParseNetwork(text); err != nil || got.String() != want {
			t.Errorf("%s: got %v and %v, want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                    "want an address, or a network",
		"10.0.0.0":            "want an address, or a network",
		"10.0.0.0/33":         "want an address, or a network",
		"10.0.0.0/-1":         "want an address, or a network",
		"010.0.0.0/8":         "want an address, or a network",
		"10.0.0.1/8":          "want the network's first address: 10.0.0.0/8",
		"2001:db8::1/64":      "want the network's first address: 2001:db8::/64",
		"::ffff:10.0.0.1/104": "want the network's first address: 10.0.0.0/8",
		"::ffff:0:0/95":       "want IPv4 networks written as such",
		"fe80::%eth0/64":      "want an address, or a network",
	} {
		if got, err := ParseNetwork(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v and %v, want %s", text, got, err, want)
		}
	}
}

// FuzzParseNetwork: a network that is accepted is canonical, and its text is read as the same network.
func FuzzParseNetwork(f *testing.F) {
	for _, text := range []string{"10.0.0.0/8", "::ffff:10.0.0.0/104", "2001:db8::/32", "::/0", "10.0.0.1/8", "fe80::1%x/64"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseNetwork(text)
		if err != nil {
			return
		}
		if !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() || p.Addr().Zone() != "" {
			t.Fatalf("%q: got %v, want it canonical", text, p)
		}
		if again, err := ParseNetwork(p.String()); err != nil || again != p {
			t.Fatalf("%q: got %v, then %v and %v", text, p, again, err)
		}
	})
}

// TestWrongFieldsAreAsIfAbsent: a reader goes on behind a mistake, with the value of an absent field, and finds the next.
func TestWrongFieldsAreAsIfAbsent(t *testing.T) {
	s, d := readSample([]byte("name: [n]\nkind: huge\nlimit: x\nshare: x\non: x\nwait: x\nwords: [[]]\nstatuses: x\nnetworks: x\ninner: x\nitems: x\neach: x\nnone: [none]\n"))
	absent, _ := readSample([]byte("name: ''\n"))
	if s.Name != "" || s.Kind != absent.Kind || s.Limit != absent.Limit || s.Share != absent.Share || s.On != absent.On || s.Wait != absent.Wait ||
		len(s.Words)+len(s.Statuses)+len(s.Networks)+len(s.Items)+len(s.Each) > 0 || s.Inner != 0 || s.None {
		t.Errorf("got %+v, want %+v", s, absent)
	}
	err := d.Err()
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 12 {
		t.Errorf("got %d errors, want one for each field but none:\n%v", len(lines), err)
	}
}

// TestAddressesAreNetworksOfOne, in canonical form.
func TestAddressesAreNetworksOfOne(t *testing.T) {
	s, d := readSample([]byte("name: n\nnetworks: [192.0.2.1, '::ffff:192.0.2.2', '2001:DB8::1']\n"))
	want := []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32"), netip.MustParsePrefix("2001:db8::1/128")}
	if d.Err() != nil || len(s.Networks) != len(want) {
		t.Fatalf("got %v and %v", s.Networks, d.Err())
	}
	for i, n := range s.Networks {
		if n != want[i] {
			t.Errorf("got %v, want %v", n, want[i])
		}
	}
}
