package ingest

import (
	"net/netip"
	"strings"

	"github.com/509da70d/floodgate/schemas"
)

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
