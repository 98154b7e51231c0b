package gate

import (
	"net/netip"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// closed returns a Set in which callers of kind net are closed.
func closedNets(ids schemas.IDs, nets ...string) *Set {
	s := New(Options{IDs: ids, Logger: quiet()})
	now := time.Now()
	for _, id := range nets {
		s.ApplyAt(now, []schemas.Decision{{
			Rule: "r", Mode: schemas.ModeEnforce, Caller: schemas.Caller{Kind: schemas.KindNet, ID: id},
			CloseAt: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(),
		}})
	}
	return s
}

// TestAClosedNetworkClosesItsAddresses, however they are written, and no others.
func TestAClosedNetworkClosesItsAddresses(t *testing.T) {
	s := closedNets(schemas.IDs{}, "203.0.113.0/24", "2001:db8:1::/48", "0.0.0.0/24", "::/48", "198.51.100.0/25", "192.0.2.7")
	g := s.Gate(schemas.KindNet)
	for id, want := range map[string]bool{
		"203.0.113.0": true, "203.0.113.255": true, "203.0.114.0": false, "203.0.112.255": false, "::ffff:203.0.113.9": true,
		"2001:db8:1:ffff::9": true, "2001:db8:2::": false, "2001:db8:1::1%eth0": true, "0.0.0.9": true, "0.0.1.9": false, "::9": true, "::1:0:0:9": true, "0:0:1::": false,
		"198.51.100.9": false, "192.0.2.7": false, // decided under other lengths
	} {
		addr := netip.MustParseAddr(id)
		var c Callers
		c.AddAddr(g, addr)
		if v := s.Check(&c); g.ClosedAddr(addr) != want || g.Closed(id) != want || v.Closed != want {
			t.Errorf("%s: got closed %v, by its text %v, by Check %v, want %v", id, g.ClosedAddr(addr), g.Closed(id), v.Closed, want)
		}
	}
	if !g.Closed("203.0.113.0/24") || g.Closed("203.0.113.0/25") || g.Closed("203.0.113.7/24") {
		t.Error("want a network closed by its id, and by no other text")
	}
	if s.Gate(schemas.KindIP).Closed("203.0.113.9") {
		t.Error("got a caller of kind ip closed")
	}
	if held := s.Holds(schemas.Caller{Kind: schemas.KindNet, ID: "203.0.113.0/24"}, time.Now()); len(held) != 1 {
		t.Errorf("got %d closures held, want 1", len(held))
	}
}

// FuzzNet: a request's caller of kind net has the id that IDs.Net makes, and a closure of that id refuses it.
func FuzzNet(f *testing.F) {
	f.Add([]byte{203, 0, 113, 9}, uint8(24), uint8(48))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xcb\x00\x71\x09"), uint8(8), uint8(16))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xfe\xcb\x00\x71\x09"), uint8(20), uint8(64))
	f.Fuzz(func(t *testing.T, raw []byte, n4, n6 uint8) {
		addr, ok := netip.AddrFromSlice(raw)
		ids := schemas.IDs{Net4: int(8 + n4%17), Net6: int(16 + n6%49)}
		if !ok {
			return
		}
		want := ids.Net(addr).String()
		s := closedNets(ids, want)
		g := s.Gate(schemas.KindNet)
		var c Callers
		c.AddAddr(g, addr)
		c.Add(g, want)
		for i := range 2 {
			if _, id, _ := c.At(i); id != want {
				t.Fatalf("%v: got %s, want %s", addr, id, want)
			}
		}
		if v := s.Check(&c); !v.ClosedFor(0) || !v.ClosedFor(1) {
			t.Fatalf("%v: got %+v, want %s closed", addr, v, want)
		}
	})
}
