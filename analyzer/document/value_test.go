package document

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// valueOf returns the value that a text is.
func valueOf(t testing.TB, text string) Value {
	t.Helper()
	d := Parse("f", []byte("v: "+text+"\n"), "a value")
	m, ok := d.Top("v")
	if !ok || d.Err() != nil {
		t.Fatalf("%q: %v", text, d.Err())
	}
	return m.Value("v")
}

// TestAValueIsOneThing: each accessor takes the values of its kind and no others.
func TestAValueIsOneThing(t *testing.T) {
	for _, c := range []struct {
		written string
		kind    string // the accessors that take it
		shown   string
	}{
		{"abc", "text", `"abc"`},
		{"'5'", "text", `"5"`},
		{`"a\nb"`, "text", `"a\nb"`},
		{"|\n  a\n  b", "text", `"a\nb\n"`},
		{"''", "text", `""`},
		{"yes", "text", `"yes"`},
		{"1m", "text", `"1m"`},
		{"1e3", "text", `"1e3"`},
		{"5", "integer number", "5"},
		{"-5", "integer number", "-5"},
		{"1_000", "integer number", "1_000"},
		{"0", "integer number", "0"},
		{"010", "", "010"},
		{"0x10", "", "0x10"},
		{"0b11", "", "0b11"},
		{"9223372036854775807", "integer number", "9223372036854775807"},
		{"9223372036854775808", "", "9223372036854775808"},
		{"0.5", "number", "0.5"},
		{".inf", "", ".inf"},
		{".nan", "", ".nan"},
		{"true", "boolean", "true"},
		{"false", "boolean", "false"},
		{"null", "", "nothing"},
		{"~", "", "nothing"},
		{"[]", "list", "a list"},
		{"[a]", "list", "a list"},
		{"\n  - a", "list", "a list"},
		{"{}", "pairs", "a mapping"},
		{"{a: b}", "pairs", "a mapping"},
		{"\n  a: b", "pairs", "a mapping"},
	} {
		v := valueOf(t, c.written)
		var kinds []string
		if _, ok := v.Text(); ok {
			kinds = append(kinds, "text")
		}
		if _, ok := v.Integer(); ok {
			kinds = append(kinds, "integer")
		}
		if _, ok := v.Number(); ok {
			kinds = append(kinds, "number")
		}
		if _, ok := v.Boolean(); ok {
			kinds = append(kinds, "boolean")
		}
		if _, ok := v.List(); ok {
			kinds = append(kinds, "list")
		}
		if _, ok := v.Pairs(); ok {
			kinds = append(kinds, "pairs")
		}
		if got := strings.Join(kinds, " "); got != c.kind || v.String() != c.shown || !v.Valid() {
			t.Errorf("%q: got %q, shown as %s, want %q and %s", c.written, got, v, c.kind, c.shown)
		}
	}
}

// TestNoValueIsNothing: what is absent has no value, and asking is no mistake.
func TestNoValueIsNothing(t *testing.T) {
	var v Value
	_, text := v.Text()
	_, integer := v.Integer()
	_, number := v.Number()
	_, boolean := v.Boolean()
	_, list := v.List()
	_, pairs := v.Pairs()
	if v.Valid() || text || integer || number || boolean || list || pairs || v.Position() != (Position{}) {
		t.Error("got something from no value")
	}
}

// TestNumbersAtTheEdge: numbers that a limit cannot be are refused as they are written, and never wrap.
func TestNumbersAtTheEdge(t *testing.T) {
	tests := map[string]string{ // by what is written; the message, or "" if accepted
		"1": "", "100000000000000000": "", "1_000": "", "+5": "",
		"100000000000000001": "limit: got 100000000000000001, want", "9223372036854775807": "limit: got 9223372036854775807",
		"9223372036854775808": "limit: got", "18446744073709551617": "limit: got", "-1": "limit: got -1, want 1 or more", "-0": "limit: got",
		"0x10": "limit: got 0x10", "0o17": "limit: got 0o17", "0b11": "limit: got 0b11", "017": "limit: got 017",
		"1.0": "limit: got 1.0", "-.inf": "limit: got -.inf", "true": "limit: got true", "'1'": `limit: got "1"`, "[1]": "limit: got a list",
		"{1: 1}": "limit: got a mapping", "1 000": `limit: got "1 000"`, strings.Repeat("9", 10_000): `limit: got "9999`, "١": `limit: got "١"`,
		"2026-11-21": "limit: got", "12:30:45": "limit: got", "~": "limit: got nothing",
	}
	for _, written := range slices.Sorted(maps.Keys(tests)) {
		s, d := readSample([]byte("name: n\nlimit: " + written + "\n"))
		err, want := d.Err(), tests[written]
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || s.Limit != 7) {
			t.Errorf("%.40s: got %d and %.300v, want %q", written, s.Limit, err, want)
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("%.40s: got %d bytes of error, want few", written, len(err.Error()))
		}
	}
}

// TestNumbers: infinities and NaN are none.
func TestNumbers(t *testing.T) {
	for written, want := range map[string]float64{"0.5": 0.5, "-1.5": -1.5, "3": 3, "1.5e3": 1500} {
		if got, ok := valueOf(t, written).Number(); !ok || got != want {
			t.Errorf("%s: got %v, %t, want %v", written, got, ok, want)
		}
	}
	for _, none := range []string{".inf", "-.inf", ".nan", "'1'", "0x1p3", "1.5.5"} {
		if got, ok := valueOf(t, none).Number(); ok {
			t.Errorf("%s: got %v, want it refused", none, got)
		}
	}
}

// TestPairsAndListsKeepTheOrderOfTheFile, and know where each key stands.
func TestPairsAndListsKeepTheOrderOfTheFile(t *testing.T) {
	pairs, ok := valueOf(t, "\n  z: 1\n  a: [x]\n  z: {}\n").Pairs()
	var got []string
	for _, p := range pairs {
		got = append(got, fmt.Sprintf("%s=%v@%d:%d", p.Key, p.Value, p.At.Line, p.At.Column))
	}
	if want := "z=1@2:3 a=a list@3:3 z=a mapping@4:3"; !ok || strings.Join(got, " ") != want {
		t.Errorf("got %q, want %s", got, want)
	}
	list, ok := valueOf(t, "[b, 5, {a: b}, [c], ~]").List()
	got = got[:0]
	for _, v := range list {
		got = append(got, fmt.Sprintf("%v@%d", v, v.Position().Column))
	}
	if want := `"b"@5 5@8 a mapping@11 a list@19 nothing@24`; !ok || strings.Join(got, " ") != want {
		t.Errorf("got %q, want %s", got, want)
	}
}

// TestLongTextIsCutBetweenCharacters: a message quotes at most so much of the file, in whole characters.
func TestLongTextIsCutBetweenCharacters(t *testing.T) {
	for _, letter := range []string{"x", "ä", "€", "💥"} {
		for shift := range 4 {
			long := strings.Repeat("x", shift) + strings.Repeat(letter, 200)
			got := Clip(long)
			if !utf8.ValidString(got) || !strings.HasSuffix(got, "...") || !strings.HasPrefix(long, strings.TrimSuffix(got, "...")) || len(got) > 123 {
				t.Errorf("%d letters and %s: got %q, want it cut at a letter", shift, letter, got)
			}
			if err := readText("name: n\nkind: " + long + "\n"); err == nil || !utf8.ValidString(err.Error()) || strings.Contains(err.Error(), `\x`) {
				t.Errorf("%d letters and %s: got %q", shift, letter, err)
			}
		}
	}
	for _, short := range []string{"", "x", strings.Repeat("x", 120)} {
		if Clip(short) != short {
			t.Errorf("%q is cut to %q", short, Clip(short))
		}
	}
}

// TestAnyTextCanBeQuoted: what JSON writes as a string is read as that text, as a key and as a value. Nothing in a quote means
// anything to YAML.
func TestAnyTextCanBeQuoted(t *testing.T) {
	texts := []string{"&a", "*a", "!!int", "<<", "? x", "%TAG", "- a", "{a: b}", "# no comment", "| ", "null", "~", "yes", "0x10", "1e3", "\r\n", "\ufffd", "💥"}
	for _, text := range texts {
		checkQuoted(t, text)
	}
	rapid.Check(t, func(t *rapid.T) { checkQuoted(t, rapid.StringN(1, 100, 400).Draw(t, "text")) })
}

// fataler is a test of this package or of rapid.
type fataler interface {
	Fatalf(format string, args ...any)
}

func checkQuoted(t fataler, text string) {
	quoted, err := json.Marshal(text)
	if err != nil || !utf8.ValidString(text) || strings.ContainsRune(text, '\x7f') {
		return
	}
	d := Parse("f", fmt.Appendf(nil, "each: {%s: %s}\n", quoted, quoted), "a mapping")
	m, ok := d.Top("each")
	if !ok || d.Err() != nil {
		t.Fatalf("%s: got %v", quoted, d.Err())
	}
	found := 0
	m.Each("each", 1, func(key string, v Mapping) {
		got, ok := v.Text(key, "a text")
		if key != text || !ok || got != text {
			t.Fatalf("%s: got the key %q and the value %q", quoted, key, got)
		}
		found++
	})
	if d.Err() != nil || found != 1 {
		t.Fatalf("%s: found %d times, %v", quoted, found, d.Err())
	}
}
