package schemas

import (
	"slices"
	"strings"
)

// ForwardedFor returns the address that a request came from. The peer is the other end of the connection, and lines are the
// lines of X-Forwarded-For, of which each proxy appends the address that it sees.
//
// The elements of all lines are read from the last to the first, for as long as the address so far is that of a trusted
// proxy. So reading ends at the first address that no trusted proxy has: that is the client. A client can forge only the
// elements before that address, and they are not read. Where the elements end first, or the next one is no address, the
// result is the last address that was read, or the peer. Empty elements are skipped (RFC 9110, 5.6.1.2).
//
// A is a form of an address. Read returns the address that an element is, without space around it, and whether it is one.
// Contain reports whether proxies contain an address: for a netip.Addr that is Networks.Contain. ForwardedFor allocates only
// what these functions allocate.
func ForwardedFor[A any](
	proxies Networks, peer A, lines []string, contain func(Networks, A) bool, read func(element string) (A, bool),
) A {
	addr := peer
	for _, line := range slices.Backward(lines) {
		for line != "" {
			i := strings.LastIndexByte(line, ',')
			element := strings.Trim(line[i+1:], " \t")
			if line = line[:max(i, 0)]; element == "" {
				continue
			}
			if !contain(proxies, addr) {
				return addr
			}
			next, ok := read(element)
			if !ok {
				return addr
			}
			addr = next
		}
	}
	return addr
}
