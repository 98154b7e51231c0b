package reject

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// hostile is what attackers put into lines to make a terminal, a log or a parser do something.
func hostile() []string {
	return []string{
		"", "plain", "\x1b[2J\x1b]0;title\x07", "a\nb\r\nc\td", "\x00\x01\x7f\xff\xfe", `back\slash "quote"`, "\u202egnp.exe", "é\U0001f600",
		`{"reason":"forged"}`, strings.Repeat("x", 3*maxLine), strings.Repeat("\xff", 2*maxLine), "</script>&amp;", "%s%n", "\u2028",
	}
}

func printableOnly(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

func TestNothingHostileIsLeft(t *testing.T) {
	at := time.Unix(1, 2)
	for _, line := range hostile() {
		r := New(at, "kafka:access/3", 42, "bad json", []byte(line))
		b := r.Encode()
		got, err := Decode(b)
		if err != nil || got != r || !got.Time.Equal(at) {
			t.Errorf("%.40q: got %+v, %v, want %+v", line, got, err, r)
		}
		if !printableOnly(got.Line) || !printableOnly(string(b)) || got.Bytes != len(line) || len(got.Line) > 10*maxLine {
			t.Errorf("%.40q: got %q", line, got.Line)
		}
	}
}

func TestEscapedLinesReadWell(t *testing.T) {
	for line, want := range map[string]string{
		"GET /a?b HTTP/1.1": "GET /a?b HTTP/1.1", "a\tb\n": `a\tb\n`, "\x1b[31m": `\x1b[31m`, `\x1b`: `\\x1b`, "é\xff": `\u00e9\xff`,
		"\U0001f600": `\U0001f600`,
	} {
		if got := escape([]byte(line)); got != want {
			t.Errorf("%q: got %s, want %s", line, got, want)
		}
	}
}

// TestForeignMessagesDoNothing: anybody who may write to the topic may write anything.
func TestForeignMessagesDoNothing(t *testing.T) {
	for _, value := range []string{"", "x", "{}", "[]", "null", `{"reason":""}`, `{"reason":5}`, `{"time":"soon","reason":"x"}`, strings.Repeat("[", 10000)} {
		if got, err := Decode([]byte(value)); !errors.Is(err, ErrFormat) {
			t.Errorf("%.40q: got %+v, %v", value, got, err)
		}
	}
	r, err := Decode([]byte(`{"time":"2015-05-17T10:05:03Z","source":"\u001b[2J","offset":1,"reason":"\u202e","bytes":1,"line":"a\nb"}`))
	if err != nil || !printableOnly(r.Source+r.Reason+r.Line) || r.Line != `a\nb` {
		t.Errorf("got %+v, %v", r, err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, line := range hostile() {
		r := New(time.Unix(1, 0), "file:/x", 7, "bad time", []byte(line))
		f.Add(r.Encode())
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := Decode(value)
		if err != nil {
			if !errors.Is(err, ErrFormat) || r != (Reject{}) {
				t.Errorf("got %+v, %v", r, err)
			}
			return
		}
		if !printableOnly(r.Source + r.Reason + r.Line) {
			t.Errorf("got %+v", r)
		}
		if again := escape(value); !printableOnly(again) {
			t.Errorf("escaped to %q", again)
		}
	})
}

// TestLongLinesAreCut on a byte, also where that is inside of a character: the rest says how long the line was.
func TestLongLinesAreCut(t *testing.T) {
	for n, text := range map[int]string{
		maxLine:     strings.Repeat("a", maxLine),
		maxLine + 1: strings.Repeat("a", maxLine+1),
		2 * maxLine: strings.Repeat("é", maxLine),
	} {
		r := New(time.Unix(1, 0), "file:/x", 0, "line too long", []byte(text))
		if r.Bytes != n || len(r.Line) < maxLine || !printableOnly(r.Line) {
			t.Errorf("%d bytes: got %d, %d of them shown", n, r.Bytes, len(r.Line))
		}
	}
}

// TestSourcesDiffer also where JSON could not hold their names.
func TestSourcesDiffer(t *testing.T) {
	seen := make(map[string]string)
	for _, source := range []string{"file:/a\xff.log", "file:/a\xfe.log", "file:/a\ufffd.log", `file:/a\xff.log`, "file:/\x1b[2J", `file:/\x1b[2J`} {
		r := New(time.Unix(1, 0), source, 0, "empty", nil)
		got, err := Decode(r.Encode())
		if other, ok := seen[got.Source]; err != nil || ok || !printableOnly(got.Source) {
			t.Errorf("%q: got %s, %v, as of %q", source, got.Source, err, other)
		}
		seen[got.Source] = source
	}
}

func TestOffsetsAndTimesComeBack(t *testing.T) {
	at := time.Date(2015, 5, 17, 12, 5, 3, 5, time.FixedZone("", 7200))
	for _, offset := range []int64{0, 1, 1 << 53, 1<<63 - 1} {
		r := New(at, "kafka:t/0", offset, "empty", nil)
		if got, err := Decode(r.Encode()); err != nil || got.Offset != offset || !got.Time.Equal(at) || got.Time.Location() != time.UTC {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}
