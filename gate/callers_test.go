package gate

import (
	"net/netip"
	"strings"
	"testing"
	"unsafe"

	"github.com/509da70d/floodgate/schemas"
)

func TestCallersKeepWhatIsAdded(t *testing.T) {
	s := New(exact())
	ips, keys, tenants := s.Gate("ip"), s.Gate("key"), s.Gate("tenant")
	var c Callers
	for _, added := range []bool{
		c.Add(keys, "abc"),
		c.AddAddr(ips, netip.MustParseAddr("::ffff:203.0.113.9")),
		c.AddAddr(ips, netip.MustParseAddr("fe80::1%eth0")),
		c.Add(ips, "2001:DB8:0::1"),
		c.Add(ips, "not an address"),
		c.Add(tenants, strings.Repeat("x", schemas.MaxCallerID)),
	} {
		if !added {
			t.Fatal("a caller was not added")
		}
	}
	want := []string{
		"key:abc", "ip:203.0.113.9", "ip:fe80::", "ip:2001:db8::", "ip:not an address",
		"tenant:" + strings.Repeat("x", schemas.MaxCallerID),
	}
	if c.Len() != len(want) {
		t.Fatalf("got %d callers, want %d", c.Len(), len(want))
	}
	seen := make(map[uint64]bool)
	for i, w := range want {
		kind, id, hash := c.At(i)
		if kind+":"+id != w {
			t.Errorf("caller %d: got %s:%s, want %s", i, kind, id, w)
		}
		_, key, keyHash, addr := c.Key(i)
		if hash != s.Gate(kind).sum(key) || hash != keyHash || seen[hash] {
			t.Errorf("caller %d: got hash %#x, want that of its gate, and of no other caller", i, hash)
		}
		if isAddr := i >= 1 && i <= 3; addr != isAddr || !addr && key != id {
			t.Errorf("caller %d: got the key %q of an address %v, want an address %v", i, key, addr, isAddr)
		}
		seen[hash] = true
	}
	c.Reset()
	if c != (Callers{inline: c.inline}) {
		t.Errorf("got %+v after Reset, want no caller", c)
	}
}

func TestCallersRefuseAndCount(t *testing.T) {
	s := New(exact())
	ips, keys := s.Gate("ip"), s.Gate("key")
	var c Callers
	if c.Add(keys, "") || c.AddAddr(ips, netip.Addr{}) {
		t.Error("got a caller added, want none")
	}
	if st := s.Status(); st.Refused != 0 {
		t.Errorf("got %d refused, want 0: requests without a key are usual", st.Refused)
	}
	for i := range MaxCallers {
		if !c.Add(keys, string(rune('a'+i))) {
			t.Fatalf("caller %d was not added", i)
		}
	}
	if c.Add(keys, "ninth") || c.AddAddr(ips, netip.MustParseAddr("192.0.2.1")) {
		t.Error("a ninth caller was added")
	}
	if st := s.Status(); st.Refused != 2 || c.Len() != MaxCallers {
		t.Errorf("got %d refused, %d callers, want 2 and %d", st.Refused, c.Len(), MaxCallers)
	}
}

func TestCallersHoldMoreAddressesThanFitInline(t *testing.T) {
	s := New(Options{IDs: schemas.IDs{IPv6Prefix: 128}})
	g := s.Gate("ip")
	var c Callers
	var want []string
	for i := range MaxCallers {
		a := netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0xaa, 0xaa, 0xbb, 0xbb, 0xcc, 0xcc, 0xdd, 0xdd, 0xee, 0xee, 0xff, byte(i)})
		want = append(want, a.String())
		if !c.AddAddr(g, a) {
			t.Fatalf("address %d was not added", i)
		}
	}
	for i, w := range want {
		if _, id, _ := c.At(i); id != w {
			t.Errorf("address %d: got %s, want %s", i, id, w)
		}
	}
}

func TestCallersOfAnotherSetAreOpen(t *testing.T) {
	a, b := New(exact()), New(exact())
	for _, s := range []*Set{a, b} {
		s.ApplyAt(at(0), nil)
	}
	a.ApplyAt(at(0), []schemas.Decision{closing("r", "key:x", 0, 10)})
	b.ApplyAt(at(0), []schemas.Decision{closing("r", "key:y", 0, 10)})
	if v := b.CheckAt(callersOf(a, "key", "x"), at(1)); v.Closed {
		t.Errorf("got %+v, want open", v)
	}
}

func TestVerdictMayBeKept(t *testing.T) {
	s := New(exact())
	s.ApplyAt(at(0), []schemas.Decision{closing("per-ip", "ip:2001:db8::", 0, 10)})
	var c Callers
	c.AddAddr(s.Gate("ip"), netip.MustParseAddr("2001:db8::1"))
	v := s.CheckAt(&c, at(1))
	c.Reset()
	c.AddAddr(s.Gate("ip"), netip.MustParseAddr("3fff:fff::2"))
	s.ApplyAt(at(2), []schemas.Decision{closing("other", "ip:2001:db8::", 0, 30), closing("per-ip", "ip:2001:db8::", 0, 0)})
	s.Tick(at(60))
	if v.Caller.String() != "ip:2001:db8::" || v.Rule != "per-ip" {
		t.Errorf("got %+v, want the verdict as it was", v)
	}
}

func TestWordsAreTheBytesOfTheAddress(t *testing.T) {
	for _, text := range []string{"0.0.0.0", "203.0.113.9", "255.255.255.255", "::", "::1", "2001:db8:1:2:3:4:5:6", "::ffff:192.0.2.1"} {
		addr := netip.MustParseAddr(text)
		var got [16]byte
		g := New(Options{IDs: schemas.IDs{IPv6Prefix: 128}}).Gate("ip")
		x, y := g.network.words(addr)
		putWords(&got, x, y)
		if got != addr.As16() {
			t.Errorf("%s: got %x, want %x", text, got, addr.As16())
		}
		if g.hash.Sum16(x, y) != g.sum(string(got[:])) {
			t.Errorf("%s: the hash of the words is not that of the bytes", text)
		}
	}
}

// What is copied for every request is a whole number of vectors: a copy that ends in an overlapping half waits for the store
// before it, which took as long as the rest of Check.
func TestWhatIsCopiedForEachRequestIsOfWholeVectors(t *testing.T) {
	if n := unsafe.Sizeof(Verdict{}); n%16 != 0 {
		t.Errorf("got a Verdict of %d bytes, want a multiple of 16", n)
	}
	if n := unsafe.Sizeof(Callers{}); n > 320 {
		t.Errorf("got Callers of %d bytes, want at most 320: they are zeroed for each request", n)
	}
}
