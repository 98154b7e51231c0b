package rules

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/509da70d/floodgate/analyzer/document"
)

// TestEachErrorSaysWhereItIs, in lines and characters as editors count them. The place is marked in the text: ¶ stands
// before the character that is meant, and is taken out.
func TestEachErrorSaysWhereItIs(t *testing.T) {
	const head = "version: 1\nrules:\n"
	tests := []struct {
		name string
		text string
		want string // of the first error
	}{
		{"at a value", head + "  - {name: r, callers: ip, limit: ¶0, window: 1m}\n", "limit: got 0"},
		{"at a value on its own line", head + "  - name: r\n    callers: ip\n    limit:\n\n      ¶0\n    window: 1m\n", "limit: got 0"},
		{"at a key", head + "  - name: r\n    ¶limits: 0\n    callers: ip\n    limit: 1\n    window: 1m\n", "limits: unknown field"},
		{"at the rule, for what is missing", head + "  - ¶{name: r, callers: ip, window: 1m}\n", "limit: missing"},
		{"at the rule in lines", head + "  - ¶name: r\n    callers: ip\n    window: 1m\n", "limit: missing"},
		{"at the file", "¶version: 1\n", "rules: missing"},
		{"at the second of two", head + "  - name: r\n    callers: ip\n    limit: 1\n    ¶limit: 2\n    window: 1m\n", "limit: given twice"},
		{"within a list", head + "  - {name: r, callers: ip, limit: 1, window: 1m, warn: [0.5, ¶0.4]}\n", "warn: got 0.4"},
		{"within a list in lines", head + "  - name: r\n    callers: ip\n    limit: 1\n    window: 1m\n    match:\n      status:\n        - 200\n        - ¶99\n", "status: got 99"},
		{"at an override's value", head + "  - {name: r, callers: ip, limit: 1, window: 1m, overrides: {192.0.2.1: ¶0}}\n", "overrides: got 0"},
		{"at an override's key", head + "  - {name: r, callers: ip, limit: 1, window: 1m, overrides: {¶192.0.2.1/24: 5}}\n", "first address"},
		{"at the escalation", head + "  - {name: r, callers: ip, limit: 1, window: 1m, escalate: ¶{max: 1h}}\n", "needs close_for"},
		{"behind umlauts", head + "  - {callers: \"key:äöüß*\", name: r, limit: ¶0, window: 1m}\n", "limit: got 0"},
		{"behind what takes four bytes", head + "  - {callers: \"key:💥\", name: r, limit: ¶0, window: 1m}\n", "limit: got 0"},
		{"behind an escape", head + "  - {callers: \"key:\\u00e4\\n\", name: r, limit: ¶0, window: 1m}\n", "limit: got 0"},
		{"behind comments", "# ä\nversion: ¶2 # ö\nrules: []\n", "version: got 2"},
		{"behind text of several lines", head + "  - name: r\n    callers: >-\n      ip\n    limit: ¶0\n    window: 1m\n", "limit: got 0"},
		{"behind a quoted line end", head + "  - name: r\n    callers: \"i\\\n      p\"\n    limit: ¶0\n    window: 1m\n", "limit: got 0"},
		{"with the line ends of Windows", strings.ReplaceAll(head+"  - name: r\n    callers: ip\n    limit: ¶0\n    window: 1m\n", "\n", "\r\n"), "limit: got 0"},
		{"behind a byte order mark", "\ufeffversion: ¶2\nrules: []\n", "version: got 2"},
		{"behind the document's start", "---\nversion: ¶2\nrules: []\n...\n", "version: got 2"},
		{"at an anchor", head + "  - ¶&a {name: r, callers: ip, limit: 1, window: 1m}\n", "got &"},
		{"at an alias", head + "  - {name: r, callers: ip, limit: ¶*a, window: 1m}\n", "got *"},
		{"at a merge", head + "  - {name: r, ¶<<: {}, callers: ip, limit: 1, window: 1m}\n", "got <<"},
		{"at a second document", "version: 1\nrules: []\n---\n¶version: 1\nrules: []\n", "second document"},
		{"at the ninth bracket", "a: [[[[[[[[¶[1]]]]]]]]]\n", "nested too deeply"},
		{"at a byte that is no text", head + "  - {name: r, callers: \"key:ä¶\xff\", limit: 1, window: 1m}\n", "got byte 0xff, want UTF-8"},
		{"at half a character", head + "  - {name: r, callers: \"key:¶\xc3\", limit: 1, window: 1m}\n", "got byte 0xc3, want UTF-8"},
		{"at a surrogate", "¶\xed\xa0\x80: 1\n", "got byte 0xed, want UTF-8"},
		{"at a taken name", head + "  - {name: r, callers: ip, limit: 1, window: 1m}\n  - ¶{name: r, callers: key, limit: 1, window: 1m}\n", "taken by the rule in line 3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before, after, found := strings.Cut(test.text, "¶")
			if !found {
				t.Fatal("want a place marked")
			}
			visible := strings.TrimPrefix(before, "\ufeff")
			line := 1 + strings.Count(visible, "\n")
			column := 1 + utf8.RuneCountInString(visible[strings.LastIndexByte(visible, '\n')+1:])
			_, err := Parse("r", []byte(before+after))
			want := fmt.Sprintf("r:%d:%d: ", line, column)
			if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s… %s", err, want, test.want)
			}
		})
	}
}

// The real U+FFFD is a character like others; only bytes that are none are refused.
func TestTheReplacementCharacterIsText(t *testing.T) {
	s := parse(t, "  - {name: r, callers: key, limit: 1, window: 1m, overrides: {\"\ufffd\": 5}}\n")
	if got, _ := s.Rules[0].LimitFor("\ufffd"); got != 5 {
		t.Errorf("got limit %d, want the override's 5", got)
	}
}

// A message quotes at most so much of the file, in whole characters.
func TestLongTextIsCutBetweenCharacters(t *testing.T) {
	for _, letter := range []string{"x", "ä", "€", "💥"} {
		for shift := range 4 {
			long := strings.Repeat("x", shift) + strings.Repeat(letter, 200)
			_, err := Parse("r", fmt.Appendf(nil, "version: 1\nrules: [{name: r, callers: key, limit: 1, window: 1m, %s: 0, mode: %s}]\n", long, long))
			var errs document.Errors
			if !errors.As(err, &errs) || len(errs) != 2 {
				t.Fatalf("got %v, want two errors", err)
			}
			for _, e := range errs {
				if !utf8.ValidString(e.Msg) || strings.Contains(e.Msg, `\x`) || !strings.Contains(e.Msg, "...") || strings.Contains(e.Msg, long) {
					t.Errorf("%d letters and %s: got %q, want it cut at a letter", shift, letter, e.Msg)
				}
			}
		}
	}
}

// askID makes a process of the test binary print the IDs of all rule files.
const askID = "FLOODGATE_TEST_RULE_IDS"

// TestIDsAreTheSameInEveryProcess: they are in stores, and in the decisions of several analyzers. Overrides are kept in
// maps, whose order is another in each run.
func TestIDsAreTheSameInEveryProcess(t *testing.T) {
	var ids strings.Builder
	files := reader().Files(t)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasPrefix(name, "accepts_") {
			continue
		}
		data := files[name]
		first, err := Parse(name, data)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&ids, "id %s %016x\n", name, first.ID())
		for range 20 {
			again, err := Parse("another name", data)
			if err != nil || again.ID() != first.ID() {
				t.Fatalf("%s: got %x and %v, want %x again", name, again.ID(), err, first.ID())
			}
		}
	}
	if os.Getenv(askID) != "" {
		fmt.Print(ids.String())
		return
	}
	other := exec.Command(os.Args[0], "-test.run", "^TestIDsAreTheSameInEveryProcess$")
	other.Env = append(os.Environ(), askID+"=1", "TZ=Asia/Kolkata", "LANG=tr_TR.UTF-8")
	out, err := other.Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(out), ids.String()) {
		t.Errorf("got\n%s\nwant\n%s", out, &ids)
	}
}

// No two of the accepted files say the same, so no two have one ID.
func TestNoTwoFilesShareAnID(t *testing.T) {
	seen := make(map[uint64]string)
	for name, data := range reader().Files(t) {
		set, err := Parse(name, data)
		if err != nil {
			continue
		}
		if other, taken := seen[set.ID()]; taken {
			t.Errorf("%s has the ID of %s", name, other)
		}
		seen[set.ID()] = name
	}
	if len(seen) < 20 {
		t.Errorf("got %d files, want more", len(seen))
	}
}
