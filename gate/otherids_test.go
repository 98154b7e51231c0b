package gate

import (
	"net/netip"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// hasher returns what hashes keys and tenants with these secrets, which are of one letter each.
func hasher(t testing.TB, letters string) *schemas.IDHasher {
	t.Helper()
	var secrets [][]byte
	for i := range len(letters) {
		s := make([]byte, schemas.MinIDSecret)
		for j := range s {
			s[j] = letters[i]
		}
		secrets = append(secrets, s)
	}
	h, err := schemas.NewIDHasher([]string{"key", "tenant"}, secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func closeNow(s *Set, kind string, ids ...string) {
	now := time.Now()
	for _, id := range ids {
		s.ApplyAt(now, []schemas.Decision{{
			Rule: "r", Caller: schemas.Caller{Kind: kind, ID: id}, Mode: schemas.ModeEnforce,
			CloseAt: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(),
		}})
	}
}

// While secrets rotate, a closure holds under whichever of them it was decided, and the request is charged to the caller as
// it is counted now. What a server knows of one secret only, it enforces under that one.
func TestClosuresHoldUnderBothSecrets(t *testing.T) {
	const key = "sk_live_1234"
	underA, underB := hasher(t, "a").Kind("key").ID(key), hasher(t, "b").Kind("key").ID(key)
	for _, test := range []struct {
		secrets string
		decided string // the id in the decision
		closed  bool
		counted string
	}{
		{"a", underA, true, underA},
		{"a", underB, false, underA},
		{"ab", underA, true, underA},
		{"ab", underB, true, underA},
		{"ba", underA, true, underB},
		{"ba", underB, true, underB},
		{"b", underA, false, underB},
		{"ba", key, false, underB}, // the id in clear is no caller
	} {
		s := New(Options{Logger: quiet(), IDs: schemas.IDs{Hash: hasher(t, test.secrets)}})
		closeNow(s, "key", test.decided)
		g := s.Gate("key")
		if got := g.Closed(key); got != test.closed {
			t.Errorf("%s, closed as %s: got Closed %t, want %t", test.secrets, test.decided, got, test.closed)
		}
		c := new(Callers)
		for range 2 { // a pool gives Callers out again
			c.Reset()
			c.Add(s.Gate("user"), "innocent")
			c.Add(g, key)
			v := s.Check(c)
			if v.Closed != test.closed || v.ClosedFor(1) != test.closed || v.ClosedFor(0) || test.closed && v.Caller.ID != test.decided {
				t.Errorf("%s, closed as %s: got %+v, want closed %t", test.secrets, test.decided, v, test.closed)
			}
			if _, id, _ := c.At(1); id != test.counted || c.Len() != 2 {
				t.Errorf("%s: got %s of %d counted, want %s of 2", test.secrets, id, c.Len(), test.counted)
			}
		}
		if g.Closed("another") || s.Gate("user").Closed(key) {
			t.Errorf("%s: another caller is closed", test.secrets)
		}
		s.SetMode(Shadow)
		if v := s.Check(c); v.Closed || v.Shadow != test.closed || g.Closed(key) {
			t.Errorf("%s in shadow: got %+v, want it admitted", test.secrets, v)
		}
	}
}

// Each caller of a request is looked up under both secrets, whatever is known of those before it: one that was never closed, and one
// that is open again.
func TestEveryCallerIsLookedUpUnderBothSecrets(t *testing.T) {
	s := New(Options{Logger: quiet(), IDs: schemas.IDs{Hash: hasher(t, "ba")}})
	other := func(kind, id string) string { return hasher(t, "a").Kind(kind).ID(id) }
	closeNow(s, "key", other("key", "opened"), other("key", "closed"))
	closeNow(s, "tenant", other("tenant", "closed"))
	s.Apply([]schemas.Decision{{Rule: "r", Caller: schemas.Caller{Kind: "key", ID: other("key", "opened")}, Mode: schemas.ModeEnforce}})
	keys, tenants := s.Gate("key"), s.Gate("tenant")
	if keys.Closed("opened") || !keys.Closed("closed") || !tenants.Closed("closed") {
		t.Error("got the one that was opened closed, or another one open")
	}
	for _, first := range []string{"never closed", "opened"} {
		var c Callers
		c.Add(keys, first)
		c.Add(tenants, "closed")
		if v := s.Check(&c); v.ClosedFor(0) || !v.ClosedFor(1) || v.Caller.Kind != "tenant" {
			t.Errorf("%s: got %+v, want it open and the tenant closed", first, v)
		}
	}
}

// If a caller has two closures, one under each secret, the client gets the Retry-After of the longer one.
func TestTheStricterOfBothClosuresAnswers(t *testing.T) {
	const key = "sk_live_1234"
	s := New(Options{MaxJitter: -1, Logger: quiet(), IDs: schemas.IDs{Hash: hasher(t, "ba")}})
	s.ApplyAt(at(0), []schemas.Decision{
		closing("short", "key:"+hasher(t, "b").Kind("key").ID(key), 0, 10), closing("long", "key:"+hasher(t, "a").Kind("key").ID(key), 0, 60),
	})
	var c Callers
	c.Add(s.Gate("key"), key)
	for second, rule := range map[float64]string{1: "long", 20: "long"} {
		if v := s.CheckAt(&c, at(second)); !v.Closed || v.Rule != rule {
			t.Errorf("at %v s: got %+v, want rule %s", second, v, rule)
		}
	}
	if v := s.CheckAt(&c, at(61)); v.Closed {
		t.Errorf("at the end: got %+v, want it open", v)
	}
}

// An address as a key is hashed too, and looked up as it is counted.
func TestAnAddressOfAHashedKindIsNotShown(t *testing.T) {
	s := New(Options{Logger: quiet(), IDs: schemas.IDs{Hash: hasher(t, "a")}})
	g, addr := s.Gate("tenant"), netip.MustParseAddr("2001:db8:1:2::7")
	want := hasher(t, "a").Kind("tenant").ID("2001:db8:1:2::")
	closeNow(s, "tenant", want)
	var c Callers
	if !c.AddAddr(g, addr) || !g.ClosedAddr(addr) || !s.Check(&c).Closed {
		t.Error("the tenant is open")
	}
	if _, id, _ := c.At(0); id != want {
		t.Errorf("got %s, want %s", id, want)
	}
	if c.Add(g, "") || c.AddAddr(g, netip.Addr{}) {
		t.Error("got a caller added, want none")
	}
	for c.Add(g, "t") {
	}
	if c.Len() != MaxCallers {
		t.Errorf("got %d callers, want %d", c.Len(), MaxCallers)
	}
}

// BenchmarkHashedCheck measures a request whose caller's id is not hashed, is hashed with a secret, and is hashed with two
// during a rotation.
func BenchmarkHashedCheck(b *testing.B) {
	for _, p := range []struct{ name, secrets string }{{"off", ""}, {"on", "a"}, {"rotating", "ba"}} {
		var ids schemas.IDs
		if p.secrets != "" {
			ids.Hash = hasher(b, p.secrets)
		}
		s := New(Options{Logger: quiet(), IDs: ids})
		closeNow(s, "key", "another")
		g := s.Gate("key")
		b.Run(p.name, func(b *testing.B) {
			c := new(Callers)
			b.ReportAllocs()
			for b.Loop() {
				c.Reset()
				c.Add(g, "caller-000000000000001")
				if s.Check(c).Closed {
					b.Fatal("got closed")
				}
			}
		})
	}
}
