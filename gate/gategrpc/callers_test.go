package gategrpc_test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gategrpc"
	"github.com/509da70d/floodgate/gate/gatetest"
	"github.com/509da70d/floodgate/schemas"
)

var trusted = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8")}

func TestCallersOfCallsOverTheWire(t *testing.T) {
	proxy := &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 80}
	set := gate.New(gate.Options{IDs: schemas.IDs{ASN: func(addr netip.Addr) string { return "AS of " + addr.String() }}})
	long := strings.Repeat("k", schemas.MaxCallerID+1)
	for _, p := range []struct {
		name string
		from net.Addr
		send []string // metadata: keys and values in turn
		f    gategrpc.CallerFunc
		want string
	}{
		{"the peer", home, nil, gategrpc.ClientIP(nil), "ip:192.0.2.1"},
		{"the peer, forging", home, []string{"x-forwarded-for", "198.51.100.1"}, gategrpc.ClientIP(trusted), "ip:192.0.2.1"},
		{"IPv6", &net.TCPAddr{IP: net.ParseIP("2001:db8::9"), Port: 80}, nil, gategrpc.ClientIP(nil), "ip:2001:db8::"},
		{"behind a proxy", proxy, []string{"x-forwarded-for", "198.51.100.1"}, gategrpc.ClientIP(trusted), "ip:198.51.100.1"},
		{"behind two, forging", proxy, []string{"x-forwarded-for", "127.0.0.1, 198.51.100.1", "X-Forwarded-For", "10.9.9.9"}, gategrpc.ClientIP(trusted), "ip:198.51.100.1"},
		{"behind one that does not tell", proxy, nil, gategrpc.ClientIP(trusted), "ip:10.1.2.3"},
		{"behind one on a Unix socket", &net.UnixAddr{Name: "@"}, []string{"x-forwarded-for", "198.51.100.1"}, gategrpc.ClientIP(trusted), "ip:198.51.100.1"},
		{"a peer without an address", (&net.TCPAddr{}), nil, gategrpc.ClientIP(nil), ""},
		{"metadata", home, []string{"x-api-key", " abc  ", "x-api-key", "second"}, gategrpc.Metadata("key", "X-Api-Key"), "key:abc"},
		{"binary metadata", home, []string{"x-token-bin", "\x01\xff"}, gategrpc.Metadata("key", "x-token-bin"), "key:\x01\xff"},
		{"no metadata", home, nil, gategrpc.Metadata("key", "x-api-key"), ""},
		{"blank metadata", home, []string{"x-api-key", " "}, gategrpc.Metadata("key", "x-api-key"), ""},
		{"long metadata", home, []string{"x-api-key", long}, gategrpc.Metadata("key", "x-api-key"), "key:" + schemas.ID(long)},
		{"the host", home, nil, gategrpc.Metadata("host", ":authority"), "host:bufconn"},
		{"custom", home, nil, gategrpc.Custom("method", gategrpc.Method), "method:" + unary},
		{"composite", home, nil, gategrpc.Composite("ip_method", gategrpc.IP(set, nil), gategrpc.Method), "ip_method:192.0.2.1|" + unary},
		{"a network", proxy, []string{"x-forwarded-for", "203.0.113.9, 198.51.100.1"}, gategrpc.ClientNet(trusted), "net:198.51.100.0/24"},
		{"a system", proxy, []string{"x-forwarded-for", "203.0.113.9, 198.51.100.1"}, gategrpc.ClientASN(trusted), "asn:AS of 198.51.100.1"},
		{"a network and a method", home, nil, gategrpc.Composite("net_method", gategrpc.Net(set, nil), gategrpc.Method), "net_method:192.0.2.0/24|" + unary},
		{"composite without a part", home, nil, gategrpc.Composite("ip_key", gategrpc.IP(set, nil), gategrpc.MetadataValue("x-api-key")), ""},
		{"composite that could be another's", home, []string{"x-api-key", "a|b"},
			gategrpc.Composite("key_method", gategrpc.MetadataValue("x-api-key"), gategrpc.Method), "key_method:~0eab8a0a3380abf4c7d1fb0b43b66aaf|" + unary},
	} {
		t.Run(p.name, func(t *testing.T) {
			var rec arrivals
			client := serve(t, gategrpc.Options{Set: set, Recorder: &rec, Callers: []gategrpc.CallerFunc{p.f}}, p.from, &service{})
			if _, err := client.UnaryCall(metadata.AppendToOutgoingContext(t.Context(), p.send...), &pb.SimpleRequest{}); err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, e := range rec.Events() {
				got += e.Caller.String()
			}
			if got != p.want {
				t.Errorf("got %q, want %q", got, p.want)
			}
		})
	}
}

func TestACompositeClosesOneMethodForOneAddress(t *testing.T) {
	set := gatetest.Set(t, gatetest.Close("ip_method:192.0.2.1|"+unary, time.Minute))
	client := serve(t, gategrpc.Options{Set: set, Callers: []gategrpc.CallerFunc{
		gategrpc.Composite("ip_method", gategrpc.IP(set, nil), gategrpc.Method),
	}}, home, &service{})
	if _, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, want the method refused", err)
	}
	if _, err := client.EmptyCall(t.Context(), &pb.Empty{}); err != nil {
		t.Errorf("got %v, want the other method admitted", err)
	}
}

// incoming is the context of a call from 10.1.2.3.
func incoming(kv ...string) context.Context {
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 80}})
	return metadata.NewIncomingContext(ctx, metadata.Pairs(kv...))
}

func TestNoPeerIsNoAddress(t *testing.T) {
	for name, ctx := range map[string]context.Context{
		"no peer": context.Background(), "a peer without an address": peer.NewContext(context.Background(), &peer.Peer{}),
	} {
		if got := gategrpc.ClientAddr(trusted)(ctx); got.IsValid() {
			t.Errorf("%s: got %v, want none", name, got)
		}
		if got := gategrpc.IP(gatetest.Set(t), trusted)(ctx, unary); got != "" {
			t.Errorf("%s: got %q, want none", name, got)
		}
	}
}

// What it costs to find callers: nothing for the peer, and grpc's copy of the values for metadata.
func TestFindingCallersAllocatesWhatMetadataDoes(t *testing.T) {
	set := gatetest.Set(t, gatetest.Close("key:other", time.Hour))
	ctx := incoming("x-api-key", "abc", "x-forwarded-for", "198.51.100.1")
	c := new(gate.Callers)
	for _, p := range []struct {
		name string
		f    gategrpc.CallerFunc
		want float64
	}{
		{"the peer", gategrpc.ClientIP(nil), 0},
		{"behind a proxy", gategrpc.ClientIP(trusted), 1},
		{"metadata", gategrpc.Metadata("key", "x-api-key"), 1},
	} {
		add := p.f(set)
		if n := testing.AllocsPerRun(100, func() {
			c.Reset()
			add(ctx, unary, c)
		}); n > p.want || c.Len() != 1 {
			t.Errorf("%s: got %v allocations and %d callers, want %v and 1", p.name, n, c.Len(), p.want)
		}
	}
}
