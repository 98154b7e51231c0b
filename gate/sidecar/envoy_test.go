package sidecar_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gatetest"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/gate/sidecar"
	"github.com/509da70d/floodgate/schemas"
)

// checkRequest is what Envoy asks about a request from an address.
func checkRequest(addr string, header map[string]string) *authv3.CheckRequest {
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: addr, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 4711}},
		}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: "GET", Path: "/v1/things?q=1", Host: "api.example", Headers: header,
		}},
	}}
}

func TestEnvoyAsksForAuthorization(t *testing.T) {
	s := newSidecar(t, nil, "ip:203.0.113.9", "ip:2001:db8::9", "key:spent")
	client := authv3.NewAuthorizationClient(dial(t, s))
	raw := checkRequest("192.0.2.1", nil)
	raw.GetAttributes().GetRequest().GetHttp().HeaderMap = &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
		{Key: ":path", RawValue: []byte("/")}, {Key: "x-api-key", RawValue: []byte("spent")},
	}}
	onPipe := checkRequest("", map[string]string{"x-forwarded-for": "203.0.113.9"})
	onPipe.Attributes.Source.Address = &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: "/run/x"}}}
	tests := []struct {
		name    string
		ask     *authv3.CheckRequest
		refused bool
	}{
		{"a closed address", checkRequest("203.0.113.9", nil), true},
		{"another", checkRequest("203.0.113.10", nil), false},
		{"a closed address of six", checkRequest("2001:db8::9", nil), true},
		{"a closed address behind a proxy that is trusted", checkRequest("127.0.0.1", map[string]string{"x-forwarded-for": "203.0.113.9"}), true},
		{"and behind one on a pipe", onPipe, true},
		{"but behind a stranger", checkRequest("198.51.100.1", map[string]string{"x-forwarded-for": "203.0.113.9"}), false},
		{"a closed key", checkRequest("192.0.2.1", map[string]string{":authority": "api.example", "x-api-key": "spent"}), true},
		{"a closed key in raw headers", raw, true},
		{"nothing", &authv3.CheckRequest{}, false},
		{"an address that is none", checkRequest("localhost", nil), false},
		{"a header that is no header", checkRequest("192.0.2.1", map[string]string{"": "", ":": "x", "x-api-key\n": "spent"}), false},
	}
	var want sidecar.Answers
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := client.Check(t.Context(), test.ask)
			if err != nil {
				t.Fatal(err)
			}
			want.Asked++
			if !test.refused {
				if got.GetStatus().GetCode() != int32(codes.OK) || got.GetOkResponse() == nil {
					t.Errorf("got %v, want it to pass", got)
				}
				return
			}
			want.Refused++
			denied := got.GetDeniedResponse()
			if got.GetStatus().GetCode() != int32(codes.PermissionDenied) || denied.GetStatus().GetCode() != 429 {
				t.Errorf("got %v, want 429", got)
			}
			fields := make(map[string]string)
			for _, f := range denied.GetHeaders() {
				fields[f.GetHeader().GetKey()] = f.GetHeader().GetValue()
			}
			if fields["Retry-After"] != "60" || !strings.Contains(fields["Ratelimit"], gatetest.Rule) {
				t.Errorf("got %v, want Retry-After and the rule", fields)
			}
		})
	}
	if got := s.Stats().Authz; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// descriptor makes one of keys and values, by turns.
func descriptor(words ...string) *descriptorv3.RateLimitDescriptor {
	d := new(descriptorv3.RateLimitDescriptor)
	for i := 0; i < len(words); i += 2 {
		d.Entries = append(d.Entries, &descriptorv3.RateLimitDescriptor_Entry{Key: words[i], Value: words[i+1]})
	}
	return d
}

func TestEnvoyAsksForRateLimits(t *testing.T) {
	s := newSidecar(t, nil, "ip:203.0.113.9", "tenant:acme", "ip_path:203.0.113.10|/search")
	client := ratelimitv3.NewRateLimitServiceClient(dial(t, s))
	tests := []struct {
		name        string
		descriptors []*descriptorv3.RateLimitDescriptor
		over        string // a letter for each descriptor: x is over, . is not
		ignored     uint64
	}{
		{"nothing", nil, "", 0},
		{"a closed address", []*descriptorv3.RateLimitDescriptor{descriptor("remote_address", "203.0.113.9")}, "x", 0},
		{"the same in IPv6's words", []*descriptorv3.RateLimitDescriptor{descriptor("remote_address", "::ffff:203.0.113.9")}, "x", 0},
		{"another", []*descriptorv3.RateLimitDescriptor{descriptor("remote_address", "203.0.113.10")}, ".", 0},
		{"one of several", []*descriptorv3.RateLimitDescriptor{descriptor("remote_address", "203.0.113.10"), descriptor("tenant", "acme"), descriptor("tenant", "other")}, ".x.", 0},
		{"a composite", []*descriptorv3.RateLimitDescriptor{descriptor("remote_address", "203.0.113.10", "path", "/search"), descriptor("remote_address", "203.0.113.10", "path", "/")}, "x.", 0},
		{"in another order", []*descriptorv3.RateLimitDescriptor{descriptor("path", "/search", "remote_address", "203.0.113.10")}, ".", 0},
		{"a value that imitates a composite", []*descriptorv3.RateLimitDescriptor{descriptor("remote_address", "203.0.113.10|/search", "path", "x")}, ".", 0},
		{"no entries, no value, no key, a bad key", []*descriptorv3.RateLimitDescriptor{descriptor(), descriptor("tenant", ""), descriptor("", "x"), descriptor("API key", "x")}, "....", 4},
		{"a value that is too long", []*descriptorv3.RateLimitDescriptor{descriptor("tenant", strings.Repeat("x", schemas.MaxCallerID+1))}, ".", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := s.Stats()
			got, err := client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Domain: "any", Descriptors: test.descriptors})
			if err != nil {
				t.Fatal(err)
			}
			over := ""
			for _, st := range got.GetStatuses() {
				switch {
				case st.GetCode() == ratelimitv3.RateLimitResponse_OVER_LIMIT && st.GetDurationUntilReset().AsDuration() > 59*time.Second:
					over += "x"
				case st.GetCode() == ratelimitv3.RateLimitResponse_OK:
					over += "."
				}
			}
			refused := strings.Contains(test.over, "x")
			if over != test.over || (got.GetOverallCode() == ratelimitv3.RateLimitResponse_OVER_LIMIT) != refused {
				t.Errorf("got %q and %v, want %q", over, got.GetOverallCode(), test.over)
			}
			if fields := got.GetResponseHeadersToAdd(); (len(fields) == 1 && fields[0].GetKey() == "Retry-After" && fields[0].GetValue() == "60") != refused {
				t.Errorf("got %v, want Retry-After with refusals alone", fields)
			}
			after := s.Stats()
			if after.RateLimit.Asked != before.RateLimit.Asked+1 || after.Descriptors-before.Descriptors != test.ignored {
				t.Errorf("got %+v after %+v, want one question more and %d descriptors without a caller", after, before, test.ignored)
			}
		})
	}
}

// Envoy's hits are requests: as many as it says, for those whose gate is open, or for those whose own gate refused.
func TestHitsAreRecorded(t *testing.T) {
	rec := record.New(record.Options{})
	s := newSidecar(t, rec, "tenant:spent")
	client := ratelimitv3.NewRateLimitServiceClient(dial(t, s))
	ask := func(hits uint32, descriptors ...*descriptorv3.RateLimitDescriptor) {
		t.Helper()
		if _, err := client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{HitsAddend: hits, Descriptors: descriptors}); err != nil {
			t.Fatal(err)
		}
	}
	own := descriptor("tenant", "own")
	own.HitsAddend = wrapperspb.UInt64(5)
	peek := descriptor("tenant", "peek")
	peek.HitsAddend = wrapperspb.UInt64(0)
	back := descriptor("tenant", "back")
	back.IsNegativeHits = true
	ask(0, descriptor("tenant", "a"))
	ask(7, descriptor("tenant", "a"), descriptor("user", "u"), own, peek, back)
	ask(3, descriptor("tenant", "spent"), descriptor("user", "u"))
	got := make(map[string]uint32)
	rec.Drain(func(_ uint64, e *schemas.Entry) { got[fmt.Sprintf("%s %t", e.Caller(), e.Blocked)] += e.Count })
	want := map[string]uint32{"tenant:a false": 8, "user:u false": 7, "tenant:own false": 5, "tenant:spent true": 3}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if st := rec.Stats(); st.Accepted != 23 {
		t.Errorf("got %d accepted, want 23", st.Accepted)
	}
}

// Of an IPv6 address the network counts: the caller is the one that ingest makes of it.
func TestNetworksAreOneCaller(t *testing.T) {
	set := gatetest.Set(t, gatetest.Close("ip:2001:db8:1:2::", time.Minute), gatetest.Close("ip_path:2001:db8:1:2::|/a", time.Minute))
	s := sidecar.New(sidecar.Options{Set: set, Callers: []gatehttp.CallerFunc{gatehttp.ClientIP(loopback())}})
	conn := dial(t, s)
	limits, authz := ratelimitv3.NewRateLimitServiceClient(conn), authv3.NewAuthorizationClient(conn)
	for addr, want := range map[string]bool{"2001:db8:1:2::1": true, "2001:db8:1:2:ffff::": true, "2001:db8:1:3::1": false, "192.0.2.1": false, "::ffff:192.0.2.1": false} {
		got, err := limits.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Descriptors: []*descriptorv3.RateLimitDescriptor{
			descriptor("remote_address", addr), descriptor("remote_address", addr, "path", "/a"),
		}})
		if err != nil {
			t.Fatal(err)
		}
		for i, st := range got.GetStatuses() {
			if over := st.GetCode() == ratelimitv3.RateLimitResponse_OVER_LIMIT; over != want {
				t.Errorf("%s, descriptor %d: got over %t, want %t", addr, i, over, want)
			}
		}
		checked, err := authz.Check(t.Context(), checkRequest(addr, nil))
		if err != nil || (checked.GetDeniedResponse() != nil) != want {
			t.Errorf("%s: got %v and %v, want refused %t", addr, checked, err, want)
		}
	}
}

// Descriptors can name any kind. A proxy that makes up new kinds neither uses up the kinds of the Set nor makes it panic.
func TestKindsThatDescriptorsMakeUpAreBounded(t *testing.T) {
	s := newSidecar(t, nil, "tenant:acme")
	client := ratelimitv3.NewRateLimitServiceClient(dial(t, s))
	for i := range 300 {
		if _, err := client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{
			Descriptors: []*descriptorv3.RateLimitDescriptor{descriptor(fmt.Sprintf("kind%d", i), "x"), descriptor("tenant", "acme")},
		}); err != nil {
			t.Fatal(err)
		}
	}
	st := s.Stats()
	if st.RateLimit.Refused != 300 || st.Descriptors < 200 {
		t.Errorf("got %+v, want the known kind to go on and the made up ones to end", st)
	}
}

// The answer contains the limit in a unit of Envoy, or no limit.
func TestTheLimitIsInEnvoysUnits(t *testing.T) {
	set := gatetest.Set(t, gatetest.Close("tenant:acme", time.Minute))
	s := sidecar.New(sidecar.Options{Set: set, Callers: []gatehttp.CallerFunc{gatehttp.ClientIP(nil)}})
	got, err := ratelimitv3.NewRateLimitServiceClient(dial(t, s)).ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{
		Descriptors: []*descriptorv3.RateLimitDescriptor{descriptor("tenant", "acme")},
	})
	if err != nil {
		t.Fatal(err)
	}
	limit := got.GetStatuses()[0].GetCurrentLimit()
	if gatetest.Window != time.Minute {
		t.Fatalf("the test knows a window of a minute, and gatetest has one of %v", gatetest.Window)
	}
	if limit.GetName() != gatetest.Rule || limit.GetRequestsPerUnit() != gatetest.Limit || limit.GetUnit() != ratelimitv3.RateLimitResponse_RateLimit_MINUTE {
		t.Errorf("got %v, want the rule's limit in a minute", limit)
	}
}

func BenchmarkShouldRateLimit(b *testing.B) {
	client := ratelimitv3.NewRateLimitServiceClient(dial(b, newSidecar(b, nil, "ip:203.0.113.9")))
	r := &ratelimitv3.RateLimitRequest{Descriptors: []*descriptorv3.RateLimitDescriptor{descriptor("remote_address", "192.0.2.1")}}
	for b.Loop() {
		if _, err := client.ShouldRateLimit(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}
