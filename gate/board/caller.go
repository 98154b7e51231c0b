package board

import (
	"bytes"
	"net/netip"

	"github.com/509da70d/floodgate/schemas"
)

// form is how a closure's memory holds the id of a caller.
type form uint8

// Forms.
const (
	plain form = iota // as it is
	ipv4              // 4 bytes: an address whose text is the id
	ipv6              // 16 bytes
)

// caller is a schemas.Caller as the board looks it up.
type caller struct {
	kind string
	form form
	key  []byte // the id in that form
}

// keyRoom is room for each key of a caller that can be closed.
type keyRoom [schemas.MaxCallerID]byte

// callerOf returns a caller, whose key is in room if it fits.
func callerOf(c schemas.Caller, room *keyRoom) caller {
	if c.Kind == schemas.KindIP {
		if addr, err := netip.ParseAddr(c.ID); err == nil && string(addr.AppendTo(room[:0])) == c.ID {
			switch {
			case addr.Is4():
				key := addr.As4()
				return caller{c.Kind, ipv4, append(room[:0], key[:]...)}
			case addr.Zone() == "":
				key := addr.As16()
				return caller{c.Kind, ipv6, append(room[:0], key[:]...)}
			}
		}
	}
	return caller{c.Kind, plain, append(room[:0], c.ID...)}
}

// id returns the id that callerOf has got.
func (c *caller) id() string {
	var room [64]byte // for the longest text of an address
	switch c.form {
	case ipv4:
		return string(netip.AddrFrom4([4]byte(c.key)).AppendTo(room[:0]))
	case ipv6:
		return string(netip.AddrFrom16([16]byte(c.key)).AppendTo(room[:0]))
	}
	return string(c.key)
}

// is reports whether two callers are one.
func (c *caller) is(other *caller) bool {
	return c.form == other.form && c.kind == other.kind && bytes.Equal(c.key, other.key)
}
