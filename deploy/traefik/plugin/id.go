package plugin

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"
)

// schemas/FRAME.md says how ids are made.

const hexDigits = "0123456789abcdef"

// addressID returns the id of an address: an IPv6 address by its network.
func addressID(addr netip.Addr, prefix int) string {
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		if network, err := addr.Prefix(prefix); err == nil {
			addr = network.Addr()
		}
	}
	return addr.String()
}

// identifier returns the id of what a client sent.
func identifier(value string) string {
	if len(value) < 37 {
		return value
	}
	if len(value) > 256 || len(value) == 255 && isHash(value[222:]) {
		return value[:222] + hashOf(value)
	}
	if !beginsKeyed(value) {
		return value
	}
	if len(value) > 222 {
		return value[:222] + hashOf(value)
	}
	return value + hashOf(value)
}

// compositeID returns the id of several parts, none of which is empty.
func compositeID(parts []string) string {
	last := len(parts) - 1
	for i, part := range parts[:last] {
		if strings.IndexByte(part, '|') >= 0 || isHash(part) {
			parts[i] = hashOf(part)
		}
	}
	return identifier(strings.Join(parts, "|"))
}

func isHash(text string) bool {
	return len(text) == 33 && text[0] == '~' && strings.Trim(text[1:], hexDigits) == ""
}

// beginsKeyed reports whether an id begins as those do that are hashed with a secret.
func beginsKeyed(text string) bool {
	return len(text) >= 37 && strings.HasPrefix(text, "hmac:") && strings.Trim(text[5:37], hexDigits) == ""
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "~" + hex.EncodeToString(sum[:16])
}
