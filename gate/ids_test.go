package gate

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// A subscriber has a whole IPv6 network. Whatever address of it a flood comes from, it is one caller; and its closure is
// nobody else's.
func TestAnIPv6NetworkIsOneCaller(t *testing.T) {
	for _, test := range []struct {
		prefix         int // 0 is the default
		counted        string
		inside, beyond []string
	}{
		{0, "2001:db8:1:2::", []string{"2001:db8:1:2::", "2001:db8:1:2::1", "2001:DB8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::9%eth0", "2001:db8:1:2:0:ffff:c000:201"},
			[]string{"2001:db8:1:3::1", "2001:db8:1:1:ffff:ffff:ffff:ffff", "192.0.2.1", "::ffff:192.0.2.1", "::"}},
		{0, "::", []string{"::", "::1", "::ffff:ffff:ffff:ffff"}, []string{"0:0:0:1::", "::ffff:0.0.0.0"}},
		{56, "2001:db8:1::", []string{"2001:db8:1:2::", "2001:db8:1:ff::1"}, []string{"2001:db8:1:100::", "2001:db8::"}},
		{65, "2001:db8:1:2:8000::", []string{"2001:db8:1:2:8000::7"}, []string{"2001:db8:1:2:7fff::7"}},
		{128, "2001:db8:1:2::1", []string{"2001:db8:1:2::1"}, []string{"2001:db8:1:2::", "2001:db8:1:2::2"}},
		{1, "8000::", []string{"ffff::1", "8000::"}, []string{"7fff::1", "255.255.255.255"}},
		{0, "192.0.2.1", []string{"192.0.2.1", "::ffff:192.0.2.1", "::FFFF:c000:201"}, []string{"192.0.2.2", "::192.0.2.1", "::ffff:192.0.2.3"}},
		{1, "192.0.2.1", []string{"192.0.2.1", "::ffff:192.0.2.1"}, []string{"192.0.2.2", "::"}},
	} {
		s := New(Options{MaxJitter: -1, Logger: quiet(), IDs: schemas.IDs{IPv6Prefix: test.prefix}})
		s.ApplyAt(at(0), []schemas.Decision{closing("per-ip", "ip:"+test.counted, 0, 10)})
		for _, client := range []struct {
			addrs  []string
			closed bool
		}{{test.inside, true}, {test.beyond, false}} {
			for _, text := range client.addrs {
				var c Callers
				if !c.Add(s.Gate("ip"), text) || !c.AddAddr(s.Gate("ip"), netip.MustParseAddr(text)) {
					t.Fatalf("%s was not added", text)
				}
				v := s.CheckAt(&c, at(1))
				if v.ClosedFor(0) != client.closed || v.ClosedFor(1) != client.closed {
					t.Errorf("/%d: %s: got closed %t as text and %t as an address, want %t", s.IDs().Prefix(), text, v.ClosedFor(0), v.ClosedFor(1), client.closed)
				}
				if _, id, _ := c.At(1); client.closed != (id == test.counted) {
					t.Errorf("/%d: %s: got the id %s, want %s only if closed", s.IDs().Prefix(), text, id, test.counted)
				}
			}
		}
	}
}

func TestClosedAddrIsForTheNetwork(t *testing.T) {
	s := New(Options{Logger: quiet()})
	now := time.Now()
	s.ApplyAt(now, []schemas.Decision{{
		Rule: "r", Caller: schemas.Caller{Kind: "ip", ID: "2001:db8:1:2::"}, Mode: schemas.ModeEnforce,
		CloseAt: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(),
	}})
	g := s.Gate("ip")
	if !g.Closed("2001:db8:1:2::7") || !g.ClosedAddr(netip.MustParseAddr("2001:db8:1:2:3::")) {
		t.Error("an address of the closed network is open")
	}
	if g.Closed("2001:db8:1:3::7") || g.ClosedAddr(netip.MustParseAddr("2001:db8:1:3::")) {
		t.Error("an address of another network is closed")
	}
}

func TestASetRefusesAPrefixThatCannotBe(t *testing.T) {
	for _, prefix := range []int{-1, 129} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d bits: got a Set, want a panic", prefix)
				}
			}()
			New(Options{IDs: schemas.IDs{IPv6Prefix: prefix}})
		}()
	}
}

// A caller that makes its id long does not escape its gate: it is closed by the form that everybody counts it under, and
// one that differs in its last byte is not.
func TestALongIDIsClosedToo(t *testing.T) {
	long := strings.Repeat("k", 10_000)
	s := New(Options{Logger: quiet()})
	now := time.Now()
	s.ApplyAt(now, []schemas.Decision{{
		Rule: "r", Caller: schemas.Caller{Kind: "key", ID: schemas.ID(long)}, Mode: schemas.ModeEnforce,
		CloseAt: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(),
	}})
	for id, want := range map[string]bool{long: true, long + "k": false, long[1:]: false, schemas.ID(long): false, "k": false} {
		if got := s.Gate("key").Closed(id); got != want {
			t.Errorf("an id of %d bytes: got closed %t, want %t", len(id), got, want)
		}
		var c Callers
		if !c.Add(s.Gate("key"), id) {
			t.Fatalf("an id of %d bytes was not added", len(id))
		}
		if v := s.Check(&c); v.Closed != want || want && v.Caller.ID != schemas.ID(long) {
			t.Errorf("an id of %d bytes: got %+v, want closed %t", len(id), v, want)
		}
		if _, shown, _ := c.At(0); len(shown) > schemas.MaxCallerID {
			t.Errorf("got an id of %d bytes to record", len(shown))
		}
	}
	if st := s.Status(); st.Refused != 0 {
		t.Errorf("got %d callers refused, want each counted", st.Refused)
	}
}
