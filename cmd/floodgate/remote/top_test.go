package remote

import (
	"bytes"
	"testing"
)

// TestAScreenFits: no line is longer than the terminal is wide, and the first line stays.
func TestAScreenFits(t *testing.T) {
	text := []byte("first line\n| äöü | b |\nthird\n")
	for _, test := range []struct {
		columns, lines int
		want           string
	}{{80, 24, "first line\n| äöü | b |\nthird\n"}, {5, 3, "first\n| äöü\n"}, {80, 1, "\n"}, {0, 0, "\n"}, {3, 24, "fir\n| ä\nthi\n"}} {
		if got := string(cut(bytes.Clone(text), test.columns, test.lines)); got != test.want {
			t.Errorf("%d × %d: got %q, want %q", test.columns, test.lines, got, test.want)
		}
	}
	var out bytes.Buffer
	if err := draw(&out, text); err != nil || out.String() != string(text) {
		t.Errorf("got %v and %q, want no escapes where there is no terminal", err, out.String())
	}
}
