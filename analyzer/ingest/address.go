package ingest

import (
	"net/netip"
	"strings"

	"github.com/509da70d/floodgate/schemas"
)

// ipv4Len returns the length of the dotted IPv4 address in canonical form at the start of b, or 0 if there is none that
// ends at a space or at the end of b.
func ipv4Len(b string) int {
	i, n := 0, len(b)
	for octet := 0; ; octet++ {
		start, v := i, 0
		for i < n && i-start < 4 {
			d := b[i] - '0'
			if d > 9 {
				break
			}
			v = v*10 + int(d)
			i++
		}
		digits := i - start
		if digits == 0 || v > 255 || digits > 1 && b[start] == '0' {
			return 0
		}
		if octet == 3 {
			break
		}
		if i == n || b[i] != '.' {
			return 0
		}
		i++
	}
	if i < n && b[i] != ' ' {
		return 0
	}
	return i
}

// address returns the canonical text of the IP address that is all of b, as a view of b where b has that form already
// and in l's scratch otherwise; "" if b is not an address.
func address(b string, l *Line) string {
	if n := ipv4Len(b); n > 0 && n == len(b) {
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
