package schemas

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// plainHop reads an element that is an address and nothing else.
func plainHop(element string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(element)
	return CanonicalAddr(addr), err == nil
}

// TestForwardedForReadsNoFurtherThanItMust: an element before the client's is not even read.
func TestForwardedForReadsNoFurtherThanItMust(t *testing.T) {
	proxies := NewNetworks([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	for _, c := range []struct {
		peer  string
		lines []string
		want  string
		read  string // the elements that were read, in order
	}{
		{"203.0.113.9", []string{"198.51.100.1"}, "203.0.113.9", ""},
		{"10.0.0.1", nil, "10.0.0.1", ""},
		{"10.0.0.1", []string{"", " ", ",\t,"}, "10.0.0.1", ""},
		{"10.0.0.1", []string{"6.6.6.6, 198.51.100.1"}, "198.51.100.1", "198.51.100.1"},
		{"10.0.0.1", []string{"6.6.6.6", "198.51.100.1,", " 10.0.0.2 "}, "198.51.100.1", "10.0.0.2 198.51.100.1"},
		{"10.0.0.1", []string{"10.0.0.3", "10.0.0.2"}, "10.0.0.3", "10.0.0.2 10.0.0.3"},
		{"10.0.0.1", []string{"198.51.100.1, nonsense, 10.0.0.2"}, "10.0.0.2", "10.0.0.2 nonsense"},
		{"10.0.0.1", []string{"198.51.100.1, ::ffff:10.0.0.2"}, "198.51.100.1", "::ffff:10.0.0.2 198.51.100.1"},
	} {
		var read []string
		got := ForwardedFor(proxies, netip.MustParseAddr(c.peer), c.lines, Networks.Contain, func(element string) (netip.Addr, bool) {
			read = append(read, element)
			return plainHop(element)
		})
		if got.String() != c.want || strings.Join(read, " ") != c.read {
			t.Errorf("%s, %q: got %v after %q, want %s after %q", c.peer, c.lines, got, read, c.want, c.read)
		}
	}
}

// FuzzForwardedFor compares the walk with one over the list that is split before, for two forms of addresses. Whatever stands
// before the address that the nearest proxy appends changes nothing.
func FuzzForwardedFor(f *testing.F) {
	for _, s := range []string{"", "10.0.0.1", "6.6.6.6, 10.0.0.1, 127.0.0.1", ",,,", "x\n10.0.0.1,10.0.0.2", "10.0.0.1,\t,unknown,10.0.0.2", "::ffff:10.0.0.1"} {
		f.Add(s)
	}
	proxies := NewNetworks([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	peer, client := netip.MustParseAddr("10.1.1.1"), netip.MustParseAddr("198.51.100.7")
	f.Fuzz(func(t *testing.T, sent string) {
		lines := strings.Split(sent, "\n")
		want := peer
		for _, element := range slices.Backward(strings.Split(strings.Join(lines, ","), ",")) {
			if element = strings.Trim(element, " \t"); element == "" {
				continue
			}
			addr, ok := plainHop(element)
			if !proxies.Contain(want) || !ok {
				break
			}
			want = addr
		}
		if got := ForwardedFor(proxies, peer, lines, Networks.Contain, plainHop); got != want {
			t.Errorf("%q: got %v, want %v", lines, got, want)
		}
		text := ForwardedFor(proxies, peer.String(), lines,
			func(n Networks, text string) bool { return n.Contain(netip.MustParseAddr(text)) },
			func(element string) (string, bool) { addr, ok := plainHop(element); return addr.String(), ok })
		if text != want.String() {
			t.Errorf("%q: got %q as text, want %v", lines, text, want)
		}
		for _, forged := range [][]string{append(slices.Clone(lines), client.String()), {sent + ", " + client.String()}} {
			if got := ForwardedFor(proxies, peer, forged, Networks.Contain, plainHop); got != client {
				t.Errorf("%q: got %v, want %v", forged, got, client)
			}
		}
		if got := ForwardedFor(proxies, client, lines, Networks.Contain, plainHop); got != client {
			t.Errorf("%q from a client: got %v, want %v", lines, got, client)
		}
	})
}
