package gatehttp

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/internal/front"
	"github.com/509da70d/floodgate/schemas"
)

// CallerFunc says who a request is from, in one respect. It is bound to a Set once; what it returns is called for every
// request. ClientIP, Header, Composite and Custom make the usual ones.
type CallerFunc func(*gate.Set) AddFunc

// AddFunc adds a request's caller, or none, to c. It must be safe for concurrent use and must not keep c.
type AddFunc func(r *http.Request, c *gate.Callers)

// ClientIP adds the address that a request came from, as a caller of kind "ip". See ClientAddr for whom it trusts.
func ClientIP(trusted []netip.Prefix) CallerFunc { return ClientNetwork(trusted, 0) }

// ClientNetwork is ClientIP for networks of IPv6, of which one customer has a whole one: of an IPv6 address only the first
// so many bits count, and the rest are zero, as floodgate ingest does with ipv6_prefix. 64 is usual; 0 and 128 are whole
// addresses.
func ClientNetwork(trusted []netip.Prefix, ipv6Bits int) CallerFunc {
	addr := ClientAddr(trusted)
	return func(s *gate.Set) AddFunc {
		g := s.Gate(schemas.KindIP)
		return func(r *http.Request, c *gate.Callers) { c.AddAddr(g, Network(addr(r), ipv6Bits)) }
	}
}

// Network returns an IPv6 address with all but its first bits zero; other addresses as they are, and all of them if bits
// is not from 1 to 127.
func Network(a netip.Addr, bits int) netip.Addr {
	if !a.Is6() || bits <= 0 {
		return a
	}
	if p, err := a.Prefix(bits); err == nil {
		return p.Addr()
	}
	return a
}

// Header adds a field of the request's header, such as an API key, as a caller of the given kind: its first value
// without space around it. A request without the field has no such caller. The value is sent to Kafka as it is: where
// it is a secret, use Custom to hash it.
func Header(kind, field string) CallerFunc { return Custom(kind, HeaderValue(field)) }

// Custom adds what id returns as a caller of the given kind, or none if that is empty. The function must be safe for
// concurrent use.
func Custom(kind string, id func(*http.Request) string) CallerFunc {
	return func(s *gate.Set) AddFunc {
		g := s.Gate(kind)
		return func(r *http.Request, c *gate.Callers) { c.Add(g, id(r)) }
	}
}

// CompositeSeparator stands between the parts of a composite caller's id.
const CompositeSeparator = schemas.CompositeSeparator

// Composite adds a caller whose id is made of several parts, such as an address and a route; a closure then shuts the
// one route for the one address:
//
//	gatehttp.Composite("ip_route", gatehttp.IP(trusted), gatehttp.Route)
//
// If a part is empty there is no such caller. Only the last part may contain CompositeSeparator, or different callers
// would be counted as one.
func Composite(kind string, parts ...func(*http.Request) string) CallerFunc {
	return Custom(kind, func(r *http.Request) string {
		return front.Join(len(parts), func(i int) string { return parts[i](r) })
	})
}

// IP is ClientAddr as text, for Composite.
func IP(trusted []netip.Prefix) func(*http.Request) string { return IPNetwork(trusted, 0) }

// IPNetwork is IP for networks of IPv6: see ClientNetwork.
func IPNetwork(trusted []netip.Prefix, ipv6Bits int) func(*http.Request) string {
	addr := ClientAddr(trusted)
	return func(r *http.Request) string {
		if a := Network(addr(r), ipv6Bits); a.IsValid() {
			return a.String()
		}
		return ""
	}
}

// Route returns the pattern that matched the request, for Composite; "" if none is known. See the package documentation.
func Route(r *http.Request) string { return r.Pattern }

// HeaderValue returns a function that returns the first value of a field of the header, for Composite.
func HeaderValue(field string) func(*http.Request) string {
	field = http.CanonicalHeaderKey(field)
	return func(r *http.Request) string {
		if values := r.Header[field]; len(values) > 0 {
			return strings.TrimSpace(values[0])
		}
		return ""
	}
}
