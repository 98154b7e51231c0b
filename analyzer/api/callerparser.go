package api

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas"
)

// callerParser turns callers as people write them into callers as recorders count them. The errors of its methods are problems, whose
// pointer says where the caller was written.
type callerParser struct{ ids schemas.IDs }

// text returns the caller that a parameter names. The id is everything behind the first colon.
func (c callerParser) text(name, text string) (schemas.Caller, error) {
	kind, id, found := strings.Cut(text, ":")
	if !found {
		return schemas.Caller{}, badQuery(name, text, "kind:id, such as ip:203.0.113.9 or key:abc, percent-encoded")
	}
	return c.caller(schemas.Caller{Kind: kind, ID: id}, func(got, want string) error { return badQuery(name, got, want) })
}

// body returns the caller at a place of a body. If exact is true, it refuses an id with a star, which is taken for a pattern. A client
// can send such an id in base64.
func (c callerParser) body(pointer string, v *apiv1.Caller, exact bool) (schemas.Caller, error) {
	wrong := func(got, want string) error { return badBody(pointer, got, want) }
	if exact && len(v.IDBase64) == 0 && v.Kind != schemas.KindIP && strings.Contains(v.ID, "*") {
		return schemas.Caller{}, wrong(v.ID, "one whole id: gates compare whole ids, and know no patterns. "+
			"Write an override or a rule into the rules file for many callers. If the id itself has a *, give it as id_base64")
	}
	if len(v.IDBase64) == 0 && strings.ContainsRune(v.ID, utf8.RuneError) {
		return schemas.Caller{}, wrong(v.ID, "an id of characters. It has the one that stands for a wrong byte: give the bytes as id_base64")
	}
	if len(v.IDBase64) > 0 && v.ID != "" && v.ID != string([]rune(string(v.IDBase64))) { // the character that stands for wrong bytes is in both
		return schemas.Caller{}, wrong(v.ID, "one id: id_base64 has another one. Leave id empty, or as an answer has both")
	}
	return c.caller(v.Caller(), wrong)
}

// caller returns the caller as recorders count it.
func (c callerParser) caller(v schemas.Caller, wrong func(got, want string) error) (schemas.Caller, error) {
	if err := schemas.ValidateKind(v.Kind); err != nil {
		return v, wrong(v.Kind, fmt.Sprintf("a kind of 1 to %d of a-z, 0-9, _ and -, and none of floodgate's own", schemas.MaxCallerKind))
	}
	if v.ID == "" {
		return v, wrong("", fmt.Sprintf("an id of 1 to %d bytes; longer ones are hashed", schemas.MaxCallerID))
	}
	if v.Kind == schemas.KindIP {
		addr, want := c.address(v.ID)
		if want != "" {
			return v, wrong(v.ID, want)
		}
		v.ID = addr.String()
		return v, nil
	}
	if v.Kind == schemas.KindNet || v.Kind == schemas.KindASN {
		id, want := c.ofAddress(v.Kind, v.ID)
		if want != "" {
			return v, wrong(v.ID, want)
		}
		v.ID = id
		return v, nil
	}
	v.ID = c.parts(v.Kind, v.ID)
	v.ID = c.ids.Overridden(v.Kind, v.ID)[0]
	return v, nil
}

// ofAddress returns the id of a network or an autonomous system, or what the client should write in place of text.
func (c callerParser) ofAddress(kind, text string) (id, want string) {
	if kind == schemas.KindASN {
		return schemas.ParseASN(text)
	}
	network, want := c.ids.ParseNet(text)
	return network.String(), want
}

// address returns the address under which a client is counted, or what the client should write in place of text.
func (c callerParser) address(text string) (addr netip.Addr, want string) {
	if strings.Contains(text, "/") {
		return c.network(text)
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		if strings.ContainsAny(text, "*?[]") {
			return addr, "one address: gates compare whole ids, and know no patterns. For many addresses write an override of their network into the rules file"
		}
		return addr, "an IP address, such as 203.0.113.9 or 2001:db8::1"
	}
	return c.ids.Addr(addr), ""
}

// network returns the address under which a network is counted, if the network is one client.
func (c callerParser) network(text string) (addr netip.Addr, want string) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return addr, "an IP address, such as 203.0.113.9 or 2001:db8::1"
	}
	addr, bits := p.Addr().WithZone(""), p.Bits()
	if addr.Is4In6() && bits >= 96 {
		addr, bits = addr.Unmap(), bits-96
	}
	client := 32
	if addr.Is6() {
		client = c.ids.Prefix()
	}
	if bits < client {
		return addr, fmt.Sprintf("one client, which is an address or a network of %d bits: gates compare whole ids. "+
			"For a wider network write an override of %s into the rules file", client, p.Masked())
	}
	return c.ids.Addr(addr), ""
}

// parts makes the first part of a composite id canonical, as recorders do, if the kind says that it is an address, as in ip_route.
func (c callerParser) parts(kind, id string) string {
	if !strings.HasPrefix(kind, schemas.KindIP+"_") {
		return id
	}
	first, rest, found := strings.Cut(id, schemas.CompositeSeparator)
	addr, err := netip.ParseAddr(first)
	if !found || err != nil {
		return id
	}
	return c.ids.Addr(addr).String() + schemas.CompositeSeparator + rest
}
