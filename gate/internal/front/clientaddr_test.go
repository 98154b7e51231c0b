package front

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

func prefixes(t *testing.T, list string) (out []netip.Prefix) {
	t.Helper()
	for s := range strings.FieldsSeq(list) {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func TestClientIsNotFooled(t *testing.T) {
	const proxies = "10.0.0.0/8 2001:db8:f::/48"
	for _, p := range []struct {
		name, trusted, peer string
		forwarded           []string // lines of X-Forwarded-For
		want                string   // "" is none
	}{
		{"nobody is trusted: the peer", "", "203.0.113.9:1234", []string{"198.51.100.1"}, "203.0.113.9"},
		{"a peer that is not trusted says what it wants", proxies, "203.0.113.9:1234", []string{"198.51.100.1"}, "203.0.113.9"},
		{"one proxy", proxies, "10.1.2.3:80", []string{"198.51.100.1"}, "198.51.100.1"},
		{"two proxies", proxies, "10.1.2.3:80", []string{"198.51.100.1, 10.9.9.9"}, "198.51.100.1"},
		{"forged on the left", proxies, "10.1.2.3:80", []string{"127.0.0.1, 198.51.100.1"}, "198.51.100.1"},
		{"a trusted address forged on the left", proxies, "10.1.2.3:80", []string{"10.0.0.1, 198.51.100.1"}, "198.51.100.1"},
		{"garbage forged on the left", proxies, "10.1.2.3:80", []string{"<script>, ,,\x00, 198.51.100.1"}, "198.51.100.1"},
		{"lines are one list", proxies, "10.1.2.3:80", []string{"192.0.2.66", "198.51.100.1", "10.9.9.9"}, "198.51.100.1"},
		{"a forged line before", proxies, "10.1.2.3:80", []string{"10.0.0.1, 10.0.0.2", "198.51.100.1"}, "198.51.100.1"},
		{"an empty line after", proxies, "10.1.2.3:80", []string{"198.51.100.1", ""}, "198.51.100.1"},
		{"empty elements", proxies, "10.1.2.3:80", []string{"198.51.100.1, ,\t,"}, "198.51.100.1"},
		{"no field", proxies, "10.1.2.3:80", nil, "10.1.2.3"},
		{"an empty field", proxies, "10.1.2.3:80", []string{""}, "10.1.2.3"},
		{"all trusted: the first", proxies, "10.1.2.3:80", []string{"10.4.4.4, 10.5.5.5"}, "10.4.4.4"},
		{"a proxy that does not know", proxies, "10.1.2.3:80", []string{"198.51.100.1, unknown"}, "10.1.2.3"},
		{"garbage behind a known proxy", proxies, "10.1.2.3:80", []string{"198.51.100.1, nonsense, 10.5.5.5"}, "10.5.5.5"},
		{"with a port", proxies, "10.1.2.3:80", []string{"198.51.100.1:4711"}, "198.51.100.1"},
		{"IPv6", proxies, "[2001:db8:f::1]:80", []string{"2001:DB8:0::9"}, "2001:db8::9"},
		{"IPv6 with a port", proxies, "10.1.2.3:80", []string{"[2001:db8::9]:4711"}, "2001:db8::9"},
		{"IPv6 in brackets", proxies, "10.1.2.3:80", []string{"[2001:db8::9]"}, "2001:db8::9"},
		{"a zone is dropped", proxies, "10.1.2.3:80", []string{"fe80::1%eth0"}, "fe80::1"},
		{"a zone in brackets", "", "[fe80::1%eth0]:80", nil, "fe80::1"},
		{"IPv4-mapped peer", proxies, "[::ffff:10.1.2.3]:80", []string{"198.51.100.1"}, "198.51.100.1"},
		{"IPv4-mapped hop", proxies, "10.1.2.3:80", []string{"198.51.100.1, ::ffff:10.9.9.9"}, "198.51.100.1"},
		{"IPv4-mapped client", proxies, "10.1.2.3:80", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"IPv4-mapped prefix", "::ffff:10.0.0.0/104", "10.1.2.3:80", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a mask over mapped addresses trusts no IPv4", "::/64", "10.1.2.3:80", []string{"198.51.100.1"}, "10.1.2.3"},
		{"a prefix with host bits", "10.1.2.99/24", "10.1.2.3:80", []string{"198.51.100.1"}, "198.51.100.1"},
		{"numbers that other parsers read as addresses", proxies, "10.1.2.3:80", []string{"0x7f.1, 2130706433, 010.0.0.1"}, "10.1.2.3"},
		{"a host name", proxies, "10.1.2.3:80", []string{"localhost"}, "10.1.2.3"},
		{"a Unix socket, trusted", "127.0.0.0/8", "@", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a Unix socket, not trusted", "", "@", []string{"198.51.100.1"}, "127.0.0.1"},
		{"an unreadable peer", proxies, "pipe", []string{"198.51.100.1"}, ""},
		{"a peer without a port", "", "203.0.113.9", nil, "203.0.113.9"},
		{"trusting everything", "0.0.0.0/0 ::/0", "203.0.113.9:1", []string{"198.51.100.1, 2001:db8::1"}, "198.51.100.1"},
	} {
		t.Run(p.name, func(t *testing.T) {
			got := client(prefixes(t, p.trusted), p.peer, p.forwarded...)
			if p.want == "" {
				if got.IsValid() {
					t.Errorf("got %v, want none", got)
				}
				return
			}
			if got != netip.MustParseAddr(p.want) {
				t.Errorf("got %v, want %v", got, p.want)
			}
		})
	}
}

// client finds the address of a request with this peer and X-Forwarded-For.
func client(trusted []netip.Prefix, remote string, lines ...string) netip.Addr {
	proxies, peer := Trust(trusted), ParsePeer(remote)
	if !proxies.Contain(peer) {
		return peer
	}
	return proxies.Client(peer, lines)
}

// address is a net.Addr of no kind that net knows.
type address string

func (address) Network() string  { return "test" }
func (a address) String() string { return string(a) }

func TestPeer(t *testing.T) {
	for _, p := range []struct {
		addr net.Addr
		want string // "" is none
	}{
		{nil, ""},
		{&net.TCPAddr{IP: net.ParseIP("203.0.113.9"), Port: 80}, "203.0.113.9"},
		{&net.TCPAddr{IP: net.ParseIP("203.0.113.9").To4(), Port: 80}, "203.0.113.9"},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Port: 80, Zone: "eth0"}, "fe80::1"},
		{&net.TCPAddr{}, ""},
		{(*net.TCPAddr)(nil), ""},
		{&net.UnixAddr{Name: "/run/app.sock", Net: "unix"}, "127.0.0.1"},
		{&net.UnixAddr{}, "127.0.0.1"},
		{address("203.0.113.9:80"), "203.0.113.9"},
		{address("[2001:db8::9]:80"), "2001:db8::9"},
		{address("bufconn"), ""},
		{address("pipe"), ""},
	} {
		got := Peer(p.addr)
		if p.want == "" && got.IsValid() || p.want != "" && got != netip.MustParseAddr(p.want) {
			t.Errorf("%#v: got %v, want %q", p.addr, got, p.want)
		}
	}
}

func TestClientDoesNotAllocate(t *testing.T) {
	proxies := Trust(prefixes(t, "10.0.0.0/8 2001:db8::/32"))
	lines := []string{"nonsense", "198.51.100.1:80, 10.9.9.9", "[2001:db8::1]:80, ::ffff:10.1.1.1"}
	tcp := &net.TCPAddr{IP: net.ParseIP("10.1.2.3"), Port: 80}
	want := netip.MustParseAddr("198.51.100.1")
	if n := testing.AllocsPerRun(100, func() {
		if peer := Peer(tcp); !proxies.Contain(peer) || proxies.Client(peer, lines) != want {
			t.Error("got another address than the client's")
		}
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

// FuzzParsePeer: whatever netip reads as an address and a port, ParsePeer reads as that address, and nothing else with
// digits and a colon in it as any.
func FuzzParsePeer(f *testing.F) {
	for _, s := range []string{
		"203.0.113.9:1234", "0.0.0.0:0", "255.255.255.255:65535", "255.255.255.256:1", "1.2.3.4:65536", "1.2.3.4:",
		"1.2.3.4", "1.2.3:4", "1.2.3.4.5:6", "01.2.3.4:5", "1.2.3.04:5", "1.2.3.4:05", "1.2.3.4:000080", "1..3.4:5",
		"1.2.3.4:5 ", "1.2.3.4:+5", "1000.2.3.4:5", "[::1]:80", "::1", "1.2.3.4:5:6", "a.2.3.4:5", "1.2.3.4:a", ":80", ".",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, remote string) {
		fast, ok := parseIPv4Port(remote)
		slow := parseHop(remote)
		if ok && (fast != slow || !fast.Is4()) {
			t.Errorf("%q: got %v, want %v", remote, fast, slow)
		}
		if remote == "" || remote[0] == '@' || remote[0] == '/' {
			return
		}
		if got := ParsePeer(remote); got != slow {
			t.Errorf("%q: got %v, want %v", remote, got, slow)
		}
	})
}

func TestParsePeerIsQuickForWhatIsCommon(t *testing.T) {
	for _, remote := range []string{"203.0.113.9:1234", "0.0.0.0:0", "255.255.255.255:65535", "1.2.3.4:05"} {
		if addr, ok := parseIPv4Port(remote); !ok || addr != netip.MustParseAddrPort(remote).Addr() {
			t.Errorf("%s: got %v, %v", remote, addr, ok)
		}
	}
}

func BenchmarkParsePeer(b *testing.B) {
	for _, remote := range []string{"203.0.113.9:51234", "[2001:db8:aaaa:bbbb::1]:51234"} {
		b.Run(remote, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !ParsePeer(remote).IsValid() {
					b.Fatal("got no address")
				}
			}
		})
	}
}

// FuzzClient: whatever a client sends before the address that the proxy appends, the answer is that address; and
// nothing of what it sends can be the answer if it is not behind a trusted proxy.
func FuzzClient(f *testing.F) {
	for _, s := range []string{"", "10.0.0.1", "10.0.0.1, 127.0.0.1", ",,,", "[::1]:80", "unknown", "\x00", "fe80::1%\xff"} {
		f.Add(s)
	}
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	who := netip.MustParseAddr("198.51.100.7")
	f.Fuzz(func(t *testing.T, sent string) {
		for how, got := range map[string]netip.Addr{
			"a line of its own": client(trusted, "10.1.1.1:1", sent, "198.51.100.7"),
			"appended":          client(trusted, "10.1.1.1:1", sent+", 198.51.100.7"),
			"direct":            client(trusted, "198.51.100.7:1", sent),
		} {
			if got != who {
				t.Errorf("sent %q, %s: got %v, want the address of who sent it", sent, how, got)
			}
		}
		if hop := client(trusted, "10.1.1.1:1", sent); !hop.IsValid() || hop.Is4In6() || hop.Zone() != "" {
			t.Errorf("sent %q: got %v, want a canonical address", sent, hop)
		}
	})
}
