package front

import (
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

// cases are what clients forge and what proxies write, with the address that a request came from. Package ingest reads the
// same file.
const cases = "../../../testdata/forwarded/cases.json"

func prefixes(t *testing.T, list string) (out []netip.Prefix) {
	t.Helper()
	for s := range strings.FieldsSeq(list) {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func TestClientIsNotFooled(t *testing.T) {
	var all []struct {
		Name, Trusted, Peer string
		Lines               []string // of X-Forwarded-For
		Want                string   // "" is none
	}
	data, err := os.ReadFile(cases)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &all); err != nil || len(all) < 40 {
		t.Fatalf("got %d cases, %v", len(all), err)
	}
	for _, c := range all {
		t.Run(c.Name, func(t *testing.T) { checkClient(t, c.Trusted, c.Peer, c.Lines, c.Want) })
	}
}

// TestClientOnAUnixSocket, which counts as 127.0.0.1.
func TestClientOnAUnixSocket(t *testing.T) {
	checkClient(t, "127.0.0.0/8", "@", []string{"198.51.100.1"}, "198.51.100.1")
	checkClient(t, "", "@", []string{"198.51.100.1"}, "127.0.0.1")
}

func checkClient(t *testing.T, trusted, peer string, lines []string, want string) {
	t.Helper()
	got := client(prefixes(t, trusted), peer, lines...)
	if want == "" && got.IsValid() || want != "" && got != netip.MustParseAddr(want) {
		t.Errorf("got %v, want %q", got, want)
	}
}

// client finds the address of a request with this peer and X-Forwarded-For.
func client(trusted []netip.Prefix, remote string, lines ...string) netip.Addr {
	return Client(schemas.NewNetworks(trusted), ParsePeer(remote), lines)
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
	proxies := schemas.NewNetworks(prefixes(t, "10.0.0.0/8 2001:db8::/32"))
	lines := []string{"nonsense", "198.51.100.1:80, 10.9.9.9", "[2001:db8::1]:80, ::ffff:10.1.1.1"}
	tcp := &net.TCPAddr{IP: net.ParseIP("10.1.2.3"), Port: 80}
	want := netip.MustParseAddr("198.51.100.1")
	if n := testing.AllocsPerRun(100, func() {
		if peer := Peer(tcp); !proxies.Contain(peer) || Client(proxies, peer, lines) != want {
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
		slow, _ := parseHop(remote)
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

func BenchmarkClient(b *testing.B) {
	proxies := schemas.NewNetworks([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")})
	peer := netip.MustParseAddr("10.1.2.3")
	for name, lines := range map[string][]string{
		"one":    {"198.51.100.1"},
		"two":    {"198.51.100.1, 10.9.9.9"},
		"forged": {"127.0.0.1, 10.0.0.1, 198.51.100.1, 10.9.9.9"},
		"IPv6":   {"2001:db9:aaaa:bbbb::1, 2001:db8::1"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if !proxies.Contain(peer) || !Client(proxies, peer, lines).IsValid() {
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
	host := netip.MustParseAddr("198.51.100.7")
	f.Fuzz(func(t *testing.T, sent string) {
		for how, got := range map[string]netip.Addr{
			"a line of its own": client(trusted, "10.1.1.1:1", sent, "198.51.100.7"),
			"appended":          client(trusted, "10.1.1.1:1", sent+", 198.51.100.7"),
			"direct":            client(trusted, "198.51.100.7:1", sent),
		} {
			if got != host {
				t.Errorf("sent %q, %s: got %v, want the address of who sent it", sent, how, got)
			}
		}
		if hop := client(trusted, "10.1.1.1:1", sent); !hop.IsValid() || hop.Is4In6() || hop.Zone() != "" {
			t.Errorf("sent %q: got %v, want a canonical address", sent, hop)
		}
	})
}
