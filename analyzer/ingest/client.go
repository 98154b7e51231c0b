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

// clientOf is the client of the current line.
type clientOf struct {
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
	return schemas.ForwardedFor(c.trusted, peer, []string{list}, trusts, func(hop string) (string, bool) {
		s.client.there = true
		addr := bare(hop, l)
		return addr, addr != ""
	})
}

// trusts reports whether a proxy has this canonical address. The server itself, which is "", is trusted.
func trusts(proxies schemas.Networks, text string) bool { return text == "" || contains(proxies, text) }

// canonical returns the one form in which the address s, which may have a port, is counted; "" if it is no address.
func (m *mapper) canonical(s string, l *Line) string {
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
