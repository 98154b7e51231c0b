package api

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// TestAnExplanationNamesTheNetworks that rules count, and of the systems those that the analyzer can look up.
func TestAnExplanationNamesTheNetworks(t *testing.T) {
	const route = `{"kind":"net_route","id":"203.0.113.0/24|GET /dear"}`
	const net, asn = `{"kind":"net","id":"203.0.113.0/24"}`, `{"kind":"asn","id":"AS64500"}`
	systems := func(addr netip.Addr) string {
		if addr.Is4() {
			return "AS64500"
		}
		return ""
	}
	for _, test := range []struct {
		kinds  string
		ids    schemas.IDs
		caller string
		want   string // "" is none
	}{
		{"ip net asn", schemas.IDs{ASN: systems}, "ip:203.0.113.9", "[" + net + "," + asn + "]"},
		{"ip net asn", schemas.IDs{}, "ip:203.0.113.9", "[" + net + "]"},
		{"ip asn", schemas.IDs{ASN: systems}, "ip:203.0.113.9", "[" + asn + "]"},
		{"ip", schemas.IDs{ASN: systems}, "ip:203.0.113.9", ""},
		{"net", schemas.IDs{ASN: systems}, "ip:2001:db8:1:2::9", `[{"kind":"net","id":"2001:db8:1::/48"}]`},
		{"net", schemas.IDs{IPv6Prefix: 40}, "ip:2001:db8:1:2::9", ""}, // which is 256 networks
		{"net_route asn_route net", schemas.IDs{}, "ip:203.0.113.9", "[" + route + "," + net + "]"},
		{"ip_route", schemas.IDs{}, "ip:203.0.113.9", ""},
		{"ip net asn", schemas.IDs{ASN: systems}, "key:203.0.113.9", ""},
		{"ip net asn", schemas.IDs{ASN: systems}, "net:203.0.113.0/24", ""},
	} {
		w := newWorld(t)
		text := "version: 1\nrules:\n"
		for kind := range strings.FieldsSeq(test.kinds) {
			text += "  - {name: " + kind + ", callers: " + kind + ", limit: 10, window: 1m, match: {resource: [GET /dear, GET /dear, POST /x*, /x]}}\n"
		}
		var err error
		if w.set, err = rules.Parse("rules", []byte(text)); err != nil {
			t.Fatal(err)
		}
		n := w.node(w.analyzer(0, 1, 2, 3), func(c *Config) { acting(c); c.IDs = test.ids })
		a := n.get("/v1/explain?caller=" + test.caller)
		a.want(t, http.StatusOK, "")
		if _, got, _ := strings.Cut(string(a.body), `"networks":`); strings.TrimSuffix(strings.TrimSpace(got), "}") != test.want {
			t.Errorf("%+v: got %q, want %q", test, got, test.want)
		}
	}
}
