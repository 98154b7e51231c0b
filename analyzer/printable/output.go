package printable

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns an encoder to w that writes printable ASCII only: other characters in a string become \uhhhh. Readers of
// JSON read the same string. Characters of HTML stay as they are.
func JSON(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(jsonWriter{w})
	enc.SetEscapeHTML(false)
	return enc
}

// jsonWriter escapes JSON. Each Write must be a whole value. The characters that it escapes occur in strings only.
type jsonWriter struct{ to io.Writer }

func (w jsonWriter) Write(p []byte) (int, error) {
	b := make([]byte, 0, len(p)+len(p)/8)
	for rest := p; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r < 0x7f:
			b = append(b, byte(r))
		case r <= 0xffff:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		}
		rest = rest[n:]
	}
	if _, err := w.to.Write(b); err != nil {
		return 0, err
	}
	return len(p), nil
}

// TextHandler returns a handler in slog's text format, whose lines are printable ASCII. It drops what is below a level. A value with a
// backslash, or with anything but printable ASCII, stands in quotes and is escaped as Go quotes it; nothing in a value can end its line.
func TextHandler(w io.Writer, level slog.Leveler) slog.Handler {
	return slog.NewTextHandler(lineWriter{w}, &slog.HandlerOptions{Level: level, ReplaceAttr: quote})
}

// JSONHandler returns a handler that writes each record as one JSON object in one line of printable ASCII, and drops what is below a
// level. Whatever bytes a value has, the line is valid JSON: bytes that are not UTF-8 become \ufffd. Times are in RFC 3339, durations
// such as "1.5s", and errors their text.
func JSONHandler(w io.Writer, level slog.Leveler) slog.Handler {
	return slog.NewJSONHandler(jsonWriter{w}, &slog.HandlerOptions{Level: level, ReplaceAttr: textual})
}

// textual makes the handler write values as people write them: slog would write a duration as a number, and what has a String method
// as json.Marshal does.
func textual(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindDuration:
		a.Value = slog.StringValue(a.Value.String())
	case slog.KindAny:
		switch a.Value.Any().(type) {
		case error, slog.Level:
		case fmt.Stringer:
			a.Value = slog.StringValue(a.Value.String())
		}
	default:
	}
	return a
}

// quote makes the handler quote values that are not plain. slog always quotes a byte slice as Go does, but a string only if
// it contains a space or a similar character.
func quote(_ []string, a slog.Attr) slog.Attr {
	if k := a.Value.Kind(); k != slog.KindString && k != slog.KindAny {
		return a
	}
	if s := a.Value.String(); !plain(s) {
		a.Value = slog.AnyValue([]byte(s))
	}
	return a
}

// lineWriter escapes the characters that a handler leaves in its lines, because Go considers them printable although they
// are not ASCII. They are inside quotes, where backslashes are doubled.
type lineWriter struct{ to io.Writer }

func (w lineWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, Lines(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Error returns the text of err, safe for a terminal. Backslashes stay, because errors quote the values in them. All lines
// except the first are indented, so that none of them looks like an error, or an output, of its own.
func Error(err error) string { return strings.ReplaceAll(Lines(err.Error()), "\n", "\n    ") }
