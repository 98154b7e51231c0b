package printable

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrFormat says that Of cannot have returned the text. Test with errors.Is.
var ErrFormat = errors.New("not a printable text")

// Text is text that is safe in a terminal, a log or a parser of lines: bytes from ' ' to '~' only. Convert a string to Text
// only with Of, unless it is a Text already.
type Text string

// Of returns s with backslashes doubled, newline and tab as \n and \t, and everything else that is not printable ASCII as
// \xhh (a byte), \uhhhh or \Uhhhhhhhh (a character). Different strings have different texts.
func Of(s string) Text {
	if plain(s) {
		return Text(s)
	}
	return Text(escape(make([]byte, 0, len(s)+len(s)/2), s, true))
}

// plain reports whether Of changes nothing.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '\\' {
			return false
		}
	}
	return true
}

// escape appends s escaped, byte by byte and without package fmt: clients choose the text, and its length. Backslashes are
// doubled if backslashes is true.
func escape(dst []byte, s string, backslashes bool) []byte {
	for len(s) > 0 {
		c, n := s[0], 1
		switch {
		case c == '\\' && backslashes:
			dst = append(dst, `\\`...)
		case c >= ' ' && c <= '~':
			dst = append(dst, c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		default:
			var r rune
			if r, n = utf8.DecodeRuneInString(s); n == 1 { // a control character, or no UTF-8
				const digits = "0123456789abcdef"
				dst = append(dst, '\\', 'x', digits[c>>4], digits[c&15])
				break
			}
			start := len(dst)
			dst = strconv.AppendQuoteRuneToASCII(dst, r)
			copy(dst[start:], dst[start+1:]) // without the quotes
			dst = dst[:len(dst)-2]
		}
		s = s[n:]
	}
	return dst
}

// Parse is the inverse of Of. Characters that Of would have escaped may also be in text unescaped, so that people can type
// them. It returns ErrFormat for other escapes, and for a text that Cell has cut.
func Parse(text string) (string, error) {
	var dst []byte
	for rest := text; rest != ""; {
		if rest[0] != '\\' {
			dst, rest = append(dst, rest[0]), rest[1:]
			continue
		}
		if strings.HasPrefix(rest, cutMark) {
			return "", fmt.Errorf("%w: got %q, which is cut at %q; want the whole text, as --output json shows it", ErrFormat, text, rest)
		}
		n := unit(rest)
		r, multibyte, tail, err := strconv.UnquoteChar(rest[:n], 0)
		if err != nil || tail != "" {
			return "", fmt.Errorf("%w: got %q at byte %d of %q, want \\\\, \\n, \\t, \\xhh, \\uhhhh or \\Uhhhhhhhh", ErrFormat, rest[:n], len(text)-len(rest), text)
		}
		if multibyte {
			dst = utf8.AppendRune(dst, r)
		} else {
			dst = append(dst, byte(r))
		}
		rest = rest[n:]
	}
	return string(dst), nil
}

// unit returns the length of the escape, or of the one character, that text begins with.
func unit(text string) int {
	n := 1
	if text[0] == '\\' && len(text) > 1 {
		switch text[1] {
		case 'x':
			n = 4
		case 'u':
			n = 6
		case 'U':
			n = 10
		default:
			n = 2
		}
	}
	return min(n, len(text))
}

// cutMark begins the replacement for the end of a text that was too long. No escape of Of begins like it.
const cutMark = `\..`

// Cell returns t as a cell of a table whose columns are separated by " | ". A space at an end, beside another space or
// beside a | becomes \x20, so that no id can look like two cells, or like another id followed by a space. A text of more
// than width bytes keeps its beginning, and ends in \.. and eight hexadecimal digits of its SHA-256. A width of 0 cuts
// nothing.
func (t Text) Cell(width int) Text {
	s := spaces(string(t))
	if width <= 0 || len(s) <= width {
		return Text(s)
	}
	sum := sha256.Sum256([]byte(t))
	mark := fmt.Sprintf("%s%x", cutMark, sum[:4])
	end := 0
	for n := unit(s); end+n <= width-len(mark); n = unit(s[end:]) {
		end += n
	}
	return Text(s[:end] + mark)
}

// spaces escapes the spaces that look like those between cells.
func spaces(s string) string {
	beside := func(i int) bool { return i < 0 || i >= len(s) || s[i] == ' ' || s[i] == '|' }
	var b strings.Builder
	for i := range len(s) {
		if s[i] == ' ' && (beside(i-1) || beside(i+1)) {
			b.WriteString(`\x20`)
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// Lines returns s with its newlines, and with everything else that is not printable ASCII escaped as Of does. Backslashes
// stay: Lines is for floodgate's own messages, in which most quoted text is escaped already, and escapes the rest.
func Lines(s string) string {
	var dst []byte
	for line := range strings.SplitSeq(s, "\n") {
		dst = append(escape(dst, line, false), '\n')
	}
	return string(dst[:len(dst)-1])
}

// Base64 returns s in base64 (RFC 4648, standard, padded) if it is not UTF-8, else nothing. JSON cannot contain such a
// string: it has U+FFFD for each wrong byte there, so that a second field has the base64.
func Base64(s string) string {
	if utf8.ValidString(s) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(s))
}
