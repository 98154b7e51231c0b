package rules

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestNoFileIsSmallAndItsMeaningLarge: YAML that grows as it is read is refused before it does.
func TestNoFileIsSmallAndItsMeaningLarge(t *testing.T) {
	laughs := "a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n"
	for c := 'b'; c <= 'z'; c++ {
		laughs += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 9), ", "))
	}
	const fields = "name: r, callers: ip, limit: 1, window: 1m"
	tests := map[string]string{
		"a billion laughs":           laughs,
		"an alias to itself":         "version: 1\nrules: &a [*a]\n",
		"an anchor that nobody uses": "version: 1\nrules: [{&a " + fields + "}]\n",
		"an alias without an anchor": "version: 1\nrules: [*a]\n",
		"a merge of itself":          "version: 1\nrules:\n  - &a {" + fields + ", <<: *a}\n",
		"a merge in a quote's place": "version: 1\nrules: [{<<: {" + fields + "}}]\n",
		"a tag":                      "version: !!int \"1\"\nrules: []\n",
		"a tag that runs code":       "version: 1\nrules: !!python/object/apply:os.system [\"true\"]\n",
		"a binary":                   "version: 1\nrules: [{" + fields + ", match: {resource: !!binary L2E=}}]\n",
		"a complex key":              "? version\n: 1\nrules: []\n",
		"a directive":                "%TAG ! tag:example.org,2000:\n---\nversion: 1\nrules: []\n",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("r", []byte(text)); err == nil || !strings.Contains(err.Error(), "want plain YAML") {
				t.Errorf("got %v, want it refused as it stands", err)
			}
		})
	}
}

// What looks like such YAML in a quote is text.
func TestQuotedTextIsText(t *testing.T) {
	for _, text := range []string{"&a", "*a", "!!int", "<<", "? x", "%TAG", "- a", "{a: b}", "# no comment", "| ", "null", "~", "yes", "0x10", "1e3"} {
		r := one(t, fmt.Sprintf("callers: key, overrides: {%q: 5}", text))
		if got, _ := r.LimitFor(text); got != 5 {
			t.Errorf("%q: got limit %d, want the override's 5", text, got)
		}
	}
}

// TestAMegabyteOfAnythingIsReadInTime: whatever one letter or word is repeated, parsing takes seconds at most, and
// memory within bounds. A watcher reads such a file beside running owners.
func TestAMegabyteOfAnythingIsReadInTime(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	words := []string{
		"'", "\"", "|", "- ", "a: b\n", "\t", "[]", "{}", ": ", "\\", "ä", "\"\\u0041", "{a: ", "\r\n", "a: |\n", "a: 'x\n",
	}
	for _, word := range words {
		const head = "version: 1\nrules:\n  - name: "
		text := head + strings.Repeat(word, (MaxFile-len(head))/len(word))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		_, err := Parse("r", []byte(text))
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
	if _, err := Parse("r", []byte(b.String())); err == nil || time.Since(start) > 10*time.Second {
		t.Errorf("got %v after %v, want it refused at once", err, time.Since(start))
	}
}

// Numbers that no limit can be are refused as they are written, and never wrap.
func TestNumbersAtTheEdge(t *testing.T) {
	tests := map[string]string{ // by what is written for limit; the message, or "" if accepted
		"1": "", "100000000000000000": "", "1_000": "", "+5": "",
		"100000000000000001": "limit: got 100000000000000001, want", "9223372036854775807": "limit: got 9223372036854775807", "9223372036854775808": "limit: got",
		"18446744073709551617": "limit: got", "-1": "limit: got -1, want 1 or more", "-0": "limit: got", "0x10": "limit: got 0x10", "0o17": "limit: got 0o17",
		"0b11": "limit: got 0b11", "017": "limit: got 017", "1e3": `limit: got "1e3"`, "1.0": "limit: got 1.0", ".inf": "limit: got .inf", "-.inf": "limit: got -.inf",
		".nan": "limit: got .nan", "true": "limit: got true", "'1'": `limit: got "1"`, "1m": `limit: got "1m"`, "[1]": "limit: got a list", "{1: 1}": "limit: got a mapping",
		"": "limit: got nothing", "1 000": `limit: got "1 000"`, "1,": "", strings.Repeat("9", 10_000): `limit: got "9999`, "١": `limit: got "١"`,
		"2026-11-21": "limit: got", "12:30:45": "limit: got", "~": "limit: got",
	}
	for _, written := range slices.Sorted(maps.Keys(tests)) {
		_, err := Parse("r", fmt.Appendf(nil, "version: 1\nrules: [{name: r, callers: ip, window: 1m, limit: %s}]\n", written))
		want := tests[written]
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40s: got %.300v, want %q", written, err, want)
		}
		var errs Errors
		if errors.As(err, &errs) && (len(errs) != 1 || len(errs[0].Msg) > 500) {
			t.Errorf("%.40s: got %d errors, the first of %d bytes, want a short one", written, len(errs), len(errs[0].Msg))
		}
	}
}
