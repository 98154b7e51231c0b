package document

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/pattern"
)

// sample is a file with a field of each kind, as tests read it.
type sample struct {
	Name     string
	Kind     string
	Limit    int64
	Share    float64
	On       bool
	Wait     time.Duration
	Words    []string
	Statuses []pattern.StatusRange
	Networks []netip.Prefix
	Inner    int64
	Items    []int64
	Each     map[string]string
	None     bool
}

// readSample reads a sample. A warning is reported for each field named x in the list of items.
func readSample(data []byte) (s sample, d *Document) {
	d = Parse("f", data, "a sample")
	m, ok := d.Top("name", "kind", "limit", "share", "on", "wait", "words", "statuses", "networks", "inner", "items", "each", "none")
	if !ok {
		return s, d
	}
	if s.Name, ok = m.Required("name", "a name"); ok && len(s.Name) > 64 {
		m.Fail("name", "got %d bytes, want at most 64", len(s.Name))
	}
	s.Kind = m.Choice("kind", "small", "medium", "large")
	s.Limit = m.Integer("limit", 1, MaxInteger, 7)
	s.Share = m.Number("share", 0.5, 2, 1)
	s.On = m.Boolean("on", true)
	s.Wait = m.Duration("wait", time.Millisecond, 48*time.Hour, time.Second)
	s.Words = m.Texts("words", "a word", 3)
	s.Statuses = m.Statuses("statuses", 3)
	s.Networks = m.Networks("networks", 3)
	if in, ok := m.Nested("inner", "n"); ok {
		s.Inner = in.Integer("n", 1, 9, 5)
		if !in.Has("n") {
			in.Warn("n", "is not there")
		}
	}
	for _, item := range m.Mappings("items", 3, "n") {
		s.Items = append(s.Items, item.Integer("n", 1, 9, 5))
	}
	m.Each("each", 3, func(key string, v Mapping) {
		if s.Each == nil {
			s.Each = make(map[string]string)
		}
		s.Each[key], _ = v.Text(key, "a text")
	})
	s.None = m.Says("none", "none")
	return s, d
}

// readText returns what is wrong with a sample, nil if nothing is.
func readText(text string) error {
	_, d := readSample([]byte(text))
	return d.Err()
}

func TestEachKindOfFieldIsRead(t *testing.T) {
	s, d := readSample([]byte("name: n\nkind: large\nlimit: 1_000\nshare: 1.5\non: false\nwait: 1d\nwords: [a, 'b c']\nstatuses: [404, 5xx]\n" +
		"networks: [192.0.2.1, '::ffff:198.51.100.0/120', 2001:db8::/32]\ninner: {n: 3}\nitems: [{n: 1}, {}]\neach: {a: x, '1': y}\nnone: none\n"))
	if err := d.Err(); err != nil || len(d.Warnings()) != 0 {
		t.Fatal(err, d.Warnings())
	}
	want := sample{
		Name: "n", Kind: "large", Limit: 1000, Share: 1.5, Wait: 24 * time.Hour, Words: []string{"a", "b c"},
		Statuses: []pattern.StatusRange{{From: 404, To: 404}, {From: 500, To: 599}},
		Networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("2001:db8::/32")},
		Inner:    3, Items: []int64{1, 5}, Each: map[string]string{"a": "x", "1": "y"}, None: true,
	}
	if got, want := fmt.Sprintf("%+v", s), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// An absent field is its fallback, and a single value is a list of itself.
func TestAbsentFieldsAndListsOfOne(t *testing.T) {
	s, d := readSample([]byte("name: n\nwords: one\nstatuses: 1xx\nnetworks: '::1'\nitems: {n: 2}\ninner: {}\n"))
	want := sample{
		Name: "n", Kind: "small", Limit: 7, Share: 1, On: true, Wait: time.Second, Words: []string{"one"},
		Statuses: []pattern.StatusRange{{From: 100, To: 199}}, Networks: []netip.Prefix{netip.MustParsePrefix("::1/128")}, Inner: 5, Items: []int64{2},
	}
	if got, want := fmt.Sprintf("%+v", s), fmt.Sprintf("%+v", want); got != want || d.Err() != nil {
		t.Errorf("got\n%s\nwant\n%s (%v)", got, want, d.Err())
	}
	if w := d.Warnings(); len(w) != 1 || w[0].Error() != "f:6:8: n: is not there" {
		t.Errorf("got warnings %v", w)
	}
}

// TestEachErrorSaysWhatAndWhere: the place is marked in the text: ¶ stands before the character that is meant.
func TestEachErrorSaysWhatAndWhere(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"¶", "got nothing, want a sample"},
		{"¶[a]", "file: got a list, want a mapping"},
		{"¶on: true", "name: missing, want a name"},
		{"name: ¶5", "name: got 5, want a name"},
		{"name: ¶" + strings.Repeat("x", 65), "name: got 65 bytes, want at most 64"},
		{"name: n\nkind: ¶huge", `kind: got "huge", want small, medium or large`},
		{"name: n\nkind: ¶{}", `kind: got a mapping, want small, medium or large`},
		{"name: n\nlimit: ¶0", "limit: got 0, want 1 or more"},
		{"name: n\nlimit: ¶100000000000000001", "limit: got 100000000000000001, want a whole number from 1 to 100000000000000000"},
		{"name: n\nlimit: ¶010", "limit: got 010, want a whole number"},
		{"name: n\nshare: ¶0.4", "share: got 0.4, want a number from 0.5 to 2"},
		{"name: n\non: ¶yes", `on: got "yes", want true or false`},
		{"name: n\nwait: ¶90", `wait: got 90, want a duration such as 30s`},
		{"name: n\nwait: ¶90x", `wait: got "90x", want a duration such as 90s, 1h30m, 7d or 2w`},
		{"name: n\nwait: ¶3d", `wait: got 3d, want 1ms to 2d`},
		{"name: n\nwords: ¶[]", "words: got 0 in the list, want 1 to 3"},
		{"name: n\nwords: ¶[a, b, c, d]", "words: got 4 in the list, want 1 to 3"},
		{"name: n\nwords: [a, ¶'']", `words: got "", want a word`},
		{"name: n\nwords:\n  - a\n  - ¶[b]", `words: got a list, want a word`},
		{"name: n\nstatuses: [200, ¶'200']", `statuses: got "200", want 100 to 599, or 1xx to 5xx`},
		{"name: n\nstatuses: [¶99]", `statuses: got 99, want 100 to 599, or 1xx to 5xx`},
		{"name: n\nstatuses: ¶6xx", `statuses: got "6xx", want 100 to 599, or 1xx to 5xx`},
		{"name: n\nstatuses: ¶65936", `statuses: got 65936`}, // 400 in sixteen bits
		{"name: n\nnetworks: [10.0.0.0/8, ¶10.0.0.1/8]", `networks: got "10.0.0.1/8", want the network's first address: 10.0.0.0/8`},
		{"name: n\nnetworks: ¶::ffff:0:0/90", `networks: got "::ffff:0:0/90", want IPv4 networks written as such`},
		{"name: n\nnetworks: ¶fe80::1%eth0", `networks: got "fe80::1%eth0", want an address, or a network such as 198.51.100.0/24`},
		{"name: n\nnetworks: ¶1", `networks: got 1, want an address`},
		{"name: n\ninner: ¶5", `inner: got 5, want a mapping`},
		{"name: n\ninner: {¶m: 5}", `m: unknown field, did you mean n?`},
		{"name: n\nitems: [{n: 1}, {n: ¶10}]", `n: got 10, want a whole number from 1 to 9`},
		{"name: n\neach: ¶[a]", `each: got a list, want a mapping`},
		{"name: n\neach: ¶{}", `each: got 0, want 1 to 3`},
		{"name: n\neach: {a: x, ¶a: y}", `a: given twice`},
		{"name: n\neach: {a: ¶1}", `a: got 1, want a text`},
		{"name: n\n¶name: m", `name: given twice`},
		{"name: n\n¶limitt: 5", `limitt: unknown field, did you mean limit?`},
		{"name: n\n¶\"\\x1b[2J\": 5", `\x1b[2J: unknown field, want one of name`},
		{"name: n\nlimit: ¶&a 5", `got &, want plain YAML`},
		{"name: n\n---\n¶name: m", `got a second document, want one`},
		{"name: ¶\xff", `got byte 0xff, want UTF-8`},
		{"name: äöü¶\xff", `got byte 0xff, want UTF-8`},
		{"\ufeffname: ¶5", `name: got 5, want a name`},
		{"# ä\r\nname: n\r\nlimit: ¶0\r\n", `limit: got 0`},
	} {
		before, after, _ := strings.Cut(test.text, "¶")
		visible := strings.TrimPrefix(before, "\ufeff")
		lines := strings.Split(visible, "\n")
		want := fmt.Sprintf("f:%d:%d: %s", len(lines), 1+len([]rune(lines[len(lines)-1])), test.want)
		if err := readText(before + after); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", test.text, err, want)
		}
	}
}

func TestSuggestions(t *testing.T) {
	known := []string{"limit", "window", "count_blocked", "overrides"}
	for name, want := range map[string]string{
		"limt": "limit", "Limit": "limit", "windows": "window", "countblocked": "count_blocked", "count-blocked": "count_blocked",
		"override": "overrides", "x": "", "limitation": "", "": "",
	} {
		got := suggest(name, known)
		if want == "" && !strings.HasPrefix(got, ", want one of") || want != "" && got != ", did you mean "+want+"?" {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestTheClosestNameIsMeant, and not the first that is close; none where no name is.
func TestTheClosestNameIsMeant(t *testing.T) {
	known := []string{"topic-request", "topic-requests", "data", "tls"}
	for name, want := range map[string]string{
		"topic-requests": "topic-requests", "topic-requestss": "topic-requests", "Topic-Requst": "topic-request", "dat": "data", "DATA": "data",
		"tsl": "tls", "dtaa": "data", "stl": "", "": "", "x": "", "datum": "", // two swapped letters are one mistake
	} {
		if got := Closest(name, known); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if got := Closest("a", nil); got != "" {
		t.Errorf("of no names: got %q, want none", got)
	}
}

// TestWhatIsMisspeltIsNotLacking: a reader then reports no missing field beside the misspelt one.
func TestWhatIsMisspeltIsNotLacking(t *testing.T) {
	m, ok := Parse("f", []byte("limt: 1\nother: 2\nname: n\n"), "a mapping").Top("limit", "name", "window")
	if !ok || m.Has("limit") || m.Lacks("limit") || m.Lacks("name") || !m.Lacks("window") || !m.Lacks("absent") {
		t.Errorf("got limit lacking %t, name %t, window %t, want only window", m.Lacks("limit"), m.Lacks("name"), m.Lacks("window"))
	}
}

// TestAMappingKnowsItsFields, and where each stands; what is asked for without a reader's check is reported nowhere.
func TestAMappingKnowsItsFields(t *testing.T) {
	d := Parse("f", []byte("a: none\nb: [1]\nc:\n  d: 5\n"), "a mapping")
	m, ok := d.Top("a", "b", "c", "absent")
	if !ok || m.Document() != d {
		t.Fatal(d.Err())
	}
	for field, want := range map[string]struct {
		has, says bool
		at        Position
	}{
		"a":      {true, true, Position{1, 4}},
		"b":      {true, false, Position{2, 4}},
		"c":      {true, false, Position{4, 3}},
		"absent": {false, false, Position{1, 1}},
	} {
		if m.Has(field) != want.has || m.Says(field, "none") != want.says || m.Position(field) != want.at || m.Value(field).Valid() != want.has {
			t.Errorf("%s: got %t, %t, %v, want %+v", field, m.Has(field), m.Says(field, "none"), m.Position(field), want)
		}
	}
	if d.Err() != nil {
		t.Errorf("got %v", d.Err())
	}
	in, ok := m.Nested("c", "d", "e")
	if !ok || in.Integer("d", 1, 9, 0) != 5 {
		t.Error("got no mapping in c")
	}
	if _, ok := in.Required("e", "a text"); ok || d.Err().Error() != "f:4:3: e: missing, want a text" {
		t.Errorf("got %v", d.Err())
	}
	if _, ok := m.Nested("absent"); ok || len(d.Warnings()) != 0 {
		t.Error("got a mapping that is not there, or a warning")
	}
	m.Warn("b", "is %s", "short")
	in.Warn("e", "is not there")
	var got []string
	for _, w := range d.Warnings() {
		got = append(got, w.Error())
	}
	if want := "f:2:4: b: is short; f:4:3: e: is not there"; strings.Join(got, "; ") != want {
		t.Errorf("got %q, want %s", got, want)
	}
}

// TestEachSlipOfOneLetterIsSuggested: a known name with one letter more, fewer or other is suggested, wherever the letter is.
func TestEachSlipOfOneLetterIsSuggested(t *testing.T) {
	for _, known := range []string{"limit", "window", "callers"} {
		for i := range len(known) {
			for _, typed := range []string{known[:i] + known[i+1:], known[:i] + "x" + known[i+1:], known[:i] + "x" + known[i:]} {
				if got := suggest(typed, []string{"zzzzzzzz", known}); got != ", did you mean "+known+"?" {
					t.Errorf("%s: got %q, want %s", typed, got, known)
				}
			}
		}
	}
}
