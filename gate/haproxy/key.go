package haproxy

import (
	"net/netip"
	"strings"

	"github.com/509da70d/floodgate/schemas"
)

// keyOf returns the key of a caller in HAProxy's map, and whether it has one. An ip caller has one if its id is an address in canonical
// form that ids can make, so that no two callers have the same key. The key of a network is its id, so that map_ip finds its addresses.
func keyOf(c schemas.Caller, ids schemas.IDs) (key string, ok bool) {
	if _, want := ids.ParseNet(c.ID); c.Kind == schemas.KindNet && want == "" {
		return c.ID, true
	}
	if c.Kind != schemas.KindIP {
		return encode(c.ID), c.ID != ""
	}
	addr, err := netip.ParseAddr(c.ID)
	if err != nil || addr.String() != c.ID || ids.Addr(addr) != addr {
		return "", false
	}
	if addr.Is6() && ids.Prefix() < addr.BitLen() {
		return netip.PrefixFrom(addr, ids.Prefix()).String(), true
	}
	return c.ID, true
}

// encode returns an id as HAProxy's converter url_enc writes it: all bytes but letters, digits, '-', '.', '_' and '~' as %XX. It does
// not allocate for an id that stays as it is.
func encode(id string) string {
	if plain(id, "-._~") {
		return id
	}
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(id) {
		c := id[i]
		if isAlphanumeric(c) || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	return b.String()
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
