package rules

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/schemas"
)

func TestOverridesGoExactBeforeLongestPrefix(t *testing.T) {
	r := one(t, `callers: ip, overrides: {203.0.113.9: 1, 203.0.113.0/24: 2, 203.0.0.0/16: unlimited, 0.0.0.0/0: 4,
      "2001:db8::/32": 5, "2001:db8:1::/48": 6, "2001:db8::1": 7, "2001:0DB8:2:0::0001": 8, "::ffff:192.0.2.0/120": 9, 198.51.100.1/32: 11}`)
	tests := map[string]string{
		"203.0.113.9": "1", "203.0.113.8": "2", "203.0.114.9": "unlimited", "8.8.8.8": "4", "192.0.2.7": "9", "198.51.100.1": "11",
		"2001:db8::1": "7", "2001:db8::2": "5", "2001:db8:1::2": "6", "2001:db8:2::1": "8", "2a00::1": "10", "::1": "10",
		"not an address": "10", "": "10",
	}
	for id, want := range tests {
		limit, unlimited := r.LimitFor(id)
		got := fmt.Sprint(limit)
		if unlimited {
			got = "unlimited"
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", id, got, want)
		}
	}
}

// People are told which line of the file gives a caller its limit.
func TestAnOverrideNamesWhatItIsWrittenFor(t *testing.T) {
	r := one(t, `callers: ip, overrides: {203.0.113.9: 1, 203.0.113.0/24: 2, "2001:db8::/32": unlimited, "2001:db8::1": 7}`)
	for id, want := range map[string]string{
		"203.0.113.9": "203.0.113.9 true", "203.0.113.8": "203.0.113.0/24 false", "2001:db8::2": "2001:db8::/32 false",
		"2001:db8::1": "2001:db8::1 true", "203.0.114.1": "none", "no address": "none", "": "none",
	} {
		got := "none"
		if of, exact, ok := r.Override(id); ok {
			got = fmt.Sprint(of, " ", exact)
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", id, got, want)
		}
	}
	if of, _, ok := one(t, "callers: ip").Override("203.0.113.9"); ok {
		t.Errorf("a rule without overrides: got %q", of)
	}
}

func TestOverridesOfOtherKindsAreIDs(t *testing.T) {
	r := one(t, `callers: key, overrides: {acme: 100, /v1/search: 200, 10.0.0.1: 300, 0x10: 400, "12": unlimited}`)
	for id, want := range map[string]int64{"acme": 100, "Acme": 10, "/v1/search": 200, "10.0.0.1": 300, "10.0.0.01": 10, "0x10": 400, "16": 10} {
		if got, unlimited := r.LimitFor(id); got != want || unlimited {
			t.Errorf("%s: got %d, %v, want %d", id, got, unlimited, want)
		}
	}
	if _, unlimited := r.LimitFor("12"); !unlimited {
		t.Error("12 is limited")
	}
}

// TestOverridesOfNetworks: of callers of kind net, an override names one, or a wider network, and the longest of these counts.
func TestOverridesOfNetworks(t *testing.T) {
	r := one(t, `callers: net, overrides: {203.0.113.0/24: 1, 203.0.0.0/16: 2, 0.0.0.0/0: 4, "2001:db8::/32": unlimited, "2001:db8:1::/48": 6}`)
	for id, want := range map[string]string{
		"203.0.113.0/24": "1 203.0.113.0/24 true", "203.0.114.0/24": "2 203.0.0.0/16 false", "8.8.8.0/24": "4 0.0.0.0/0 false",
		"2001:db8:1::/48": "6 2001:db8:1::/48 true", "2001:db8:2::/48": "unlimited 2001:db8::/32 false", "2a00::/48": "10  false", "no network": "10  false", "/": "10  false",
	} {
		limit, unlimited := r.LimitFor(id)
		of, exact, _ := r.Override(id)
		got := fmt.Sprint(limit, " ", of, " ", exact)
		if unlimited {
			got = fmt.Sprint("unlimited ", of, " ", exact)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", id, got, want)
		}
	}
	for written, want := range map[string]string{
		"net, overrides: {203.0.113.7/24: 1}":                `got "203.0.113.7/24", want 203.0.113.0/24, or a wider network`,
		"net, overrides: {203.0.113.0/25: 1}":                `want a network of 24 bits, such as 203.0.113.0/24, or a wider network`,
		"net, overrides: {203.0.113.9: 1}":                   "want the network of this address: 203.0.113.0/24, or a wider",
		"net, overrides: {203.0.1.0/16: 1}":                  "want a network of 24 bits",
		"net, overrides: {203.0.0.0/16: 1, 203.0.0.0/16: 2}": "twice",
		"asn, overrides: {AS64500: 1, as64500: 2}":           "given twice",
		"asn, overrides: {hoster: 1}":                        `got "hoster", want AS and the number of an autonomous system`,
		"key, overrides: {203.0.113.0/24: 1}":                "only callers of kinds ip and net have networks",
	} {
		if _, err := Parse("r", []byte("version: 1\nrules: [{name: r, limit: 10, window: 1m, callers: "+written+"}]\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", written, err, want)
		}
	}
	if limit, _ := one(t, "callers: asn, overrides: {64500: 7}").LimitFor("AS64500"); limit != 7 {
		t.Errorf("got the limit %d of AS64500, want 7", limit)
	}
}

// crowdsec 3656: an allow-listed caller was still blocked, because it was written in another way.
func TestAnAllowedCallerIsAllowedHoweverItIsWritten(t *testing.T) {
	for _, written := range []string{"2001:db8::1", "2001:DB8:0:0::1", "2001:db8::1%eth0", "2001:db8::0.0.0.1"} {
		r := one(t, fmt.Sprintf("callers: ip, overrides: {%q: unlimited}", written))
		caller, err := schemas.ParseCaller("ip:2001:db8:0::1")
		if err != nil {
			t.Fatal(err)
		}
		if _, unlimited := r.LimitFor(caller.ID); !unlimited {
			t.Errorf("%s written as %s is limited", caller, written)
		}
	}
}

// CVE-2026-30827: a mask over ::ffff:x put all of IPv4 into one bucket.
func TestANetworkOfIPv6HoldsNoIPv4(t *testing.T) {
	r := one(t, `callers: ip, overrides: {"::/0": unlimited, "::/64": unlimited}`)
	for _, id := range []string{"203.0.113.9", "0.0.0.0", "::ffff:203.0.113.9"} {
		if limit, unlimited := r.LimitFor(id); limit != 10 || unlimited {
			t.Errorf("%s: got %d, %v, want 10", id, limit, unlimited)
		}
	}
	if _, unlimited := r.LimitFor("2001:db8::1"); !unlimited {
		t.Error("2001:db8::1 is limited")
	}
}

func TestLongestPrefixAgainstALinearSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		addr := func(name string) netip.Addr {
			if rapid.Bool().Draw(t, name+" is IPv4") {
				return netip.AddrFrom4([4]byte{10, byte(rapid.IntRange(0, 3).Draw(t, name)), byte(rapid.IntRange(0, 255).Draw(t, name)), 1})
			}
			return netip.AddrFrom16([16]byte{0x20, byte(rapid.IntRange(0, 3).Draw(t, name)), 15: byte(rapid.IntRange(0, 3).Draw(t, name))})
		}
		var o overrides
		var linear []netip.Prefix
		for i := range rapid.IntRange(0, 20).Draw(t, "networks") {
			a := addr("network")
			network := netip.PrefixFrom(a, rapid.IntRange(0, a.BitLen()).Draw(t, "bits")).Masked()
			if o.addNetwork(network, override{limit: int64(i + 1)}) {
				linear = append(linear, network)
			}
		}
		id := addr("caller")
		best := netip.Prefix{}
		for _, network := range linear {
			if network.Contains(id) && (!best.IsValid() || network.Bits() > best.Bits()) {
				best = network
			}
		}
		got, ok := o.find(id.String())
		if ok != best.IsValid() {
			t.Fatalf("%v: got %v, want %v", id, ok, best)
		}
		want := override{}
		switch {
		case best.IsValid() && best.IsSingleIP():
			want = o.exact[best.Addr().String()]
		case best.IsValid():
			want, _ = o.networks.Get(best)
		}
		if got != want {
			t.Fatalf("%v: got %+v, want %+v of %v", id, got, want, best)
		}
	})
}

func BenchmarkLimitFor(b *testing.B) {
	const head = "version: 1\nrules: [{name: r, callers: ip, limit: 10, window: 1m, overrides: {"
	for name, overrides := range map[string]string{
		"none": "", "exact": "203.0.113.9: 5", "networks": "203.0.113.0/24: 5, 203.0.0.0/16: 6, 10.0.0.0/8: 7",
	} {
		b.Run(name, func(b *testing.B) {
			s, err := Parse("r", []byte(head+overrides+"}}]"))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				s.Rules[0].LimitFor("198.51.100.77")
			}
		})
	}
}

// An override of a long id is for the callers that have it, in clear or as it is shown: of the form of another's id there is
// no other way to write it.
func TestAnOverrideOfALongIDFindsItsCaller(t *testing.T) {
	long := strings.Repeat("é", 200)
	for _, written := range []string{long, schemas.ID(strings.Repeat("k", 300))} {
		r := one(t, `callers: key, overrides: {"`+written+`": 7}`)
		counted := written
		if !schemas.Hashed(written) {
			counted = schemas.ID(written)
		}
		if got, _ := r.LimitFor(counted); got != 7 {
			t.Errorf("%q: got a limit of %d, want the override's", counted, got)
		}
		if got, _ := r.LimitFor(schemas.ID(counted)); got == 7 {
			t.Errorf("%q: got the override's limit for who sends the form of its caller", counted)
		}
	}
}
