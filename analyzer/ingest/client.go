package ingest

import (
	"net/netip"
	"strings"

	"github.com/509da70d/floodgate/schemas"
)

// clientRef is where a line has its client.
type clientRef struct {
	address, forwarded ref
	trusted            schemas.Networks
	ids                schemas.IDs
}

// lineClient is the client of the current line.
type lineClient struct {
	done  bool   // the client was looked for
	there bool   // the line has some text in its place
	addr  string // canonical, with all its bits
	id    string // under which addr is counted
}

// clientID returns the id of the line's client, "" if there is none that can be read.
func (s *scan) clientID(l *Line) string {
	s.findClient(l)
	return s.client.id
}

// clientAddr returns the canonical address of the line's client, all of its bits, "" if there is none that can be read.
func (s *scan) clientAddr(l *Line) string {
	s.findClient(l)
	return s.client.addr
}

// findClient looks for the client of the line, once.
func (s *scan) findClient(l *Line) {
	if s.client.done {
		return
	}
	s.client.done = true
	s.client.addr = s.address(l)
	s.client.id = s.m.counted(s.client.addr, l)
}

// address returns the canonical address of the line's client, "" if there is none that can be read: see
// schemas.ForwardedFor. In a log without a field for the other end of the connection, as in Envoy's default format, the server
// itself wrote the last element of the forwarded addresses: it is read as if a trusted proxy had sent it.
func (s *scan) address(l *Line) string {
	c := &s.m.client
	peer := ""
	if text := s.first(&c.address); text != "" {
		s.client.there = true
		peer = bare(text, l)
	}
	if c.forwarded.what == refNone || peer == "" && c.address.what != refNone {
		return peer
	}
	list := s.first(&c.forwarded)
	if list == "" {
		return peer
	}
	l.forwarded = true
	addr := schemas.ForwardedFor(c.trusted, peer, []string{list}, trusts, func(hop string) (string, bool) {
		s.client.there = true
		addr := bare(hop, l)
		return addr, addr != ""
	})
	l.behind = addr != peer
	return addr
}

// trusts reports whether a proxy has this canonical address. The server itself, which is "", is trusted.
func trusts(proxies schemas.Networks, text string) bool { return text == "" || contains(proxies, text) }

// ofAddress returns the id of a caller of kind ip or net, of an address that may have a port, or of kind asn, of its number; "" if it
// is none.
func (m *mapper) ofAddress(kind, s string, l *Line) string {
	switch kind {
	case schemas.KindNet:
		return m.network(bare(s, l), l)
	case schemas.KindASN:
		id, _ := schemas.ParseASN(s)
		return id
	}
	return m.counted(bare(s, l), l)
}

// counted returns the id under which a canonical address is counted; "" for "".
func (m *mapper) counted(text string, l *Line) string {
	if strings.IndexByte(text, ':') < 0 {
		return text
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return text
	}
	id := m.client.ids.Addr(addr)
	if id == addr {
		return text
	}
	n := len(l.scratch)
	l.scratch = id.AppendTo(l.scratch)
	return view(l.scratch[n:])
}

// network returns the id of a canonical address's caller of kind net; "" for "".
func (m *mapper) network(text string, l *Line) string {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return ""
	}
	n := len(l.scratch)
	l.scratch = m.client.ids.Net(addr).AppendTo(l.scratch)
	return view(l.scratch[n:])
}

// system returns the id of a canonical address's caller of kind asn; "" if it has none.
func (m *mapper) system(text string) string {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return ""
	}
	return m.client.ids.AddrID(schemas.KindASN, addr)
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

// contains reports whether one of the networks contains a canonical address; none contains "".
func contains(networks schemas.Networks, text string) bool {
	addr, err := netip.ParseAddr(text)
	return err == nil && networks.Contain(addr)
}

// isIPv4 reports whether s is a dotted IPv4 address. Each address has one such text: no octet begins with a zero, except 0.
func isIPv4(s string) bool {
	dots, octet, digits := 0, 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c-'0' <= 9 && (octet > 0 || digits == 0):
			if octet = octet*10 + int(c-'0'); octet > 255 {
				return false
			}
			digits++
		case c == '.' && digits > 0:
			dots++
			octet, digits = 0, 0
		default:
			return false
		}
	}
	return dots == 3 && digits > 0
}

// address returns the canonical text of the IP address that is all of b, as a view of b where b has that form already
// and in l's scratch otherwise; "" if b is not an address.
func address(b string, l *Line) string {
	if isIPv4(b) {
		return b
	}
	bare := b
	if i := strings.IndexByte(b, '%'); i >= 0 {
		// A zone is cut by hand: netip keeps every zone that it ever parsed in a table, and here clients may choose it.
		if i == len(b)-1 || strings.IndexByte(b[:i], ':') < 0 {
			return ""
		}
		bare = b[:i]
	}
	addr, err := netip.ParseAddr(bare)
	if err != nil {
		return ""
	}
	n := len(l.scratch)
	l.scratch = schemas.CanonicalAddr(addr).AppendTo(l.scratch)
	if text := view(l.scratch[n:]); text != bare {
		return text
	}
	l.scratch = l.scratch[:n]
	return bare
}
