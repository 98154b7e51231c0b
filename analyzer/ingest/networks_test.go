package ingest

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

// systemOf is schemas.IDs.ASN of one hoster.
func systemOf(addr netip.Addr) string {
	if netip.MustParsePrefix("203.0.113.0/24").Contains(addr) {
		return "AS64500"
	}
	return ""
}

// TestNetworksOfLines: callers of kinds net and asn, and parts of composite ones, are made of the client behind trusted proxies.
func TestNetworksOfLines(t *testing.T) {
	m := Mapping{
		Callers: callers(t, "ip=client", "net=net", "asn=asn", "net_route=net+resource", "asn_route=asn+resource"), OnlyCallers: true,
		Client:   Client{Address: "peer", Forwarded: "xff", Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		Resource: "path", IDs: schemas.IDs{ASN: systemOf},
	}
	s, l := scanner(t, "json", m), roomy()
	for _, c := range []struct{ peer, xff, want string }{
		{"203.0.113.9", "", "ok 203.0.113.9 203.0.113.0/24 AS64500 203.0.113.0/24|/a AS64500|/a"},
		{"203.0.113.9", "198.51.100.1", "ok 203.0.113.9 203.0.113.0/24 AS64500 203.0.113.0/24|/a AS64500|/a"},
		{"10.1.2.3", "198.51.100.1, 203.0.113.9", "ok 203.0.113.9 203.0.113.0/24 AS64500 203.0.113.0/24|/a AS64500|/a"},
		{"::ffff:203.0.113.9", "", "ok 203.0.113.9 203.0.113.0/24 AS64500 203.0.113.0/24|/a AS64500|/a"},
		{"198.51.100.7", "", "ok 198.51.100.7 198.51.100.0/24  198.51.100.0/24|/a "},
		{"2001:db8:1:2::9", "", "ok 2001:db8:1:2:: 2001:db8:1::/48  2001:db8:1::/48|/a "},
		{"h.example", "", "client address"},
	} {
		line := fmt.Sprintf(`{"time":"2026-03-14T09:00:00Z","peer":%q,"xff":%q,"path":"/a"}`, c.peer, c.xff)
		got := Scan(s, []byte(line), l).String()
		if got == "ok" {
			got += " " + strings.Join(l.IDs, " ")
		}
		if got != c.want {
			t.Errorf("%s, %s: got %q, want %q", c.peer, c.xff, got, c.want)
		}
	}
	line := []byte(`{"time":1,"peer":"203.0.113.9","path":"/a"}`)
	if n := testing.AllocsPerRun(100, func() { Scan(s, line, l) }); n > 0 {
		t.Errorf("got %v allocations a line, want none", n)
	}
}

// TestNetworksOfFields: a log that has the address, or the number of its system, in a field of its own.
func TestNetworksOfFields(t *testing.T) {
	s, l := scanner(t, "json", Mapping{Callers: callers(t, "net=addr", "asn=number")}), roomy()
	for line, want := range map[string]string{
		`{"time":1,"addr":"203.0.113.9:80","number":64500}`:  "ok 203.0.113.0/24 AS64500",
		`{"time":1,"addr":"2001:db8:1:2::9"}`:                "ok 2001:db8:1::/48 ",
		`{"time":1,"addr":"203.0.113.9","number":"as64500"}`: "ok 203.0.113.0/24 AS64500",
		`{"time":1,"number":"hoster"}`:                       "client address",
		`{"time":1,"addr":"203.0.113.0/24"}`:                 "client address",
	} {
		got := Scan(s, []byte(line), l).String()
		if got == "ok" {
			got += " " + strings.Join(l.IDs, " ")
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	l = roomy()
	if s := scanner(t, "combined", Mapping{Callers: callers(t, "net=client", "asn=ip"), IDs: schemas.IDs{ASN: systemOf}}); Scan(s, []byte(benchCombined), l) != OK ||
		l.IDs[1] != "83.149.9.0/24" || l.IDs[2] != "" {
		t.Errorf("got %q, want the network of the client", l.IDs)
	}
}

func TestNetworksThatCannotBeMade(t *testing.T) {
	for text, want := range map[string]string{
		"asn=asn":       "want --asn-file; {asn|asn} is a field asn of the log",
		"net=net+agent": "callers net: these are networks of addresses: want one field",
		"net=nets":      `got field "nets", want one of`,
	} {
		if _, err := NewFormat("combined", Mapping{Callers: callers(t, text)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
