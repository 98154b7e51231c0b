package rules

import (
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

const plain = `version: 1
rules:
  - name: a
    callers: ip:10.*
    match: {resource: [/a, /b], status: [401, 5xx]}
    limit: 100
    window: 1m
    close_for: 30s
    escalate: {max: 1h}
    overrides: {10.0.0.1: 5, 10.1.0.0/16: unlimited, 10.2.0.0/16: 6}
    warn: [0.8, 1]
`

// The same rules laid out and spelt otherwise.
const respelt = `# a comment
"rules":
- {window: 60s, limit: 1_00, callers: "ip:10.**", name: 'a', algorithm: sliding, slots: 20, warn: [0.80, 1.0], measure: requests,
   overrides: {"10.2.0.0/16": 6, "::ffff:10.0.0.1": 5, "::ffff:10.1.0.0/112": unlimited}, mode: enforce, count_blocked: false,
   close_for: 0.5m, escalate: {factor: 2, max: 60m, forget: 3600s}, match: {"status": [401, 5xx], resource: [/a, "/b"]}}
version: 1
`

func TestIDDependsOnTheRulesAndNotOnTheirSpelling(t *testing.T) {
	a, err := Parse("a", []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Parse("b", []byte(respelt))
	if err != nil {
		t.Fatal(err)
	}
	if a.ID() != b.ID() || a.Rules[0].Fingerprint() != b.Rules[0].Fingerprint() || a.Rules[0].Shape() != b.Rules[0].Shape() {
		t.Errorf("got %x, want %x as spelt otherwise", b.ID(), a.ID())
	}
	// Fixed for ever: these are in stores and in decisions.
	if got, want := a.Rules[0].Fingerprint(), uint64(0x5d82837414fd9856); got != want {
		t.Errorf("got fingerprint %#x, want %#x", got, want)
	}
	if got, want := a.Rules[0].Shape(), uint64(0x34796c966d62d098); got != want {
		t.Errorf("got shape %#x, want %#x", got, want)
	}
	if got, want := a.ID(), uint64(0xe9739ba3ef3bb33c); got != want {
		t.Errorf("got ID %#x, want %#x", got, want)
	}
}

// Every field is part of the fingerprint. Counts are kept over a reload if and only if the shape is.
func TestWhatAReloadKeeps(t *testing.T) {
	base := "callers: key"
	before := one(t, base)
	tests := []struct {
		fields string
		keeps  bool // the counts
	}{
		{"callers: key, mode: shadow", true},
		{"callers: key, close_for: 1s", true},
		{"callers: key, close_for: 1s, escalate: {max: 1h}", true},
		{"callers: key, close_for: 1s, escalate: {max: 2h}", true},
		{"callers: key, close_for: 1s, escalate: {max: 2h, forget: 3h}", true},
		{"callers: key, close_for: 1s, escalate: {max: 2h, factor: 3}", true},
		{"callers: key, warn: 0.8", true},
		{"callers: key, overrides: {a: 1}", true},
		{"callers: key, overrides: {a: 2}", true},
		{"callers: key, overrides: {a: unlimited}", true},
		{"callers: 'key:a*'", true},
		{"callers: ip", false},
		{"callers: key, match: {resource: /a}", false},
		{"callers: key, match: {resource: [/a, /b]}", false},
		{"callers: key, match: {status: 500}", false},
		{"callers: key, match: {status: 5xx}", false},
		{"callers: key, measure: cost", false},
		{"callers: key, measure: responses", false},
		{"callers: key, count_blocked: true", false},
		{"callers: key, slots: 10", false},
		{"callers: key, algorithm: log", false},
		{"callers: key, algorithm: fixed", false},
		{"callers: key, algorithm: gcra", false},
	}
	seen := map[uint64]string{before.Fingerprint(): base}
	for _, test := range tests {
		now := one(t, test.fields)
		if before, twice := seen[now.Fingerprint()]; twice {
			t.Errorf("%q has the fingerprint of %q", test.fields, before)
		}
		seen[now.Fingerprint()] = test.fields
		if keeps := now.Shape() == before.Shape(); keeps != test.keeps {
			t.Errorf("%q: got counts kept %v, want %v", test.fields, keeps, test.keeps)
		}
	}
	burst := one(t, "callers: key, algorithm: gcra, burst: 3")
	if gcra := one(t, "callers: key, algorithm: gcra"); burst.Shape() != gcra.Shape() || burst.Fingerprint() == gcra.Fingerprint() {
		t.Error("another burst must be another version and keep the counts")
	}
	limits := parse(t, "  - {name: r, callers: key, limit: 11, window: 1m}\n").Rules[0]
	if limits.Shape() != before.Shape() || limits.Fingerprint() == before.Fingerprint() {
		t.Error("another limit must be another version and keep the counts")
	}
}

func TestForKindKeepsTheOrderOfTheFile(t *testing.T) {
	s := parse(t, `
  - {name: a, callers: ip, limit: 1, window: 1m}
  - {name: b, callers: key, limit: 1, window: 1m}
  - {name: c, callers: 'ip:10.*', limit: 1, window: 1h}
`)
	if ip := s.ForKind("ip"); len(ip) != 2 || ip[0].Name != "a" || ip[1].Name != "c" {
		t.Errorf("got %d rules about ip", len(ip))
	}
	if s.ForKind("tenant") != nil || (&Set{}).ForKind("ip") != nil {
		t.Error("got rules about nobody")
	}
}

// TestWithShadowChangesWhatItSaysOnly: rules that change are copies, with the version that they had; the set itself never changes.
func TestWithShadowChangesWhatItSaysOnly(t *testing.T) {
	s := parse(t, `
  - {name: a, callers: ip, limit: 1, window: 1m, overrides: {203.0.113.9: 7}}
  - {name: b, callers: ip, limit: 1, window: 1m}
  - {name: c, callers: key, limit: 1, window: 1h, mode: shadow}
`)
	for _, names := range []string{"", "c", "nobody"} {
		if got := s.WithShadow(func(rule string) bool { return rule == names }); got != s {
			t.Errorf("%q in shadow: got another set", names)
		}
	}
	got := s.WithShadow(func(rule string) bool { return rule != "b" })
	a := got.Rules[0]
	if a.Mode != schemas.ModeShadow || a.Fingerprint() != s.Rules[0].Fingerprint() || a.Shape() != s.Rules[0].Shape() {
		t.Errorf("got %+v, want a in shadow, of the same version", a)
	}
	if limit, _ := a.LimitFor("203.0.113.9"); limit != 7 || got.ID() != s.ID() || len(got.Text()) != 0 || got.ForKind("ip")[0] != a {
		t.Errorf("got limit %d, set %x, want overrides and the id of the set", limit, got.ID())
	}
	if got.Rules[1] != s.Rules[1] || got.Rules[2] != s.Rules[2] || s.Rules[0].Mode != schemas.ModeEnforce || s.ForKind("ip")[0] != s.Rules[0] {
		t.Error("got other rules changed")
	}
}
