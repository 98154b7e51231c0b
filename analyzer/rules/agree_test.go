package rules

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/document/documenttest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// choices are values for a field, good and bad ones.
func choices() map[string][]any {
	object := func(pairs ...any) map[string]any {
		m := make(map[string]any)
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i].(string)] = pairs[i+1]
		}
		return m
	}
	list := func(v ...any) []any { return v }
	return map[string][]any{
		"name":    {"r", "per-ip", "A.b_c-9", strings.Repeat("n", 64), strings.Repeat("n", 65), "", "-r", ".r", "ä", "a b", "a\n", 5, nil, list("r")},
		"callers": {"ip", "key", "ip_route", "key:free-*", "ip:10.*", "key:a/b", "ip:10.0.0.0/8", "ip:", "key:", "KEY", "", ":x", "a b", strings.Repeat("k", 33), "key:" + strings.Repeat("x", 257), "key:\n", 7, list("ip"), nil},
		"match": {object(), object("resource", "/a"), object("resource", list("/a", "*")), object("status", 401), object("status", list("5xx", 200)), object("resource", "/", "status", "1xx"),
			object("resource", ""), object("resource", list()), object("status", list()), object("status", 99), object("status", 600), object("status", "6xx"), object("status", "200"), object("status", 200.5), object("path", "/a"), "x", nil, list()},
		"limit":    {1, 10, 10_000, 10_001, int64(1e17), int64(1e17) + 1, 0, -1, 1.5, "10", true, nil, list(1)},
		"capacity": {1, 999, 1000, 50_000, int64(1e17), int64(1e17) + 1, 0, -1, 1.5, "10", true, nil, list(1)},
		"weights": {object(), object("a", 4, "192.0.2.1", 0.001), object("10.0.0.0/8", 1000), object("10.0.0.1/8", 5), object("a", 0.33333), object("a", 0), object("a", -1), object("a", 0.0009),
			object("a", 1000.001), object("a", "4"), object("a", "unlimited"), object("", 1), object("a", nil), list(), 5, nil},
		"protect":   {"0.1%", "10%", "010.0%", "0.125%", "9.999%", "00.1%", "0.099%", "10.001%", "0.1255%", ".5%", "1.%", "11%", "%", "1", "-1%", "+1%", "1e0%", "1 %", " 1%", "1%\n", "", 0.1, 1, nil, list("1%")},
		"window":    {"1m", "1ms", "7d", "2w", "1h30m", "1.5h", "hour", "day", "week", "month", "year", "366d", "367d", "0s", "1us", "-1m", "1", "m", "", "1mm", "1 m", "months", "Month", 60, nil, "9999999999h"},
		"algorithm": {"sliding", "fixed", "log", "gcra", "Sliding", "", "token", 1, nil},
		"slots":     {1, 20, 1000, 0, 1001, -1, "20", 2.5, nil},
		"burst":     {1, 100, int64(1e17), 0, -1, "1", nil},
		"timezone":  {"Europe/Berlin", "UTC", "Local", "", "Mars/Olympus", "../etc/passwd", 1, nil},
		"anchor":    {1, 15, 31, 0, 32, -1, "1", nil},
		"measure":   {"requests", "responses", "cost", "in_flight", "bytes", "", 1, nil},
		"charge":    {"end", "arrival", "Arrival", "", 1, nil},
		"hold": {object("estimate", 1), object("estimate", int64(1)<<40, "resources", object("/a", 1, "*", 2), "margin", 0.5, "longest", "24h"), object("longest", "10m"), object(),
			object("estimate", 0), object("estimate", 1.5), object("estimate", int64(1)<<40+1), object("estimate", 1, "margin", 5), object("estimate", 1, "margin", "2"), object("estimate", 1, "longest", "1s"),
			object("estimate", 1, "longest", 60), object("estimate", 1, "resources", list("/a")), object("estimate", 1, "resources", object("", 1)), object("estimate", 1, "resources", object("/a", 0)),
			object("estimate", 1, "resources", object(strings.Repeat("r", 1025), 1)), object("estimate", 1, "more", 1), 1000, nil},
		"count_blocked": {true, false, "true", 1, nil},
		"close_for":     {"30s", "1ms", "366d", "0s", "367d", "1us", 30, "", nil, "month"},
		"escalate": {object("max", "1h"), object("max", "1h", "factor", 1.5, "forget", "24h"), object("max", "1s"), object(), object("factor", 2), object("max", "1h", "factor", 0.5),
			object("max", "1h", "factor", 1001), object("max", 5), object("max", "1h", "more", 1), "2", nil},
		"mode":      {"enforce", "shadow", "off", "", true, nil},
		"predict":   {"off", "early", "shares", "Early", "on", "", false, 1, nil},
		"overrides": {object(), object("a", 5), object("192.0.2.1", "unlimited"), object("10.0.0.0/8", 5), object("10.0.0.1/8", 5), object("a", 0), object("a", "none"), object(strings.Repeat("i", 257), 1), object("", 1), object("a", nil), list(), 5, nil},
		"warn":      {0.8, list(0.5, 1), list(1, 0.5), list(0), 101, list(), "0.8", list(0.1, 0.1), nil, true},
	}
}

// onlyTheLoader is what a schema can't see: the lengths of durations, what fields mean together, addresses, zones.
var onlyTheLoader = regexp.MustCompile(strings.Join([]string{
	`^(window|close_for|max|forget|longest): got \S+, want \S+ to \S+$`, `^(window|close_for|max|forget): got "\d+h", want a duration`,
	`^window: got "9999999999h"`, `^window: got "\S+", want a duration from 1s to 1m with capacity`, `^close_for: got \S+, want a quarter`, `^max: got \S+, want at least close_for`, `^timezone: got "(Mars|\.\.)`, `^limit: got .* in .*, want at most one in`, `^burst: got .* refills`,
	`^overrides: got .* in .*, want at most one in`, `^(window|slots): got .*, want whole seconds`, `^(overrides|weights): got .*(first address|an address, or a network|only callers of kinds ip and net)`, `^warn: got .*rising`,
}, "|"))

// TestSchemaAndLoaderAgreeOnWhatNobodyWrote puts fields of a rule together.
func TestSchemaAndLoaderAgreeOnWhatNobodyWrote(t *testing.T) {
	for name, more := range map[string]map[string]any{
		"requests": {"window": "1m"}, "holds": {"window": "1m", "measure": "cost", "charge": "arrival", "hold": map[string]any{"estimate": 1000}},
		"in flight": {"measure": "in_flight", "hold": map[string]any{"longest": "1m"}}, "capacity": {"window": "1m", "capacity": 5000},
	} {
		t.Run(name, func(t *testing.T) {
			good := map[string]any{"name": "r", "callers": "ip", "limit": 10}
			if maps.Copy(good, more); more["capacity"] != nil {
				delete(good, "limit")
			}
			reader().Combinations(t, documenttest.Form{
				Pairs:   testenv.IsLong(),
				Good:    good,
				Choices: choices(),
				Within:  func(rule any) any { return map[string]any{"version": 1, "rules": []any{rule}} },
				Loader:  onlyTheLoader,
			})
		})
	}
}

// TestLimitForIsWhatAPersonWouldLookUp: overrides written in any of their forms, against a search through the list.
func TestLimitForIsWhatAPersonWouldLookUp(t *testing.T) {
	type line struct {
		network   netip.Prefix
		limit     int64
		unlimited bool
	}
	rapid.Check(t, func(t *rapid.T) {
		addr := func(name string) netip.Addr {
			low := byte(rapid.IntRange(0, 5).Draw(t, name+" low"))
			if rapid.Bool().Draw(t, name+" is IPv4") {
				return netip.AddrFrom4([4]byte{192, 0, byte(rapid.IntRange(1, 2).Draw(t, name+" high")), low})
			}
			return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 7: byte(rapid.IntRange(0, 1).Draw(t, name+" high")), 15: low})
		}
		var lines []line
		taken := make(map[netip.Prefix]bool)
		var b strings.Builder
		for range rapid.IntRange(0, 8).Draw(t, "overrides") {
			a := addr("override")
			bits := rapid.SampledFrom([]int{0, a.BitLen() / 4, a.BitLen() - 9, a.BitLen() - 2, a.BitLen(), a.BitLen()}).Draw(t, "bits")
			l := line{network: netip.PrefixFrom(a, bits).Masked(), limit: rapid.Int64Range(1, MaxLimit).Draw(t, "limit"), unlimited: rapid.Bool().Draw(t, "unlimited")}
			if taken[l.network] {
				continue
			}
			taken[l.network] = true
			lines = append(lines, l)
			value := fmt.Sprint(l.limit)
			if l.unlimited {
				value = "unlimited"
			}
			fmt.Fprintf(&b, "%q: %s, ", rapid.SampledFrom(spellings(l.network)).Draw(t, "spelling"), value)
		}
		s, err := Parse("r", fmt.Appendf(nil, "version: 1\nrules: [{name: r, callers: ip, limit: 77, window: 1m, overrides: {%s}}]\n", b.String()))
		if err != nil {
			t.Fatal(err)
		}
		id := addr("caller")
		want := line{limit: 77}
		best := -1
		for _, l := range lines {
			if l.network.Contains(id) && l.network.Bits() > best {
				best, want = l.network.Bits(), l
			}
		}
		limit, unlimited := s.Rules[0].LimitFor(id.String())
		if unlimited != want.unlimited || !unlimited && limit != want.limit {
			t.Fatalf("%v under {%s}: got %d, %v, want %+v", id, b.String(), limit, unlimited, want)
		}
	})
}

// spellings are ways to write one network or address.
func spellings(p netip.Prefix) []string {
	list := []string{p.String()}
	if p.Addr().Is4() {
		mapped := netip.AddrFrom16(p.Addr().As16())
		list = append(list, fmt.Sprintf("::ffff:%s/%d", p.Addr(), p.Bits()+96), fmt.Sprintf("%s/%d", mapped.StringExpanded(), p.Bits()+96))
	} else {
		list = append(list, fmt.Sprintf("%s/%d", p.Addr().StringExpanded(), p.Bits()), strings.ToUpper(p.String()))
	}
	if p.IsSingleIP() {
		list = append(list, p.Addr().String(), p.Addr().StringExpanded(), strings.ToUpper(p.Addr().String()))
	}
	return list
}

// The id that LimitFor is asked for is canonical, as entries carry it: whatever a server wrote, it is the same caller.
func TestCanonicalIDsFindTheirOverride(t *testing.T) {
	r := one(t, `callers: ip, overrides: {"192.0.2.7": 1, "2001:db8::7": 2}`)
	for written, want := range map[string]int64{
		"ip:192.0.2.7": 1, "ip:::ffff:192.0.2.7": 1, "ip:::FFFF:c000:207": 1, "ip:2001:DB8:0::0007": 2, "ip:2001:db8::7%eth1": 2, "ip:192.0.2.8": 10,
	} {
		c, err := schemas.ParseCaller(written)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := r.LimitFor(c.ID); got != want {
			t.Errorf("%s, that is %s: got limit %d, want %d", written, c, got, want)
		}
	}
}
