package gatehttp_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gatetest"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// systems is schemas.IDs.ASN of one hoster, which allocates nothing.
func systems(addr netip.Addr) string {
	if addr.Is4() && addr.As4()[0] == 203 {
		return "AS64500"
	}
	return ""
}

// networked are the callers that are made of an address.
func networked(set *gate.Set, trusted []netip.Prefix) []gatehttp.CallerFunc {
	return []gatehttp.CallerFunc{
		gatehttp.ClientIP(trusted), gatehttp.ClientNet(trusted), gatehttp.ClientASN(trusted),
		gatehttp.Composite("net_route", gatehttp.Net(set, trusted), gatehttp.Route), gatehttp.Composite("asn_route", gatehttp.ASN(set, trusted), gatehttp.Route),
	}
}

// TestNetworksOfRequests: whoever forges X-Forwarded-For is in the network that a connection comes from.
func TestNetworksOfRequests(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	set := gate.New(gate.Options{IDs: schemas.IDs{ASN: systems}})
	for _, p := range []struct{ name, peer, forwarded, want string }{
		{"direct", "203.0.113.9:80", "", "ip:203.0.113.9 net:203.0.113.0/24 asn:AS64500 net_route:203.0.113.0/24|GET /items/{id} asn_route:AS64500|GET /items/{id} "},
		{"forged", "203.0.113.9:80", "198.51.100.1", "ip:203.0.113.9 net:203.0.113.0/24 asn:AS64500 net_route:203.0.113.0/24|GET /items/{id} asn_route:AS64500|GET /items/{id} "},
		{"in no system", "198.51.100.7:80", "203.0.113.9", "ip:198.51.100.7 net:198.51.100.0/24 net_route:198.51.100.0/24|GET /items/{id} "},
		{"behind a proxy, forging", "10.1.2.3:80", "198.51.100.1, 203.0.113.9", "ip:203.0.113.9 net:203.0.113.0/24 asn:AS64500 net_route:203.0.113.0/24|GET /items/{id} asn_route:AS64500|GET /items/{id} "},
		{"mapped", "[::ffff:203.0.113.9]:80", "", "ip:203.0.113.9 net:203.0.113.0/24 asn:AS64500 net_route:203.0.113.0/24|GET /items/{id} asn_route:AS64500|GET /items/{id} "},
		{"IPv6", "[2001:db8:1:2::9]:80", "", "ip:2001:db8:1:2:: net:2001:db8:1::/48 net_route:2001:db8:1::/48|GET /items/{id} "},
		{"no address", "pipe", "203.0.113.9", ""},
	} {
		t.Run(p.name, func(t *testing.T) {
			var rec arrivals
			r := httptest.NewRequest(http.MethodGet, "/items/1", nil)
			r.RemoteAddr = p.peer
			if p.forwarded != "" {
				r.Header.Set("X-Forwarded-For", p.forwarded)
			}
			gatehttp.New(gatehttp.Options{Set: set, Recorder: &rec, Callers: networked(set, trusted)})(shop()).ServeHTTP(httptest.NewRecorder(), r)
			got := ""
			for _, e := range rec.Events() {
				got += e.Caller.String() + " "
			}
			if got != p.want {
				t.Errorf("got  %s\nwant %s", got, p.want)
			}
		})
	}
}

// TestAClosedNetworkIsRefused, and the network beside it is not.
func TestAClosedNetworkIsRefused(t *testing.T) {
	set := gatetest.Set(t, gatetest.Close("net:192.0.2.0/24", time.Minute))
	h := gatehttp.New(gatehttp.Options{Set: set, Callers: []gatehttp.CallerFunc{gatehttp.ClientIP(nil), gatehttp.ClientNet(nil)}})(shop())
	if w := get(h, http.MethodGet, "/items/1", ""); w.Code != http.StatusTooManyRequests {
		t.Errorf("got %d, want 429", w.Code)
	}
	r := httptest.NewRequest(http.MethodGet, "/items/1", nil)
	r.RemoteAddr = "192.0.3.1:80"
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Errorf("got %d, want 200", w.Code)
	}
}

// TestWhatIsRecordedOfANetwork is its text, though requests make none.
func TestWhatIsRecordedOfANetwork(t *testing.T) {
	set := gate.New(gate.Options{})
	rec := record.New(record.Options{})
	var c gate.Callers
	for _, addr := range []string{"203.0.113.9", "203.0.113.10", "2001:db8:1:2::9"} {
		c.Reset()
		c.AddAddr(set.Gate(schemas.KindNet), netip.MustParseAddr(addr))
		c.AddAddr(set.Gate(schemas.KindIP), netip.MustParseAddr(addr))
		rec.Record(&c, gate.Verdict{}, record.Request{At: time.Unix(1, 0)})
	}
	got := make(map[string]uint32)
	rec.Drain(func(_ uint64, e *schemas.Entry) { got[e.Kind+":"+e.ID] += e.Count })
	if len(got) != 5 || got["net:203.0.113.0/24"] != 2 || got["net:2001:db8:1::/48"] != 1 || got["ip:203.0.113.10"] != 1 {
		t.Errorf("got %v, want two requests of 203.0.113.0/24, and one of 2001:db8:1::/48", got)
	}
}

func TestNetworksAddNoAllocation(t *testing.T) {
	set := gate.New(gate.Options{IDs: schemas.IDs{ASN: systems}})
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	h := gatehttp.New(gatehttp.Options{
		Set: set, Recorder: record.New(record.Options{}), Callers: networked(set, nil)[:3],
	})(next)
	r := httptest.NewRequest(http.MethodGet, "/items/1", nil)
	r.RemoteAddr = "203.0.113.9:80"
	w := httptest.NewRecorder()
	if n := testing.AllocsPerRun(1000, func() { h.ServeHTTP(w, r) }); n > 0.5 { // the pool may be emptied meanwhile
		t.Errorf("got %v allocations a request, want 0", n)
	}
}

// BenchmarkNetworks measures what callers of kinds net and asn cost a request more, with the look-up of systems in BenchmarkID of package
// schemas/asn.
func BenchmarkNetworks(b *testing.B) {
	set := gate.New(gate.Options{IDs: schemas.IDs{ASN: systems}})
	now := time.Now()
	set.ApplyAt(now, []schemas.Decision{{
		Rule: "r", Mode: schemas.ModeEnforce, Caller: schemas.Caller{Kind: schemas.KindIP, ID: "192.0.2.7"}, CloseAt: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(),
	}})
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, p := range []struct {
		name     string
		recorder gatehttp.Recorder
		callers  []gatehttp.CallerFunc
	}{
		{"ip", nil, []gatehttp.CallerFunc{gatehttp.ClientIP(nil)}},
		{"ip, net", nil, []gatehttp.CallerFunc{gatehttp.ClientIP(nil), gatehttp.ClientNet(nil)}},
		{"ip, asn", nil, []gatehttp.CallerFunc{gatehttp.ClientIP(nil), gatehttp.ClientASN(nil)}},
		{"recorded/ip", record.New(record.Options{}), []gatehttp.CallerFunc{gatehttp.ClientIP(nil)}},
		{"recorded/ip, net", record.New(record.Options{}), []gatehttp.CallerFunc{gatehttp.ClientIP(nil), gatehttp.ClientNet(nil)}},
		{"recorded/ip, asn", record.New(record.Options{}), []gatehttp.CallerFunc{gatehttp.ClientIP(nil), gatehttp.ClientASN(nil)}},
	} {
		h := gatehttp.New(gatehttp.Options{Set: set, Recorder: p.recorder, Callers: p.callers})(next)
		b.Run(p.name, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodGet, "/items/1", nil)
			r.RemoteAddr = "203.0.113.9:51234"
			w := nowhere{make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}
