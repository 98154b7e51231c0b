package pattern

import (
	"fmt"
	"strings"
	"testing"
)

// longest is as long as an id may be.
const longest = 256

// chosenText returns the longest text that begins like the pattern's longest part as often as possible and matches nothing:
// all of that part but its last byte, again and again, or its first byte alone.
func chosenText(pattern string) (texts []string) {
	part := ""
	for p := range strings.SplitSeq(pattern, "*") {
		if len(p) > len(part) {
			part = p
		}
	}
	for _, s := range []string{part[:len(part)-1], part[:1]} {
		if s != "" {
			texts = append(texts, strings.Repeat(s, longest/len(s)))
		}
	}
	return texts
}

// TestAPatternLooksForEachPartOnce: a part that was found is not looked for again behind another place. With backtracking
// this test would not end.
func TestAPatternLooksForEachPartOnce(t *testing.T) {
	text := strings.Repeat("a", 60_000)
	for _, pattern := range []string{strings.Repeat("*a", 40) + "*z*", strings.Repeat("*aa", 40) + "*az", "*" + strings.Repeat("a*", 40) + "z"} {
		if g := NewGlob(pattern); g.Match(text) || !g.Match(text+"z") {
			t.Errorf("%.20s: got a match of letters a alone, or none with a z at the end", pattern)
		}
	}
}

// BenchmarkChosenInput matches patterns with random ids, and with ids that were chosen to take long.
func BenchmarkChosenInput(b *testing.B) {
	random := strings.Repeat("0123456789-qwertyuiop.xcvbnm", 10)[:longest]
	for _, pattern := range []string{"*/admin/*", "*" + strings.Repeat("a", 31) + "z*", "*" + strings.Repeat("a", 99) + "z*", "*a*a*a*a*a*z*"} {
		g := NewGlob(pattern)
		for i, text := range append([]string{random}, chosenText(pattern)...) {
			b.Run(fmt.Sprintf("%.12s of %d/%d", pattern, len(pattern), i), func(b *testing.B) {
				for b.Loop() {
					g.Match(text)
				}
			})
		}
	}
}
