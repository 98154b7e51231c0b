package schemas

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Bounds on callers, in bytes after canonicalisation.
const (
	MaxCallerID   = 256
	MaxCallerKind = 32
)

// Errors about callers. Test with errors.Is.
var (
	ErrCallerKind = errors.New("bad caller kind")
	ErrCallerID   = errors.New("bad caller id")
)

// KindIP is the caller kind whose ids are IP addresses in canonical form (see CanonicalAddr).
const KindIP = "ip"

// Kinds of caller that are made of an address, beside KindIP.
const (
	KindNet = "net" // the ids are networks, as IDs.Net makes them: 203.0.113.0/24
	KindASN = "asn" // the ids are autonomous systems, as IDs.ASN returns them: AS64500
)

// Reserved kinds. Their callers are made up by floodgate itself, and no rule counts them.
const (
	KindCanary = "_canary" // probes of links, which the analyzer answers
	KindTally  = "_tally"  // what an owner says to the home of a pool: what its callers have asked for
	KindLevel  = "_level"  // what the home of a pool says to all owners: how much each caller may use
)

// ReservedKind reports whether callers of a kind are floodgate's own.
func ReservedKind(kind string) bool {
	return kind == KindCanary || kind == KindTally || kind == KindLevel
}

// Caller names one client that is counted: a kind and an id, written kind:id, such as ip:203.0.113.9 or key:abc.
// The zero value names no client. Callers are values and may be compared.
type Caller struct {
	Kind string
	ID   string
}

// String returns kind:id.
func (c Caller) String() string { return c.Kind + ":" + c.ID }

// ParseCaller splits s at its first colon, makes the id of an ip caller canonical, and checks the bounds of both parts. The id
// must have the form in which it is counted: IDs.Caller makes that form of what a client sent.
func ParseCaller(s string) (Caller, error) {
	kind, id, found := strings.Cut(s, ":")
	if !found {
		return Caller{}, fmt.Errorf("%w: got %q, want kind:id", ErrCallerKind, s)
	}
	if kind == KindIP {
		addr, err := netip.ParseAddr(id)
		if err != nil {
			return Caller{}, fmt.Errorf("%w: got %q, want an IP address", ErrCallerID, id)
		}
		id = CanonicalAddr(addr).String()
	}
	c := Caller{Kind: kind, ID: id}
	return c, c.Validate()
}

// Validate reports whether kind and id are within bounds: the kind is 1 to MaxCallerKind of a-z, 0-9, '_' and '-', and
// the id is 1 to MaxCallerID bytes of anything (it need not be UTF-8).
func (c Caller) Validate() error {
	if err := checkKind(c.Kind); err != nil {
		return err
	}
	if len(c.ID) == 0 || len(c.ID) > MaxCallerID {
		return fmt.Errorf("%w: got %d bytes, want 1 to %d", ErrCallerID, len(c.ID), MaxCallerID)
	}
	return nil
}

// ValidateKind reports whether callers that people name may be of a kind: it is 1 to MaxCallerKind of a-z, 0-9, '_' and '-', and is not
// reserved.
func ValidateKind(kind string) error {
	if ReservedKind(kind) {
		return fmt.Errorf("%w: got %q, want another one: callers of this kind are floodgate's own", ErrCallerKind, kind)
	}
	return checkKind(kind)
}

// checkKind reports whether kind is within the bounds of frames.
func checkKind(kind string) error {
	if len(kind) == 0 || len(kind) > MaxCallerKind {
		return fmt.Errorf("%w: got %d bytes, want 1 to %d", ErrCallerKind, len(kind), MaxCallerKind)
	}
	for i := range len(kind) {
		b := kind[i]
		if (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '_' && b != '-' {
			return fmt.Errorf("%w: got %q, want a-z, 0-9, '_' or '-'", ErrCallerKind, kind)
		}
	}
	return nil
}

// CompositeSeparator stands between the parts of a composite caller's id, such as ip_route. Part makes each part before the
// last unambiguous.
const CompositeSeparator = "|"

// CanonicalAddr returns the one form in which an address is counted: IPv4-mapped IPv6 becomes IPv4, and a zone is
// dropped. Two ways to write an address are then one caller.
func CanonicalAddr(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }
