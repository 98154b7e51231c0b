package rules

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/pool"
)

// shared returns the only rule of a set; fields are its fields beside name, capacity and window.
func shared(t *testing.T, fields string) *Rule {
	t.Helper()
	return parse(t, "  - {name: r, capacity: 50000, window: 2s, "+fields+"}\n").Rules[0]
}

// TestWhatACapacitySays: each number of the file arrives, and what a file leaves out has its default.
func TestWhatACapacitySays(t *testing.T) {
	r := shared(t, `callers: tenant_route, protect: 0.5%, weights: {"acme|POST /search": 4, free: 0.25}, warn: 0.8`)
	if r.Pool == nil || r.Pool.Terms != (pool.Terms{Capacity: 50_000, Protect: 250 * pool.Unit}) || r.Limit != 50_000 || r.Warn[0] != 0.8 {
		t.Errorf("got %+v of %+v", r.Pool, r)
	}
	for id, want := range map[string]int64{"acme|POST /search": 4000, "free": 250, "other": 1000, "": 1000} {
		if got := r.Pool.Weight(id); got != want {
			t.Errorf("%s: got weight %d, want %d", id, got, want)
		}
	}
	if r.Window.Shape() != "pool/2000000000" || r.WindowText() != "2s pool" || r.CloseFor != time.Second/2 || r.Predict != PredictOff {
		t.Errorf("got %s, %s, closed for %v, predict %v", r.Window.Shape(), r.WindowText(), r.CloseFor, r.Predict)
	}
	if r := shared(t, "callers: key, close_for: 3s"); r.CloseFor != 3*time.Second || r.Pool.Protect != 50*pool.Unit || r.Pool.Weight("k") != pool.Unit {
		t.Errorf("got %+v of %+v, want the defaults, and the close_for that is longer than a quarter", r.Pool, r)
	}
}

// TestWeightsOfAddressesAreFoundAsOverridesAre: an id goes before the longest prefix.
func TestWeightsOfAddressesAreFoundAsOverridesAre(t *testing.T) {
	r := shared(t, `callers: ip, weights: {203.0.113.9: 2, 203.0.113.0/24: 3, 203.0.0.0/16: 0.001, "2001:db8::/32": 1000}`)
	for id, want := range map[string]int64{"203.0.113.9": 2000, "203.0.113.8": 3000, "203.0.1.1": 1, "2001:db8::": 1_000_000, "2001:db9::": 1000} {
		if got := r.Pool.Weight(id); got != want {
			t.Errorf("%s: got weight %d, want %d", id, got, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { r.Pool.Weight("203.0.113.8") }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

// TestWhatIsProtectedIsRounded: to thousandths of a request, and it stops at the largest number.
func TestWhatIsProtectedIsRounded(t *testing.T) {
	for _, test := range []struct {
		capacity int64
		percent  string
		want     int64 // thousandths of a request
	}{
		{1, "0.1%", 1}, {1, "10%", 100}, {5, "0.15%", 8}, {1000, "0.1%", 1000}, {1001, "0.125%", 1251}, {1003, "0.155%", 1555}, {MaxLimit, "0.1%", MaxLimit},
		{MaxLimit, "10.000%", math.MaxInt64},
	} {
		text := fmt.Sprintf("  - {name: r, callers: ip, capacity: %d, window: 1s, protect: %s}\n", test.capacity, test.percent)
		if got := parse(t, text).Rules[0].Pool.Protect; got != test.want {
			t.Errorf("%s of %d: got %d, want %d", test.percent, test.capacity, got, test.want)
		}
	}
}

// TestWhatAReloadOfPoolsKeeps: demand stays when the terms change. Each is another version.
func TestWhatAReloadOfPoolsKeeps(t *testing.T) {
	const line = "  - {name: r, capacity: 50000, window: 2s, callers: key}\n"
	base := parse(t, line).Rules[0]
	seen := map[uint64]string{base.Fingerprint(): line}
	for _, test := range []struct {
		from, to string
		keeps    bool
	}{
		{"50000", "50001", true},
		{"callers", "protect: 0.2%, callers", true},
		{"callers", "protect: 0.201%, callers", true},
		{"callers", "weights: {a: 2}, callers", true},
		{"callers", "weights: {a: 2.001}, callers", true},
		{"callers", "weights: {b: 2}, callers", true},
		{"2s", "3s", false},
		{"capacity", "limit", false},
	} {
		r := parse(t, strings.Replace(line, test.from, test.to, 1)).Rules[0]
		if before, twice := seen[r.Fingerprint()]; twice {
			t.Errorf("%s for %s has the fingerprint of %q", test.to, test.from, before)
		}
		seen[r.Fingerprint()] = test.to
		if keeps := r.Shape() == base.Shape(); keeps != test.keeps {
			t.Errorf("%s for %s: got counts kept %v, want %v", test.to, test.from, keeps, test.keeps)
		}
	}
	if r := parse(t, strings.Replace(line, "callers", "protect: 0.1%, weights: {}, close_for: 500ms, predict: off, callers", 1)).Rules[0]; r.Fingerprint() != base.Fingerprint() {
		t.Error("the defaults, written out, are another version")
	}
}

// TestPoolsAreCountedInTheOrderOfTheFile, also in copies of the rules, and up to 64 of them.
func TestPoolsAreCountedInTheOrderOfTheFile(t *testing.T) {
	var b strings.Builder
	for i := range 65 {
		fmt.Fprintf(&b, "  - {name: limit%d, callers: ip, limit: 1, window: 1m}\n  - {name: pool%d, callers: ip, capacity: 1000, window: 1s}\n", i, i)
	}
	lines := strings.SplitAfter(b.String(), "\n")
	set := parse(t, strings.Join(lines[:128], ""))
	for name, set := range map[string]*Set{
		"as read": set, "in shadow": set.InShadow(), "one in shadow": set.WithShadow(func(rule string) bool { return rule == "pool7" }),
	} {
		for i, r := range set.Pools() {
			if want := fmt.Sprintf("pool%d", i); r.Name != want || r.Pool.Index != i {
				t.Errorf("%s: got %s with index %d, want %s with %d", name, r.Name, r.Pool.Index, want, i)
			}
		}
		if len(set.Pools()) != 64 {
			t.Errorf("%s: got %d pools, want 64", name, len(set.Pools()))
		}
	}
	_, err := Parse("r", []byte("version: 1\nrules:\n"+b.String()))
	if want := "r:132:43: capacity: got 65 rules with one, want at most 64 in a file"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestAPoolForPeople: weights and what is protected are shown as people write them.
func TestAPoolForPeople(t *testing.T) {
	r := shared(t, "callers: key, protect: 0.125%, weights: {b: 0.25, a: 1000, c: 1}")
	if got, want := fmt.Sprint(r.Pool.ProtectText(), r.OverrideTexts(), r.OverrideLimits()["b"]), "0.125%[a weight 1000 b weight 0.25 c weight 1]weight 0.25"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := shared(t, "callers: key, protect: 10%").Pool.ProtectText(); got != "10%" {
		t.Errorf("got %s, want 10%%", got)
	}
}
