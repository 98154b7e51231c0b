package rules

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/document"
)

func TestLoadSaysWhichFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.yaml")
	if _, err := Load(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want os.ErrNotExist", err)
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("got no error from a directory")
	}
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("version: 3\nrules: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(bad)
	var one *document.Error
	if !errors.As(err, &one) || one.File != bad || one.Line != 1 || one.Column != 10 {
		t.Errorf("got %+v", one)
	}
	if got, want := err.Error(), bad+":1:10: version: got 3, want 1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNothingOrNullIsRefused(t *testing.T) {
	for _, text := range []string{"", "\n", "---\n", "null", "~", "---\n---\n", "\xef\xbb\xbf"} {
		if _, err := Parse("r", []byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// Everything has a limit, and what is over one is refused before it costs anything.
func TestLimits(t *testing.T) {
	rule := func(i int) string { return fmt.Sprintf("  - {name: r%d, callers: key, limit: 1, window: 1m}\n", i) }
	rules := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(rule(i))
		}
		return b.String()
	}
	overrides := func(n int) string {
		var b strings.Builder
		b.WriteString("  - {name: r, callers: key, limit: 1, window: 1m, overrides: {")
		for i := range n {
			fmt.Fprintf(&b, "k%d: 1, ", i)
		}
		return b.String() + "}}\n"
	}
	list := func(field, entry string, n int) string {
		return "  - {name: r, callers: key, limit: 1, window: 1m, " + field + strings.Repeat(entry+", ", n) + "]}}\n"
	}
	const head = "version: 1\nrules:\n"
	tests := []struct {
		name string
		text string
		want string // "" is accepted
	}{
		{"a thousand rules", head + rules(MaxRules), ""},
		{"one more", head + rules(MaxRules+1), "r:3:3: rules: got 1001, want at most 1000"},
		{"many overrides", head + overrides(maxOverrides), ""},
		{"one more", head + overrides(maxOverrides+1), "r:3:62: overrides: got 10001, want at most 10000"},
		{"many resources", head + list("match: {resource: [", "/a", maxGlobs), ""},
		{"one more", head + list("match: {resource: [", "/a", maxGlobs+1), "r:3:69: resource: got 65 in the list, want 1 to 64"},
		{"a long resource", head + list("match: {resource: [", strings.Repeat("x", maxGlob), 1), ""},
		{"one byte more", head + list("match: {resource: [", strings.Repeat("x", maxGlob+1), 1), "at most 1024 bytes"},
		{"a large file", head + rules(1) + "#" + strings.Repeat(" ", document.MaxFile-len(head+rules(1))-1), ""},
		{"one byte more", head + rules(1) + "#" + strings.Repeat(" ", document.MaxFile-len(head+rules(1))), "r:1:1: got more than 1048576 bytes, want at most that"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			start := time.Now()
			_, err := Parse("r", []byte(test.text))
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %.300v, want %q", err, test.want)
			}
		})
	}
}

func TestNoMoreThanFiftyErrors(t *testing.T) {
	_, err := Parse("r", []byte("version: 1\nrules:\n"+strings.Repeat("  - {}\n", 100)))
	var errs document.Errors
	if !errors.As(err, &errs) || len(errs) != 50 || !strings.HasSuffix(errs[49].Msg, "(and 350 more errors)") {
		t.Errorf("got %d errors, the last: %v", len(errs), errs[len(errs)-1])
	}
}

// fail2ban's CVE-2013-2178 was log text that did something: what a file says comes out of an error as text.
func TestErrorsCarryNoControlCharacters(t *testing.T) {
	for _, text := range []string{
		"version: 1\nrules: []\n\"\\x1b[2J\": 1\n", "version: \"\\x1b[2J\\n\"\nrules: []\n", "version: 1\nrules: []\n\"a\\nb\": 1\n",
		"version: 1\nrules: [{name: \"\\e[31m\", callers: \"\\x07\", window: \"\\r\", match: {resource: [[\"\\x1b\"]], status: \"\\x1b\"}, " +
			"overrides: {\"\\x1b\": \"\\x1b\"}, algorithm: \"\\x1b\", warn: \"\\x1b\", timezone: \"\\x1b\", \"\\x9b\": 1, \"\\x9b\": 1}]\n",
		"version: 1\nrules: [{callers: ip, overrides: {\"\\x1b\": 1, \"\\x1b/24\": 1}}]\n", "\x1b: [", "a: \x1b\n b: c",
	} {
		_, err := Parse("r", []byte(text))
		if err == nil {
			t.Errorf("%q is accepted", text)
			continue
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || 0x7f <= r && r < 0xa0 }) || !strings.HasPrefix(line, "r:") {
				t.Errorf("%q: got error %q", text, line)
			}
		}
	}
}

// FuzzParse never panics, and what is accepted can be relied on.
func FuzzParse(f *testing.F) {
	for _, data := range reader().Files(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("r", data)
		if err != nil {
			var errs document.Errors
			if s != nil || !errors.As(err, &errs) || len(errs) == 0 || len(errs) > 50 {
				t.Fatalf("got %v and %v", s, err)
			}
			for _, e := range errs {
				if e.Line < 1 || e.Column < 1 || e.Msg == "" || strings.ContainsAny(e.Msg, "\n\r\x1b") {
					t.Fatalf("got error %q", e)
				}
			}
			return
		}
		sound(t, s)
		again, err := Parse("r", append([]byte("# a comment\n\n"), data...))
		if err == nil && again.ID() != s.ID() {
			t.Fatalf("got ID %x, then %x", s.ID(), again.ID())
		}
	})
}

// sound checks what users of a set rely on.
func sound(t *testing.T, s *Set) {
	t.Helper()
	names := make(map[string]bool)
	for _, r := range s.Rules {
		limit, unlimited := r.LimitFor("an id that nobody chose")
		switch {
		case r.Name == "" || names[r.Name]:
			t.Fatalf("name %q is empty or taken", r.Name)
		case r.Window == nil || r.Fingerprint() == 0 || r.Shape() == 0:
			t.Fatalf("%s: unfinished", r.Name)
		case r.Limit < 1 || r.Limit > MaxLimit || limit != r.Limit || unlimited:
			t.Fatalf("%s: limit %d", r.Name, r.Limit)
		case r.Escalate != (Escalate{}) && (r.CloseFor == 0 || r.Escalate.Factor < 1 || r.Escalate.Max < r.CloseFor || r.Escalate.Forget <= 0):
			t.Fatalf("%s: close_for %v, escalate %+v", r.Name, r.CloseFor, r.Escalate)
		case r.Pool != nil && (r.Pool.Capacity != r.Limit || r.Pool.Protect < 1 || r.CloseFor < time.Duration(r.Window.Length(0))/4 || r.Pool.Weight("id") < 1):
			t.Fatalf("%s: pool %+v, close_for %v", r.Name, r.Pool, r.CloseFor)
		case r.Mode.String() == "unknown" || r.CloseFor < 0:
			t.Fatalf("%s: mode %d, close_for %v", r.Name, r.Mode, r.CloseFor)
		}
		names[r.Name] = true
		now := int64(1_700_000_000_000_000_000)
		if _, c := r.Window.Add(nil, r.Limit, now, r.Limit); !c.Full(now) && r.Burst <= r.Limit {
			t.Fatalf("%s: the limit does not fill the window: %+v", r.Name, c)
		}
		if found := s.ForKind(r.Kind); len(found) == 0 {
			t.Fatalf("%s: not among those of its kind %s", r.Name, r.Kind)
		}
	}
}
