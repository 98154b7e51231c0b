package printable

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// hostile is what a client may put into an id to make a terminal, a table, a log or a reader do something.
func hostile() []string {
	return []string{
		"", "plain", " ", "  ", " a", "a ", "a  b", "a | b", "a |b", "a| b", "|", "||", "203.0.113.9|GET /search", `\`, `\\`, `\x1b`, `\u202e`, `\n`, `\..`, `\..0badc0de`, `a\`,
		"\x1b[2J\x1b]0;title\x07", "\x9b2J", "\u009b2J", "\u0085", "\x00", "a\nb", "a\r\n| r | key:b | 9 |", "a\tb", "\x7f", "\x80", "\xff", "a\xff", "a\xfe", "\ufffd", "\xed\xa0\x80",
		"\u202egnp.exe", "\u2066", "\u200b", "\u200d", "\ufeff", "\u00ad", "\u2028", "\u3164", "\u05d0", "a\u0301", "\U000e0041", "\ufe0f", "\u0430dmin", "é", "\U0001f600",
		strings.Repeat("x", 256), strings.Repeat("\x1b", 256), strings.Repeat(" ", 256), strings.Repeat(`\`, 255), strings.Repeat("é", 128), strings.Repeat("\xff", 256), "\"quoted\" a=b", "%s%n", "</script>&amp;",
	}
}

func safe(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

func TestTextsReadWell(t *testing.T) {
	for in, want := range map[string]Text{
		"key:abc-1": "key:abc-1", "2001:db8::|GET /a?b=c": "2001:db8::|GET /a?b=c", "a\tb\n": `a\tb\n`, "\x1b[31m": `\x1b[31m`, `\x1b`: `\\x1b`,
		"é\xff": `\u00e9\xff`, "\U0001f600": `\U0001f600`, "\u202e": `\u202e`, "\u0085\x85": `\u0085\x85`, "\ufffd": `\ufffd`, "\x7f": `\x7f`, "": "", " a ": " a ",
	} {
		if got := Of(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

// TestNoTextIsThatOfAnotherString: not of one that spells its escapes, either.
func TestNoTextIsThatOfAnotherString(t *testing.T) {
	texts, cells := make(map[Text]string), make(map[Text]string)
	for _, s := range hostile() {
		for _, s := range []string{s, string(Of(s)) + "'", string(Of(s))} {
			text := Of(s)
			if other, ok := texts[text]; ok && other != s {
				t.Errorf("%q and %q: got %s for both", s, other, text)
			}
			texts[text] = s
			cell := text.Cell(0)
			if other, ok := cells[cell]; ok && other != s {
				t.Errorf("%q and %q: got the cell %s for both", s, other, cell)
			}
			cells[cell] = s
			for _, printed := range []Text{text, cell} {
				if back, err := Parse(string(printed)); err != nil || back != s || !safe(string(printed)) {
					t.Errorf("%q: got %s, and back %q, %v", s, printed, back, err)
				}
			}
		}
	}
}

func TestACellIsOneCell(t *testing.T) {
	for in, want := range map[string]Text{
		"203.0.113.9|GET /a": "203.0.113.9|GET /a", "key:a |    9 | b": `key:a\x20|\x20\x20\x20\x209\x20|\x20b`, "key:a ": `key:a\x20`, "a b": "a b", " ": `\x20`,
	} {
		if got := Of(in).Cell(0); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
	for _, s := range hostile() {
		if cell := string(Of(s).Cell(0)); strings.Contains(cell, " |") || strings.Contains(cell, "| ") || strings.Contains(cell, "  ") || strings.TrimSpace(cell) != cell {
			t.Errorf("%q: got %q, in which a table can be drawn", s, cell)
		}
	}
}

// TestLongCellsAreCut between escapes, so that what is left can be read, and so that it can be told from other cells.
func TestLongCellsAreCut(t *testing.T) {
	const width = 40
	seen := make(map[Text]string)
	for _, s := range hostile() {
		for _, s := range []string{s, s + "1", s + "2", strings.Repeat("k", 27) + s, strings.Repeat("k", 28) + s + strings.Repeat("z", width)} {
			cell := Of(s).Cell(width)
			if other, ok := seen[cell]; ok && other != s {
				t.Errorf("%q and %q: got %s for both", s, other, cell)
			}
			seen[cell] = s
			whole := Of(s).Cell(0)
			if len(cell) > width || len(whole) <= width && cell != whole {
				t.Errorf("%q: got %s", s, cell)
			}
			if len(whole) <= width {
				continue
			}
			end := len(cell) - len(cutMark) - 8
			beginning, err := Parse(string(cell[:end]))
			if err != nil || !strings.HasPrefix(s, beginning) || end < width-len(cutMark)-8-9 {
				t.Errorf("%q: got %s, of which %q, %v can be read", s, cell, beginning, err)
			}
			if _, err := Parse(string(cell)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "cut") {
				t.Errorf("%s: got %v, want that it is cut", cell, err)
			}
		}
	}
}

func TestOtherEscapesAreRefused(t *testing.T) {
	for _, text := range []string{`\`, `\q`, `\x`, `\x1`, `\xzz`, `\u12`, `\ud800`, `\U00110000`, `\101`, `\'`, `a\`, `\..`, `a\..00000000`} {
		if got, err := Parse(text); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: got %q, %v, want %v", text, got, err, ErrFormat)
		}
	}
	if got, err := Parse("é\x1b"); err != nil || got != "é\x1b" {
		t.Errorf("typed as it is: got %q, %v", got, err)
	}
}

func TestLinesKeepWhatIsQuotedAlready(t *testing.T) {
	for in, want := range map[string]string{
		"a\nb\n": "a\nb\n", `got "a\x1b"`: `got "a\x1b"`, "a\x1b\r\nb\u202e": `a\x1b\x0d` + "\n" + `b\u202e`, "": "", "\n": "\n", "\t": `\t`,
	} {
		if got := Lines(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func FuzzOf(f *testing.F) {
	for _, s := range hostile() {
		f.Add(s, 40)
	}
	f.Fuzz(func(t *testing.T, s string, width int) {
		text := Of(s)
		cell := text.Cell(width)
		if back, err := Parse(string(text)); err != nil || back != s {
			t.Errorf("got %s, and back %q, %v", text, back, err)
		}
		if !safe(string(text)) || !safe(string(cell)) || !safe(strings.ReplaceAll(Lines(s), "\n", "")) || strings.Count(Lines(s), "\n") != strings.Count(s, "\n") {
			t.Errorf("got %q, %q and %q", text, cell, Lines(s))
		}
		if width >= 12 && len(cell) > width {
			t.Errorf("got %d bytes, want %d", len(cell), width)
		}
		if (Base64(s) == "") != utf8.ValidString(s) {
			t.Errorf("got %q in base64", Base64(s))
		}
		if typed, err := Parse(s); err == nil { // what people type
			if again, err := Parse(string(Of(typed))); err != nil || again != typed {
				t.Errorf("typed %q: got %q, %v", typed, again, err)
			}
		}
	})
}
