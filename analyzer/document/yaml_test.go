package document

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// TestNoFileIsSmallAndItsMeaningLarge: YAML that grows as it is read is refused before it does.
func TestNoFileIsSmallAndItsMeaningLarge(t *testing.T) {
	laughs := "a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n"
	for c := 'b'; c <= 'z'; c++ {
		laughs += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 9), ", "))
	}
	const fields = "n: 1"
	tests := map[string]string{
		"a billion laughs":           laughs,
		"an alias to itself":         "name: n\nitems: &a [*a]\n",
		"an anchor that nobody uses": "name: n\nitems: [{&a " + fields + "}]\n",
		"an alias without an anchor": "name: n\nitems: [*a]\n",
		"a merge of itself":          "name: n\nitems:\n  - &a {" + fields + ", <<: *a}\n",
		"a merge in a quote's place": "name: n\nitems: [{<<: {" + fields + "}}]\n",
		"a tag":                      "name: n\nlimit: !!int \"1\"\n",
		"a tag that runs code":       "name: n\nitems: !!python/object/apply:os.system [\"true\"]\n",
		"a binary":                   "name: n\nwords: [!!binary L2E=]\n",
		"a complex key":              "? name\n: n\n",
		"a directive":                "%TAG ! tag:example.org,2000:\n---\nname: n\n",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			if err := readText(text); err == nil || !strings.Contains(err.Error(), "want plain YAML") {
				t.Errorf("got %v, want it refused as it stands", err)
			}
		})
	}
}

// TestLimitsOfTheYAML: everything has a limit, and a file over one is refused before it costs anything.
func TestLimitsOfTheYAML(t *testing.T) {
	const head = "name: n\n#"
	for _, test := range []struct{ name, text, want string }{
		{"a large file", head + strings.Repeat(" ", MaxFile-len(head)), ""},
		{"one byte more", head + strings.Repeat(" ", MaxFile-len(head)+1), "f:1:1: got more than 1048576 bytes, want at most that"},
		{"many tokens", "a: [" + strings.Repeat("1, ", maxTokens), "tokens of YAML, want at most that"},
		{"deep in brackets", strings.Repeat("[", maxTokens), "f:1:9: nested too deeply"},
		{"deep in dashes", strings.Repeat("- ", maxTokens/4), "f:1:9: nested too deeply"},
		{"deep in braces", strings.Repeat("{a: ", maxTokens/4), "nested too deeply"},
		{"deep in question marks", strings.Repeat("? ", maxTokens/2), "no anchors, aliases, tags, merges, complex keys or directives"},
		{"eight brackets", "name: n\nwords: " + strings.Repeat("[", 8) + strings.Repeat("]", 8), "words: got a list, want a word"},
		{"nine brackets", "name: n\nwords: " + strings.Repeat("[", 9) + strings.Repeat("]", 9), "f:2:16: nested too deeply"},
	} {
		err := readText(test.text)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %.300v, want %q", test.name, err, test.want)
		}
	}
}

// TestAMegabyteOfAnythingIsReadInTime: whatever one letter or word is repeated, parsing takes seconds at most, and
// memory within bounds. A watcher reads such a file beside running owners.
func TestAMegabyteOfAnythingIsReadInTime(t *testing.T) {
	testenv.Long(t)
	words := []string{
		"'", "\"", "|", "- ", "a: b\n", "\t", "[]", "{}", ": ", "\\", "ä", "\"\\u0041", "{a: ", "\r\n", "a: |\n", "a: 'x\n",
	}
	for _, word := range words {
		const head = "limit: 0\nname: "
		text := head + strings.Repeat(word, (MaxFile-len(head))/len(word))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		err := readText(text)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%q: took %v, want a second or so", word, took)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 512<<20 {
			t.Errorf("%q: got %d MiB allocated, want at most 512", word, got>>20)
		}
		if err == nil {
			t.Errorf("%q: got it accepted", word)
			continue
		}
		if n := len(err.Error()); n > maxErrors*1000 {
			t.Errorf("%q: got %d bytes of error", word, n)
		}
	}
}

// A block of a thousand levels costs two bytes a level and one, more each time: the file's size bounds it.
func TestDeepBlocksAreRefusedNotFollowed(t *testing.T) {
	var b strings.Builder
	for i := 0; b.Len() < MaxFile-2000; i++ {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	start := time.Now()
	if err := readText(b.String()); err == nil || time.Since(start) > 10*time.Second {
		t.Errorf("got %v after %v, want it refused at once", err, time.Since(start))
	}
}

// TestPositionsBehindAnything: lines and columns are counted as editors count them, whatever stands before. ¶ marks the place.
func TestPositionsBehindAnything(t *testing.T) {
	for name, text := range map[string]string{
		"umlauts":                  "{words: \"äöüß*\", name: n, limit: ¶0}\n",
		"what takes four bytes":    "{words: \"💥\", name: n, limit: ¶0}\n",
		"an escape":                "{words: \"\\u00e4\\n\", name: n, limit: ¶0}\n",
		"comments":                 "# ä\nname: n # ö\nlimit: ¶0 # ü\n",
		"text of several lines":    "words: >-\n  a\n  b\nname: n\nlimit: ¶0\n",
		"a quoted line end":        "words: \"i\\\n  p\"\nname: n\nlimit: ¶0\n",
		"the line ends of Windows": "# a comment\r\n\r\nname: n\r\nwords:\r\n  - a # and one more\r\n  - b\r\nlimit: ¶0\r\n",
		"a byte order mark":        "\ufeffname: n\nlimit: ¶0\n",
		"the document's start":     "---\nname: n\nlimit: ¶0\n...\n",
		"empty lines":              "\n\nname: n\n\nlimit:\n\n  ¶0\n",
	} {
		before, after, _ := strings.Cut(text, "¶")
		lines := strings.Split(strings.TrimPrefix(before, "\ufeff"), "\n")
		want := fmt.Sprintf("f:%d:%d: limit: got 0, want 1 or more", len(lines), 1+len([]rune(lines[len(lines)-1])))
		if err := readText(before + after); err == nil || err.Error() != want {
			t.Errorf("behind %s: got %v, want %s", name, err, want)
		}
	}
}

// TestNothingIsNoDocument: an empty file and a file of nothing but null are errors.
func TestNothingIsNoDocument(t *testing.T) {
	for _, text := range []string{"", "\n", "---\n", "null", "~", "---\n---\n", "\ufeff", "# nothing\n"} {
		if err := readText(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
