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

// CallerFunc makes an AddFunc, which finds one caller of a call, for a Set. New calls it once, and the gates call the
// AddFunc for every call. ClientIP, ClientNet, ClientASN, Metadata, Composite and Custom return the usual ones.
type CallerFunc func(*gate.Set) AddFunc

// AddFunc adds a call's caller, or none, to c. It gets the context and the full method of the call. It must be safe for
// concurrent use and must not keep c.
type AddFunc func(ctx context.Context, method string, c *gate.Callers)

// IDFunc returns the id of a caller, or a part of one; "" if there is none. It must be safe for concurrent use. IP, Net,
// ASN, MetadataValue and Method are, or return, the usual ones.
type IDFunc func(ctx context.Context, method string) string

// ClientIP adds the address that a call came from, as a caller of kind "ip". ClientAddr says how it finds the address. An
// IPv6 address counts by its network, a /64 unless the Set's Options.IDs says otherwise.
func ClientIP(trusted []netip.Prefix) CallerFunc {
	addr := ClientAddr(trusted)
	return func(s *gate.Set) AddFunc {
		g := s.Gate(schemas.KindIP)
		return func(ctx context.Context, _ string, c *gate.Callers) { c.AddAddr(g, addr(ctx)) }
	}
}

// ClientNet adds the network of the address that a call came from, as a caller of kind "net": see gatehttp.ClientNet.
func ClientNet(trusted []netip.Prefix) CallerFunc {
	addr := ClientAddr(trusted)
	return func(s *gate.Set) AddFunc {
		g := s.Gate(schemas.KindNet)
		return func(ctx context.Context, _ string, c *gate.Callers) { c.AddAddr(g, addr(ctx)) }
	}
}

// ClientASN adds the autonomous system of the address that a call came from, as a caller of kind "asn": see gatehttp.ClientASN.
func ClientASN(trusted []netip.Prefix) CallerFunc {
	return func(s *gate.Set) AddFunc { return Custom(schemas.KindASN, ASN(s, trusted))(s) }
}

// Metadata adds the value of a metadata key, such as an API key, as a caller of the given kind: its first value without
// space around it. A call without the key has no such caller. If the key was sent twice, the first value counts, even if the
// handler uses the other one; Options.RejectRepeated rejects such calls. The value is sent to Kafka in clear: if it is a
// secret, let the Set hash ids of this kind (gate.Options.IDs.Hash).
func Metadata(kind, key string) CallerFunc { return Custom(kind, MetadataValue(key)) }

// Custom adds the id that a function returns, as a caller of the given kind, or none if the id is empty.
func Custom(kind string, id IDFunc) CallerFunc {
	return func(s *gate.Set) AddFunc {
		g := s.Gate(kind)
		return func(ctx context.Context, method string, c *gate.Callers) { c.Add(g, id(ctx, method)) }
	}
}

// CompositeSeparator stands between the parts of a composite caller's id.
const CompositeSeparator = schemas.CompositeSeparator

// Composite adds a caller whose id is made of several parts, such as an address and a method. A closure then refuses calls
// of that method from that address, and no others:
//
//	gategrpc.Composite("ip_method", gategrpc.IP(set, trusted), gategrpc.Method)
//
// If a part is empty there is no such caller. A part before the last one that contains CompositeSeparator counts by its
// hash: see schemas.Part.
func Composite(kind string, parts ...IDFunc) CallerFunc {
	return Custom(kind, func(ctx context.Context, method string) string {
		return front.Join(len(parts), func(i int) string { return parts[i](ctx, method) })
	})
}

// ClientAddr returns a function that finds the address that a call came from, in canonical form. That is the peer of the
// connection, unless the peer is in one of the trusted prefixes. Then the peer is a proxy, and the metadata x-forwarded-for
// is read as gatehttp.ClientAddr reads the field of that name. If the peer has no address, the function returns the zero
// Addr.
func ClientAddr(trusted []netip.Prefix) func(context.Context) netip.Addr {
	proxies := schemas.NewNetworks(trusted)
	return func(ctx context.Context) netip.Addr {
		p, ok := peer.FromContext(ctx)
		if !ok {
			return netip.Addr{}
		}
		addr := front.Peer(p.Addr)
		if !proxies.Contain(addr) {
			return addr
		}
		return front.Client(proxies, addr, metadata.ValueFromIncomingContext(ctx, "x-forwarded-for"))
	}
}

// IP returns a function that returns the id of ClientIP, for Composite.
func IP(set *gate.Set, trusted []netip.Prefix) IDFunc {
	return addrID(schemas.KindIP, set, trusted)
}

// Net returns a function that returns the id of ClientNet, for Composite.
func Net(set *gate.Set, trusted []netip.Prefix) IDFunc {
	return addrID(schemas.KindNet, set, trusted)
}

// ASN returns a function that returns the id of ClientASN, for Composite.
func ASN(set *gate.Set, trusted []netip.Prefix) IDFunc {
	return addrID(schemas.KindASN, set, trusted)
}

// addrID returns a function that returns the id of a call's caller of a kind that is made of its address.
func addrID(kind string, set *gate.Set, trusted []netip.Prefix) IDFunc {
	addr, ids := ClientAddr(trusted), set.IDs()
	return func(ctx context.Context, _ string) string { return ids.AddrID(kind, addr(ctx)) }
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
