package gatehttp

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
)

// Package internal/front tests which content of the field is accepted, and which proxies are trusted.
func TestClientAddrReadsTheConnectionAndTheField(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, p := range []struct {
		name, peer string
		header     http.Header
		want       string // "" is none
	}{
		{"direct", "203.0.113.9:80", http.Header{"X-Forwarded-For": {"198.51.100.1"}}, "203.0.113.9"},
		{"a proxy", "10.1.2.3:80", http.Header{"X-Forwarded-For": {"127.0.0.1, 198.51.100.1", "10.4.4.4"}}, "198.51.100.1"},
		{"a proxy, no header", "10.1.2.3:80", nil, "10.1.2.3"},
		{"another field", "10.1.2.3:80", http.Header{"Forwarded": {"for=198.51.100.1"}, "X-Real-Ip": {"198.51.100.2"}}, "10.1.2.3"},
		{"a Unix socket", "@", nil, "127.0.0.1"},
		{"an unreadable peer", "pipe", http.Header{"X-Forwarded-For": {"198.51.100.1"}}, ""},
	} {
		t.Run(p.name, func(t *testing.T) {
			r := &http.Request{RemoteAddr: p.peer, Header: p.header}
			if got := IP(gate.New(gate.Options{IDs: schemas.IDs{IPv6Prefix: 128}}), trusted)(r); got != p.want {
				t.Errorf("IP: got %q, want %q", got, p.want)
			}
			got := ClientAddr(trusted)(r)
			if p.want == "" && got.IsValid() || p.want != "" && got != netip.MustParseAddr(p.want) {
				t.Errorf("got %v, want %q", got, p.want)
			}
		})
	}
}

func TestClientAddrDoesNotAllocate(t *testing.T) {
	addr := ClientAddr([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	r := &http.Request{RemoteAddr: "10.1.2.3:80", Header: http.Header{"X-Forwarded-For": {"198.51.100.1, 10.9.9.9"}}}
	if n := testing.AllocsPerRun(100, func() { addr(r) }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
