package reject

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// chosen are lines as long as is kept, as a client may choose them whose line is refused.
func chosen() map[string][]byte {
	return map[string][]byte{
		"letters":          bytes.Repeat([]byte("a"), maxLine),
		"control bytes":    bytes.Repeat([]byte{1}, maxLine),
		"no UTF-8":         bytes.Repeat([]byte{0xff}, maxLine),
		"two bytes a rune": bytes.Repeat([]byte("é"), maxLine/2),
		"four bytes":       bytes.Repeat([]byte("\U0001f600"), maxLine/4),
		"backslashes":      bytes.Repeat([]byte(`\`), maxLine),
	}
}

// TestNoByteCostsAnAllocation: a client that makes a server log what is refused chooses each byte of it. No byte costs more
// than its place in the result.
func TestNoByteCostsAnAllocation(t *testing.T) {
	for name, line := range chosen() {
		if n := testing.AllocsPerRun(20, func() { escape(line) }); n > 8 {
			t.Errorf("%s: got %v allocations for %d bytes, want at most 8", name, n, len(line))
		}
	}
}

// Each byte and rune is escaped as package fmt and strconv would.
func TestEscapesAreThoseOfGo(t *testing.T) {
	for c := range 256 {
		want := fmt.Sprintf(`\x%02x`, c)
		switch {
		case c == '\\':
			want = `\\`
		case c == '\n':
			want = `\n`
		case c == '\t':
			want = `\t`
		case c >= ' ' && c < 0x7f:
			want = string(rune(c))
		}
		if got := escape([]byte{byte(c)}); got != want {
			t.Errorf("byte %d: got %q, want %q", c, got, want)
		}
	}
	for r := rune(utf8.RuneSelf); r <= utf8.MaxRune; r += 1 + r/64 {
		if !utf8.ValidRune(r) {
			continue
		}
		want := strings.Trim(strconv.QuoteRuneToASCII(r), "'")
		if got := escape([]byte(string(r))); got != want {
			t.Errorf("rune %U: got %q, want %q", r, got, want)
		}
	}
}

// BenchmarkChosenInput makes and encodes the reject of a line.
func BenchmarkChosenInput(b *testing.B) {
	for name, line := range chosen() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r := New(time.Unix(0, 0), "file:/var/log/access.log", 1, "ambiguous quotes", line)
				b.SetBytes(int64(len(r.Encode())))
			}
		})
	}
}
