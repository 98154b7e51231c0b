package ingest

import (
	"strings"
	"unicode/utf8"
)

// logfmt reads lines of key=value, with a space between them and quotes around values that need them. Of equal keys the
// first counts: what a client manages to put into a later value can't take its place. A word that is no key=value must look
// like a key; a line with another word is of another format, whatever a client put into it.
type logfmt struct{ *freeNames }

func newLogfmt(Mapping) (fieldNames, func() decoder, error) {
	names := newFreeNames()
	return names, func() decoder { return logfmt{names} }, nil
}

// decode implements decoder.
func (f logfmt) decode(s string, values []string, l *Line) Reason {
	missing := BadFormat
	for s = strings.TrimLeft(s, " \t"); s != ""; s = strings.TrimLeft(s, " \t") {
		end := strings.IndexAny(s, "= \t")
		if end < 0 || s[end] != '=' { // a key alone
			if end < 0 {
				end = len(s)
			}
			if !keyLike(s[:end]) {
				clear(values)
				return BadFormat
			}
			s = s[end:]
			continue
		}
		key := s[:end]
		if !keyLike(key) {
			clear(values)
			return BadFormat
		}
		s = s[end+1:]
		missing = MissingField
		raw, rest, quoted, whole := f.text(s)
		s = rest
		if !whole {
			return BadFormat // cut in a quoted value: it may lack something
		}
		slot, wanted := f.slots[key]
		if !wanted || values[slot] != "" {
			continue
		}
		if quoted && strings.IndexByte(raw, '\\') >= 0 {
			raw = l.unquote(raw)
		}
		values[slot] = raw
	}
	return missing
}

// keyLike reports whether s begins as keys do: with a letter, "_" or "@". Addresses, dashes, quotes and brackets do not.
func keyLike(s string) bool {
	return s != "" && (s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z' || s[0] == '_' || s[0] == '@')
}

// text returns the value at the start of s, without its quotes, and what follows it. Whole is false if its closing quote
// is missing.
func (logfmt) text(s string) (value, rest string, quoted, whole bool) {
	if s == "" || s[0] != '"' {
		i := strings.IndexAny(s, " \t")
		if i < 0 {
			i = len(s)
		}
		return s[:i], s[i:], false, true
	}
	end := stringEnd(s, 1)
	if end >= len(s) {
		return "", "", true, false
	}
	return s[1:end], s[end+1:], true, true
}

// unquote returns s with its escapes resolved, in l's scratch: those of Go's strconv.Quote, which the writers of logfmt
// use. What is no escape stays as it is.
func (l *Line) unquote(s string) string {
	n := len(l.scratch)
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			l.scratch = append(l.scratch, s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 'n':
			l.scratch = append(l.scratch, '\n')
		case 't':
			l.scratch = append(l.scratch, '\t')
		case 'r':
			l.scratch = append(l.scratch, '\r')
		case 'x', 'u':
			digits := 2
			if c == 'u' {
				digits = 4
			}
			v, ok := hexOf(s[i+1:], digits)
			if !ok {
				l.scratch = append(l.scratch, '\\', c)
				continue
			}
			if i += digits; c == 'x' {
				l.scratch = append(l.scratch, byte(v))
			} else {
				l.scratch = utf8.AppendRune(l.scratch, rune(v))
			}
		default: // a quote, a backslash
			l.scratch = append(l.scratch, c)
		}
	}
	return view(l.scratch[n:])
}

// hexOf returns the number of the first n hexadecimal digits of s.
func hexOf(s string, n int) (v int, ok bool) {
	if len(s) < n {
		return 0, false
	}
	for i := range n {
		d := strings.IndexByte("0123456789abcdef", s[i]|0x20)
		if d < 0 {
			return 0, false
		}
		v = v<<4 | d
	}
	return v, true
}
