package ingest

import (
	"math/bits"
	"strings"
)

// walk calls j.found for the wanted members of the object s, and reports whether it reached the end of the object.
func (j *jsonLog) walk(s string, l *Line) bool {
	i := skipSpace(s, len(s)-len(strings.TrimPrefix(s, "\ufeff")))
	if i == len(s) || s[i] != '{' {
		return false
	}
	i = skipSpace(s, i+1)
	for n := 0; i < len(s) && s[i] == '"'; n++ {
		set, value := j.member(s, i, n)
		if value == 0 {
			return false
		}
		if i = plainEnd(s, value); i == 0 {
			if i = valueEnd(s, value); i <= value {
				return false
			}
		}
		if set != 0 {
			j.found(set, s[value:i], l)
		}
		if i = skipSpace(s, i); i >= len(s) || s[i] != ',' {
			break
		}
		i = skipSpace(s, i+1)
	}
	return i < len(s) && s[i] == '}'
}

// member reads the key of the n-th member, which starts at i, and returns the wanted fields that have this key, as a set
// of bits, and where its value starts; 0 if it is damaged. The lines of a log are much alike: the key is looked up only
// where the last line had another one in this place.
func (j *jsonLog) member(s string, i, n int) (set uint64, value int) {
	if n < len(j.last) {
		if m := &j.last[n]; len(m.text) > 0 && strings.HasPrefix(s[i:], view(m.text)) {
			return m.set, skipSpace(s, i+len(m.text))
		}
	}
	end, plain := keyEnd(s, i+1)
	colon := skipSpace(s, end+1)
	if colon >= len(s) || s[colon] != ':' {
		return 0, 0
	}
	key := s[i+1 : end]
	if !plain {
		key = j.unescape(s[i : end+1])
	}
	for maybe := j.byKey[keySlot(key)]; maybe != 0; maybe &= maybe - 1 {
		if f := bits.TrailingZeros64(maybe); j.wanted[f].key == key {
			set |= 1 << f
		}
	}
	if n < len(j.last) && colon-i < maxLastKey {
		j.last[n].text, j.last[n].set = append(j.last[n].text[:0], s[i:colon+1]...), set
	}
	return set, skipSpace(s, colon+1)
}

// unescape returns the text of a quoted string with escapes; it holds until the parser is used again.
func (j *jsonLog) unescape(quoted string) string {
	if v, err := j.keys.Parse(quoted); err == nil {
		if b, err := v.StringBytes(); err == nil {
			return view(b)
		}
	}
	return ""
}

// skipSpace returns the index of the first byte of s at or after i that is not white space.
func skipSpace(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\t' || s[i] == '\r' || s[i] == '\n') {
		i++
	}
	return i
}

// keyEnd returns the index of the quote that closes the key which starts at i, or len(s), and whether the key is without
// escapes. Keys are short: eight bytes at a time is faster than calling IndexByte.
func keyEnd(s string, i int) (end int, plain bool) {
	for ; i+8 <= len(s); i += 8 {
		w := word(s[i:])
		if hit := equalBytes(w, '"') | equalBytes(w, '\\'); hit != 0 {
			i += bits.TrailingZeros64(hit) / 8
			break
		}
	}
	for ; i < len(s); i++ {
		switch s[i] {
		case '"':
			return i, true
		case '\\':
			return stringEnd(s, i), false
		}
	}
	return i, true
}

// equalBytes has the high bit set in the lowest byte of w that equals c; only the lowest set bit may be relied on.
// (Mycroft's zero byte test; see Hacker's Delight, 6-1.)
func equalBytes(w uint64, c byte) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	w ^= ones * uint64(c)
	return (w - ones) &^ w & highs
}

// stringEnd returns the index of the quote that closes the string whose text starts at i, or len(s).
func stringEnd(s string, i int) int {
	start := i
	for {
		n := strings.IndexByte(s[i:], '"')
		if n < 0 {
			return len(s)
		}
		if i += n; i == start || s[i-1] != '\\' || !escaped(s[start:i]) {
			return i
		}
		i++
	}
}

// plainEnd returns the index after the string with its quotes that starts at i, or 0 if that takes a closer look: it is
// no string, is cut, is empty or has a backslash at its end.
func plainEnd(s string, i int) int {
	if i >= len(s) || s[i] != '"' {
		return 0
	}
	n := strings.IndexByte(s[i+1:], '"')
	if n <= 0 || s[i+n] == '\\' {
		return 0
	}
	return i + n + 2
}

// valueEnd returns the index after the value that starts at i, or i if it is damaged or cut. A number that reaches the
// end of s counts as cut: some of its digits may be gone.
func valueEnd(s string, i int) int {
	if i >= len(s) {
		return i
	}
	switch s[i] {
	case '"':
		if end := stringEnd(s, i+1); end < len(s) {
			return end + 1
		}
		return i
	case '{', '[':
		return nestedEnd(s, i)
	}
	end := i
	for end < len(s) && s[end] > ' ' && s[end] != ',' && s[end] != '}' && s[end] != ']' && s[end] != '"' {
		end++
	}
	if end == len(s) || !scalar(s[i:end]) {
		return i
	}
	return end
}

// scalar reports whether s is a literal, or starts as a number does.
func scalar(s string) bool {
	return s != "" && (s[0]-'0' <= 9 || s[0] == '-') || s == "null" || s == "true" || s == "false"
}

// nestedEnd returns the index after the object or array that starts at i, or i if it is cut. What is inside is not looked
// at, but for strings, which may hold brackets.
func nestedEnd(s string, i int) int {
	depth := 0
	for end := i; end < len(s); end++ {
		switch s[end] {
		case '"':
			end = stringEnd(s, end+1)
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return end + 1
			}
		}
	}
	return i
}
