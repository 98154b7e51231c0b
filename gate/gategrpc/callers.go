package gategrpc

import (
	"context"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/internal/front"
	"github.com/509da70d/floodgate/schemas"
)

// CallerFunc says who a call is from, in one respect. It is bound to a Set once; what it returns is called for every
// call. ClientIP, Metadata, Composite and Custom make the usual ones.
type CallerFunc func(*gate.Set) AddFunc

// AddFunc adds a call's caller, or none, to c. The context is the call's, the method its full one. It must be safe for
// concurrent use and must not keep c.
type AddFunc func(ctx context.Context, method string, c *gate.Callers)

// IDFunc returns the id of a caller, or a part of one; "" if there is none. It must be safe for concurrent use. IP,
// MetadataValue and Method make the usual ones.
type IDFunc func(ctx context.Context, method string) string

// ClientIP adds the address that a call came from, as a caller of kind "ip". See ClientAddr for whom it trusts.
func ClientIP(trusted []netip.Prefix) CallerFunc {
	addr := ClientAddr(trusted)
	return func(s *gate.Set) AddFunc {
		g := s.Gate(schemas.KindIP)
		return func(ctx context.Context, _ string, c *gate.Callers) { c.AddAddr(g, addr(ctx)) }
	}
}

// Metadata adds the value of a metadata key, such as an API key, as a caller of the given kind: its first value without
// space around it. A call without it has no such caller. The value is sent to Kafka as it is: where it is a secret, use
// Custom to hash it.
func Metadata(kind, key string) CallerFunc { return Custom(kind, MetadataValue(key)) }

// Custom adds what id returns as a caller of the given kind, or none if that is empty.
func Custom(kind string, id IDFunc) CallerFunc {
	return func(s *gate.Set) AddFunc {
		g := s.Gate(kind)
		return func(ctx context.Context, method string, c *gate.Callers) { c.Add(g, id(ctx, method)) }
	}
}

// CompositeSeparator stands between the parts of a composite caller's id.
const CompositeSeparator = schemas.CompositeSeparator

// Composite adds a caller whose id is made of several parts, such as an address and a method; a closure then shuts the
// one method for the one address:
//
//	gategrpc.Composite("ip_method", gategrpc.IP(trusted), gategrpc.Method)
//
// If a part is empty there is no such caller. Only the last part may contain CompositeSeparator, or different callers
// would be counted as one.
func Composite(kind string, parts ...IDFunc) CallerFunc {
	return Custom(kind, func(ctx context.Context, method string) string {
		return front.Join(len(parts), func(i int) string { return parts[i](ctx, method) })
	})
}

// ClientAddr returns a function that finds the address a call came from, in canonical form. That is the peer of the
// connection, unless it is in one of the trusted prefixes: then it is a proxy, and the metadata x-forwarded-for is read
// as gatehttp.ClientAddr reads the field of that name. The zero Addr is returned where the peer has no address.
func ClientAddr(trusted []netip.Prefix) func(context.Context) netip.Addr {
	proxies := front.Trust(trusted)
	return func(ctx context.Context) netip.Addr {
		p, ok := peer.FromContext(ctx)
		if !ok {
			return netip.Addr{}
		}
		addr := front.Peer(p.Addr)
		if !proxies.Contain(addr) {
			return addr
		}
		return proxies.Client(addr, metadata.ValueFromIncomingContext(ctx, "x-forwarded-for"))
	}
}

// IP is ClientAddr as text, for Composite.
func IP(trusted []netip.Prefix) IDFunc {
	addr := ClientAddr(trusted)
	return func(ctx context.Context, _ string) string {
		if a := addr(ctx); a.IsValid() {
			return a.String()
		}
		return ""
	}
}

// Method returns the full method, for Composite.
func Method(_ context.Context, method string) string { return method }

// MetadataValue returns a function that returns the first value of a metadata key, for Composite.
func MetadataValue(key string) IDFunc {
	key = strings.ToLower(key)
	return func(ctx context.Context, _ string) string {
		if values := metadata.ValueFromIncomingContext(ctx, key); len(values) > 0 {
			return strings.TrimSpace(values[0])
		}
		return ""
	}
}
