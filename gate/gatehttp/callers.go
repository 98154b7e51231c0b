package gatehttp

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/internal/front"
	"github.com/509da70d/floodgate/schemas"
)

// CallerFunc makes an AddFunc, which finds one caller of a request, for a Set. The middleware calls it once, and the AddFunc
// for every request. ClientIP, ClientNet, ClientASN, Header, Composite and Custom return the usual ones.
type CallerFunc func(*gate.Set) AddFunc

// AddFunc adds a request's caller, or none, to c. It must be safe for concurrent use and must not keep c.
type AddFunc func(r *http.Request, c *gate.Callers)

// ClientIP adds the address that a request came from, as a caller of kind "ip". ClientAddr says how it finds the address. An
// IPv6 address counts by its network, a /64 unless the Set's Options.IDs says otherwise: one subscriber has all addresses of
// such a network, and each of them would have a limit of its own.
func ClientIP(trusted []netip.Prefix) CallerFunc {
	addr := ClientAddr(trusted)
	return func(s *gate.Set) AddFunc {
		g := s.Gate(schemas.KindIP)
		return func(r *http.Request, c *gate.Callers) { c.AddAddr(g, addr(r)) }
	}
}

// ClientNet adds the network of the address that a request came from, as a caller of kind "net": the address's /24 or, of IPv6, its
// /48, unless the Set's Options.IDs says otherwise. ClientAddr says how it finds the address.
func ClientNet(trusted []netip.Prefix) CallerFunc {
	addr := ClientAddr(trusted)
	return func(s *gate.Set) AddFunc {
		g := s.Gate(schemas.KindNet)
		return func(r *http.Request, c *gate.Callers) { c.AddAddr(g, addr(r)) }
	}
}

// ClientASN adds the autonomous system that announces the address that a request came from, as a caller of kind "asn" such as
// AS64500. The Set's Options.IDs.ASN knows it; where that returns "" there is no such caller. ClientAddr says how it finds the address.
func ClientASN(trusted []netip.Prefix) CallerFunc {
	return func(s *gate.Set) AddFunc { return Custom(schemas.KindASN, ASN(s, trusted))(s) }
}

// Header adds a field of the request's header, such as an API key, as a caller of the given kind: its first line without
// space around it. A request without the field has no such caller. If the field was sent twice, the first line counts, even
// if the handler uses the other one. Lines that a proxy has joined by commas are one line, so that a client that adds a
// second value can become a new caller with each request. Options.RejectRepeated rejects such requests. The value is sent to
// Kafka in clear: if it is a secret, let the Set hash ids of this kind (gate.Options.IDs.Hash).
func Header(kind, field string) CallerFunc { return Custom(kind, HeaderValue(field)) }

// Custom adds the id that a function returns, as a caller of the given kind, or none if the id is empty. The function must
// be safe for concurrent use.
func Custom(kind string, id func(*http.Request) string) CallerFunc {
	return func(s *gate.Set) AddFunc {
		g := s.Gate(kind)
		return func(r *http.Request, c *gate.Callers) { c.Add(g, id(r)) }
	}
}

// CompositeSeparator stands between the parts of a composite caller's id.
const CompositeSeparator = schemas.CompositeSeparator

// Composite adds a caller whose id is made of several parts, such as an address and a route. A closure then refuses requests
// from that address to that route, and no others:
//
//	gatehttp.Composite("ip_route", gatehttp.IP(set, trusted), gatehttp.Route)
//
// If a part is empty there is no such caller. A part before the last one that contains CompositeSeparator counts by its
// hash: see schemas.Part.
func Composite(kind string, parts ...func(*http.Request) string) CallerFunc {
	return Custom(kind, func(r *http.Request) string {
		return front.Join(len(parts), func(i int) string { return parts[i](r) })
	})
}

// IP returns a function that returns the id of ClientIP, for Composite.
func IP(set *gate.Set, trusted []netip.Prefix) func(*http.Request) string {
	return addrID(schemas.KindIP, set, trusted)
}

// Net returns a function that returns the id of ClientNet, for Composite.
func Net(set *gate.Set, trusted []netip.Prefix) func(*http.Request) string {
	return addrID(schemas.KindNet, set, trusted)
}

// ASN returns a function that returns the id of ClientASN, for Composite.
func ASN(set *gate.Set, trusted []netip.Prefix) func(*http.Request) string {
	return addrID(schemas.KindASN, set, trusted)
}

// addrID returns a function that returns the id of a request's caller of a kind that is made of its address.
func addrID(kind string, set *gate.Set, trusted []netip.Prefix) func(*http.Request) string {
	addr, ids := ClientAddr(trusted), set.IDs()
	return func(r *http.Request) string { return ids.AddrID(kind, addr(r)) }
}

// HeaderValue returns a function that returns the first line of a field of the header, for Composite: see Header.
func HeaderValue(field string) func(*http.Request) string {
	field = http.CanonicalHeaderKey(field)
	return func(r *http.Request) string {
		if values := r.Header[field]; len(values) > 0 {
			return strings.TrimSpace(values[0])
		}
		return ""
	}
}

// ClientAddr returns a function that finds the address that a request came from, in canonical form. That is the peer of the
// connection, unless the peer is in one of the trusted prefixes. Then the peer is a proxy, and X-Forwarded-For is read from
// its end, where the nearest proxy wrote. The client's address is the first one that is not trusted. What stands before it
// may be forged and is not read. If the field ends before that, or an element is no address, the client's address is the
// last address that was read. Trust only proxies that append the address of their peer to X-Forwarded-For.
//
// Addresses may have a port, brackets, or a zone; IPv4-mapped IPv6 counts as IPv4, in prefixes too. A peer on a Unix
// socket counts as 127.0.0.1. The zero Addr is returned where the peer's address cannot be read.
func ClientAddr(trusted []netip.Prefix) func(*http.Request) netip.Addr {
	proxies := schemas.NewNetworks(trusted)
	return func(r *http.Request) netip.Addr {
		peer := front.ParsePeer(r.RemoteAddr)
		if !proxies.Contain(peer) {
			return peer
		}
		return front.Client(proxies, peer, r.Header["X-Forwarded-For"])
	}
}
