package haproxy

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
)

// TestAsAGate compares what closes a caller here with what closes it at a gate, for decisions of three rules at random.
func TestAsAGate(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	begun := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	caller := schemas.Caller{Kind: "key", ID: "a"}
	closed := 0
	for range 600 {
		set := gate.New(gate.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		g := set.Gate(caller.Kind)
		var ds []schemas.Decision
		for _, rule := range []string{"a", "b", "c"}[:1+rng.IntN(3)] {
			at := func(from int64) int64 { return from + rng.Int64N(int64(30*time.Second)) }
			d := schemas.Decision{
				Rule: rule, Caller: caller, Mode: schemas.Mode(1 + rng.IntN(5)/4), Early: rng.IntN(3) == 0, CloseAt: at(begun.UnixNano()),
				Evidence: schemas.Evidence{Limit: rng.Int64N(100), Window: rng.Int64N(int64(time.Minute))},
			}
			if d.Until = at(d.CloseAt); rng.IntN(3) == 0 {
				d.Next = schemas.Span{CloseAt: d.Until + rng.Int64N(2)*rng.Int64N(1e9), Early: rng.IntN(2) == 0}
				d.Next.Until = d.Next.CloseAt + 1 + rng.Int64N(1e10)
			}
			ds = append(ds, d)
		}
		set.ApplyAt(begun, ds)
		for s := range 100 {
			now := begun.Add(time.Duration(s) * time.Second)
			var c gate.Callers
			c.Add(g, caller.ID)
			v := set.CheckAt(&c, now)
			got, due := inForce(ds, now.UnixNano())
			if v.Closed != (got != value{}) || v.Closed && got.until != ceilMilliseconds(v.Until.UnixNano()) || due <= now.UnixNano() {
				t.Fatalf("%+v after %d s: got %v and %v, want closed %v until %v", ds, s, got, due, v.Closed, v.Until)
			}
			if !v.Closed {
				continue
			}
			closed++
			if terms := got.terms.Value(); terms.rule != v.Rule || terms.limit > 0 && terms.limit != v.Limit {
				t.Fatalf("%+v after %d s: got %v, want the rule %s and the limit %d", ds, s, terms, v.Rule, v.Limit)
			}
		}
	}
	if closed < 10_000 {
		t.Errorf("got closed at %d times, want more to compare", closed)
	}
}

// TestValues: what is written is read again, and nothing else is.
func TestValues(t *testing.T) {
	for _, test := range []struct {
		d    schemas.Decision
		want string
	}{
		{schemas.Decision{Rule: "per-ip", Evidence: schemas.Evidence{Limit: 100, Window: 1}}, "5000:per-ip:100:1"},
		{schemas.Decision{Rule: "per-ip", Evidence: schemas.Evidence{Limit: 1e15, Window: 1}}, "5000:per-ip"},
		{schemas.Decision{Rule: schemas.ControlRule}, "5000:_control"},
		{schemas.Decision{Rule: "a b", Evidence: schemas.Evidence{Limit: 100, Window: 1}}, "5000"},
		{schemas.Decision{Rule: "a\n", Evidence: schemas.Evidence{Limit: 100, Window: 1}}, "5000"},
		{schemas.Decision{}, "5000"},
	} {
		v := value{5000, termsOf(&test.d)}
		text := string(v.append(nil))
		if text != test.want || parseValue(text) != v {
			t.Errorf("%+v: got %q and %+v, want %q", test.d, text, parseValue(text), test.want)
		}
	}
	for _, text := range []string{"", "x", "0", "-1", "05", "5:", "5:a:", "5:a:1", "5:a:1:", "5:a:01:1", "5:a:1:1:1", "5 a"} {
		if v := parseValue(text); v != foreign() {
			t.Errorf("%q: got %+v, want a foreign one", text, v)
		}
	}
}

// TestTheKeyOfANetwork is what map_ip takes. Other ids of this kind are keys as those of other kinds are.
func TestTheKeyOfANetwork(t *testing.T) {
	for id, want := range map[string]string{"203.0.113.0/24": "203.0.113.0/24", "2001:db8:1::/48": "2001:db8:1::/48", "203.0.113.7/24": "203.0.113.7%2F24", "a": "a"} {
		if got, ok := keyOf(schemas.Caller{Kind: schemas.KindNet, ID: id}, schemas.IDs{}); got != want || !ok {
			t.Errorf("%s: got %q, %v, want %q", id, got, ok, want)
		}
	}
}

// FuzzKeys: a key is one word without a meaning in commands, and no two callers have the same.
func FuzzKeys(f *testing.F) {
	for _, id := range []string{"a", "a b;c\n\\<<", "#0x1", "192.0.2.1", "2001:db8::", "2001:db8::1", "\x00\xff", "~%41+,"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if key, ok := keyOf(schemas.Caller{Kind: schemas.KindNet, ID: id}, schemas.IDs{}); strings.Contains(key, "/") && (key != id || netip.MustParsePrefix(key).String() != id) {
			t.Errorf("%q: got %q, %v, want a network or no slash", id, key, ok)
		}
		key, ok := keyOf(schemas.Caller{Kind: "key", ID: id}, schemas.IDs{})
		back, err := url.PathUnescape(key)
		if ok != (id != "") || err != nil || back != id || !plain(key, "-._~%") {
			t.Errorf("%q: got %q, %v, which is %q, %v", id, key, ok, back, err)
		}
		for _, prefix := range []int{0, 128, 20} {
			key, ok = keyOf(schemas.Caller{Kind: schemas.KindIP, ID: id}, schemas.IDs{IPv6Prefix: prefix})
			if !ok {
				continue
			}
			addr, isNetwork := key, strings.Contains(key, "/")
			if isNetwork {
				addr, _, _ = strings.Cut(key, "/")
			}
			if a, err := netip.ParseAddr(addr); err != nil || addr != id || a.Zone() != "" || isNetwork != (a.Is6() && prefix != 128) {
				t.Errorf("%q: got %q, %v", id, key, err)
			}
		}
	})
}

// TestMemory: a Writer takes little beside the board.
func TestMemory(t *testing.T) {
	const n = 20_000
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("client-of-the-service-%10d", i)
	}
	ds := []schemas.Decision{{Rule: "r", Mode: schemas.ModeEnforce, Until: int64(time.Hour)}}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	table := newTable(Map{"key", "m"})
	for _, id := range ids {
		table.look(id, id, ds, 0)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if bytes := (after.HeapAlloc - before.HeapAlloc) / n; len(table.entries) != n || bytes > 250+32 {
		t.Errorf("got %d bytes for each of %d callers, want 250 and the id at most", bytes, len(table.entries))
	} else {
		t.Logf("%d bytes a caller, of which 32 are its id", bytes)
	}
	runtime.KeepAlive(ids)
}
