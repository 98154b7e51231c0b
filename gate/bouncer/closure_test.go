package bouncer

import (
	"math"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// TestLongestInForce: which closure of an address counts, and when to look again. Times are seconds.
func TestLongestInForce(t *testing.T) {
	d := func(rule string, from, until int64, edit ...func(*schemas.Decision)) schemas.Decision {
		d := schemas.Decision{Rule: rule, Mode: schemas.ModeEnforce, CloseAt: from * 1e9, Until: until * 1e9}
		for _, f := range edit {
			f(&d)
		}
		return d
	}
	next := func(from, until int64, early bool) func(*schemas.Decision) {
		return func(d *schemas.Decision) {
			d.Next = schemas.Span{CloseAt: from * 1e9, Until: until * 1e9, Early: early}
		}
	}
	early := func(d *schemas.Decision) { d.Early = true }
	shadow := func(d *schemas.Decision) { d.Mode = schemas.ModeShadow }
	unknown := func(d *schemas.Decision) { d.Mode = 0 }
	const always = never / int64(time.Second)
	for _, test := range []struct {
		name         string
		ds           []schemas.Decision
		rule         string
		until, again int64
	}{
		{"none", nil, "", 0, always},
		{"one", []schemas.Decision{d("a", 90, 110)}, "a", 110, 110},
		{"begins now", []schemas.Decision{d("a", 100, 110)}, "a", 110, 110},
		{"ends now", []schemas.Decision{d("a", 90, 100)}, "", 0, always},
		{"later", []schemas.Decision{d("a", 101, 120)}, "", 0, 101},
		{"the longest", []schemas.Decision{d("a", 90, 110), d("b", 80, 120), d("c", 99, 115)}, "b", 120, 120},
		{"the longest is on trial", []schemas.Decision{d("a", 90, 110), d("b", 80, 120, shadow)}, "a", 110, 110},
		{"the longest is of no mode", []schemas.Decision{d("a", 90, 110), d("b", 80, 120, unknown)}, "a", 110, 110},
		{"the longest is too short", []schemas.Decision{d("a", 90, 102), d("b", 99, 108)}, "a", 102, 102},
		{"a longer one begins before this one ends", []schemas.Decision{d("a", 90, 110), d("b", 105, 200)}, "a", 110, 105},
		{"and one that is too short", []schemas.Decision{d("a", 90, 110), d("b", 105, 112)}, "a", 110, 110},
		{"predicted", []schemas.Decision{d("a", 90, 110, early)}, "", 0, always},
		{"predicted, and counted after it", []schemas.Decision{d("a", 90, 110, early, next(110, 130, false))}, "", 0, 110},
		{"goes on", []schemas.Decision{d("a", 90, 105, next(105, 130, false))}, "a", 130, 130},
		{"goes on for too short a time alone", []schemas.Decision{d("a", 90, 105, next(105, 106, false))}, "a", 106, 106},
		{"two short ones make one that is long", []schemas.Decision{d("a", 97, 103, next(103, 107, false))}, "a", 107, 107},
		{"goes on by prediction", []schemas.Decision{d("a", 90, 105, next(105, 130, true))}, "a", 105, 105},
		{"with a pause", []schemas.Decision{d("a", 90, 105, next(106, 130, false))}, "a", 105, 105},
		{"in the pause", []schemas.Decision{d("a", 50, 99, next(106, 130, false))}, "", 0, 106},
		{"turned round", []schemas.Decision{d("a", 110, 90, next(130, 120, false))}, "", 0, always},
		{"from the beginning of time", []schemas.Decision{d("a", math.MinInt64/int64(time.Second), 110)}, "a", 110, 110},
	} {
		got, again := longestInForce(test.ds, 100e9, 10*time.Second, ruleFilter{})
		if got.rule != test.rule || got.until != test.until*1e9 || again/1e9 != test.again {
			t.Errorf("%s: got %q until %d, again at %d, want %q until %d, again at %d", test.name, got.rule, got.until/1e9, again/1e9, test.rule, test.until, test.again)
		}
	}
	got, again := longestInForce([]schemas.Decision{d("a", 90, 110), d("b", 90, 120)}, 100e9, 10*time.Second, ruleFilter{without: []string{"b"}})
	if got.rule != "a" || again != 110e9 {
		t.Errorf("filtered: got %+v", got)
	}
}

// TestAddressesAreCanonical: what is no address, or is not written as recorders write it, is no item. So no two callers have one item.
func TestAddressesAreCanonical(t *testing.T) {
	for id, want := range map[string]bool{
		"192.0.2.7": true, "2001:db8::": true, "::1": true, "0.0.0.0": true,
		"": false, "192.0.2.07": false, "192.0.2.7 ": false, "192.0.2.0/24": false, "2001:DB8::": false, "2001:db8:0:0::": false,
		"::ffff:192.0.2.7": false, "fe80::1%eth0": false, "localhost": false, "192.0.2.7\n": false, "\x00": false,
	} {
		if addr, ok := addressOf(schemas.Caller{Kind: schemas.KindIP, ID: id}); ok != want || ok && addr.String() != id {
			t.Errorf("%q: got %v and %t, want %t", id, addr, ok, want)
		}
		if _, ok := addressOf(schemas.Caller{Kind: "key", ID: id}); ok {
			t.Errorf("key %q: got an address", id)
		}
	}
}

// TestRuleFilters: words are parts of names, in any case.
func TestRuleFilters(t *testing.T) {
	for _, test := range []struct {
		containing, without, rule string
		want                      bool
	}{
		{"", "", "per-ip", true},
		{"ip", "", "per-IP", true},
		{"IP,route", "", "per-route", true},
		{"key", "", "per-ip", false},
		{"", "ip", "per-ip", false},
		{"", "IP , route", "per-key", true},
		{"per", "ip", "per-ip", false},
		{" , ,", ",", "per-ip", true},
	} {
		f := ruleFilter{containing: words(test.containing), without: words(test.without)}
		if got := f.pass(test.rule); got != test.want {
			t.Errorf("%+v: got %t", test, got)
		}
		if (ruleFilter{nothing: true}).pass(test.rule) {
			t.Errorf("%s: got that it passes where nothing does", test.rule)
		}
	}
	a := ruleFilter{containing: words("b,a,a")}
	if b := (ruleFilter{containing: words("A, b")}); a.key() != b.key() {
		t.Errorf("got keys %q and %q, want one for one filter", a.key(), b.key())
	}
	if b := (ruleFilter{without: words("a,b")}); a.key() == b.key() {
		t.Errorf("got key %q for two filters", a.key())
	}
}
