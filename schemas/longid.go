package schemas

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// hashMark begins the hash in an id or a part of one: 128 bits of SHA-256, as 32 lower-case hexadecimal digits.
const (
	hashMark   = '~'
	hashDigits = 32
	hashBytes  = 1 + hashDigits
)

// MaxPlainPrefix is how many bytes of a long id stand before its hash: see ID.
const MaxPlainPrefix = MaxCallerID - 1 - hashBytes

const hashedIDBytes = MaxPlainPrefix + hashBytes

// ID returns the form in which an id is counted, for a kind that is not hashed with a secret. Two sorts of ids change: those of
// more than MaxCallerID bytes, and those for which Hashed is true, so that no client can send the form of another client's id.
// Their form is the first MaxPlainPrefix bytes, ~ and 32 hexadecimal digits: the first half of the SHA-256 of all bytes of the
// id. Every other id stays as it is. Ids are bytes: a character of UTF-8 may be cut in two. ID does not allocate for an id
// that stays as it is.
func ID(id string) string {
	if len(id) < keyedBytes {
		return id
	}
	return longID(id)
}

// longID is ID behind the check of the length, apart from it so that the compiler inlines the check.
func longID(id string) string {
	if len(id) <= MaxCallerID && !Hashed(id) {
		return id
	}
	return id[:min(len(id), MaxPlainPrefix)] + hashed(id)
}

// Hashed reports whether an id looks like one that was hashed: it has the form that ID gives to long ids, or it begins as the
// ids of an IDHasher do, with hmac: and 32 lower-case hexadecimal digits.
func Hashed(id string) bool {
	return len(id) == hashedIDBytes && isHash(id[MaxPlainPrefix:]) || beginsKeyed(id)
}

// Part returns the form of a part of a composite id, where the separator follows. Most parts stay as they are. These become ~
// and 32 hexadecimal digits, the first half of their SHA-256, because otherwise different callers would be counted as one:
//   - a part that, with the separator behind it, holds the separator earlier as well;
//   - a part that already has that form;
//   - every part that begins with ~, if the separator consists of hexadecimal digits.
//
// The last part of an id has no separator behind it: its separator is "", and it stays as it is.
func Part(part, separator string) string {
	if separator == "" || !mustHash(part, separator) {
		return part
	}
	return hashed(part)
}

func mustHash(part, separator string) bool {
	if strings.Contains(part, separator) || isHash(part) {
		return true
	}
	if len(separator) > 1 && straddles(part, separator) {
		return true
	}
	return part != "" && part[0] == hashMark && strings.Trim(separator, "0123456789abcdef") == ""
}

// straddles reports whether part and the separator behind it hold another separator, that begins in part.
func straddles(part, separator string) bool {
	for n := 1; n < len(separator); n++ {
		if strings.HasSuffix(part, separator[:n]) && strings.HasPrefix(separator, separator[n:]) {
			return true
		}
	}
	return false
}

// isHash reports whether s is all of a hash, with its mark.
func isHash(s string) bool {
	return len(s) == hashBytes && s[0] == hashMark && strings.Trim(s[1:], "0123456789abcdef") == ""
}

// hashed returns the hash of s, with its mark.
func hashed(s string) string {
	sum := sha256.Sum256([]byte(s))
	var text [hashBytes]byte
	text[0] = hashMark
	hex.Encode(text[1:], sum[:hashDigits/2])
	return string(text[:])
}
