package rules

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/document"
)

// What looks like such YAML in a quote is text.
func TestQuotedTextIsText(t *testing.T) {
	for _, text := range []string{"&a", "*a", "!!int", "<<", "? x", "%TAG", "- a", "{a: b}", "# no comment", "| ", "null", "~", "yes", "0x10", "1e3"} {
		r := one(t, fmt.Sprintf("callers: key, overrides: {%q: 5}", text))
		if got, _ := r.LimitFor(text); got != 5 {
			t.Errorf("%q: got limit %d, want the override's 5", text, got)
		}
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
		var errs document.Errors
		if errors.As(err, &errs) && (len(errs) != 1 || len(errs[0].Msg) > 500) {
			t.Errorf("%.40s: got %d errors, the first of %d bytes, want a short one", written, len(errs), len(errs[0].Msg))
		}
	}
}
