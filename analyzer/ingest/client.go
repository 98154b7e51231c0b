package ingest

import (
	"net/netip"
	"strings"

	"github.com/509da70d/floodgate/schemas"
)

// clientRef is where a line says who its client is.
type clientRef struct {
	address, forwarded ref
	trusted            []netip.Prefix
	bits               int // of an IPv6 address that are one client; 0 is all
}

// clientOf is the client of the line at hand.
type clientOf struct {
	done  bool
	there bool // the line says something, if no address
	id    string
}

// trust sets the proxies. IPv4-mapped IPv6 networks count as IPv4.
func (c *clientRef) trust(networks []netip.Prefix) {
	for _, n := range networks {
		if a := n.Addr(); a.Is4In6() && n.Bits() >= 96 {
			n = netip.PrefixFrom(a.Unmap(), n.Bits()-96)
		}
		c.trusted = append(c.trusted, n.Masked())
	}
}

// trusts reports whether a proxy has this address, which is canonical.
func (c *clientRef) trusts(addr netip.Addr) bool {
	for _, n := range c.trusted {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// clientID returns the canonical address of the line's client, "" if there is none that can be read.
//
// The list of forwarded addresses is read from its end, where the nearest proxy wrote, past all trusted proxies to the
// first address that is none. What stands before it may be forged and is not looked at. Where the list ends first, or
// holds something that is no address, it is the last address found. Without an address of its own, as in Envoy's default
// format, the end of the list is what the server itself saw.
func (s *scan) clientID(l *Line) string {
	if s.client.done {
		return s.client.id
	}
	c := &s.m.client
	s.client.done = true
	at := ""
	if peer := s.first(&c.address); peer != "" {
		s.client.there = true
		at = bare(peer, l)
	}
	if c.forwarded.what == refNone || at == "" && c.address.what != refNone {
		s.client.id = s.m.masked(at, l)
		return s.client.id
	}
	for list := s.first(&c.forwarded); list != ""; {
		if at != "" {
			addr, err := netip.ParseAddr(at)
			if err != nil || !c.trusts(addr) {
				break
			}
		}
		i := strings.LastIndexByte(list, ',')
		hop := strings.Trim(list[i+1:], " \t")
		if list = list[:max(i, 0)]; hop == "" {
			continue // RFC 9110, 5.6.1.2: empty elements are ignored
		}
		s.client.there = true
		next := bare(hop, l)
		if next == "" {
			break
		}
		at = next
	}
	s.client.id = s.m.masked(at, l)
	return s.client.id
}

// canonical returns the one form in which the address s, which may have a port, is counted; "" if it is no address.
func (m *mapper) canonical(s string, l *Line) string {
	return m.masked(bare(s, l), l)
}

// masked returns the part of a canonical address that is one client, itself in canonical form; "" for "".
func (m *mapper) masked(id string, l *Line) string {
	if m.client.bits == 0 || strings.IndexByte(id, ':') < 0 {
		return id
	}
	addr, err := netip.ParseAddr(id)
	if err != nil {
		return id
	}
	network, err := addr.Prefix(m.client.bits)
	if err != nil {
		return id
	}
	n := len(l.scratch)
	l.scratch = network.Addr().AppendTo(l.scratch)
	return view(l.scratch[n:])
}

// bare returns the canonical address of s without a port and brackets, or "". It looks before it parses, because the
// errors of netip cost more than its addresses.
func bare(s string, l *Line) string {
	if strings.HasPrefix(s, "[") {
		host, _, found := strings.Cut(s[1:], "]")
		if !found || !strings.Contains(host, ":") {
			return ""
		}
		return address(host, l)
	}
	if i := strings.IndexByte(s, ':'); i >= 0 && strings.IndexByte(s[i+1:], ':') < 0 {
		if strings.Trim(s[i+1:], "0123456789") != "" {
			return ""
		}
		s = s[:i]
	}
	return address(s, l)
}

// contains reports whether one of the networks holds the canonical address id.
func contains(networks []netip.Prefix, id string) bool {
	addr, err := netip.ParseAddr(id)
	if err != nil {
		return false
	}
	addr = schemas.CanonicalAddr(addr)
	for _, n := range networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}
