package front

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

func TestJoin(t *testing.T) {
	for _, p := range []struct {
		parts []string
		want  string
	}{
		{nil, ""},
		{[]string{"a"}, "a"},
		{[]string{"a|b"}, "a|b"},
		{[]string{"a", "b", "c"}, "a|b|c"},
		{[]string{"a", "b|c"}, "a|b|c"}, // the last may: where it begins is known
		{[]string{"a|b", "c"}, ""},      // would be the one above
		{[]string{"", "b"}, ""},
		{[]string{"a", ""}, ""},
	} {
		if got := Join(len(p.parts), func(i int) string { return p.parts[i] }); got != p.want {
			t.Errorf("%q: got %q, want %q", p.parts, got, p.want)
		}
	}
}

// FuzzJoin: parts can be told from the id, given how many there are; so no two callers share one.
func FuzzJoin(f *testing.F) {
	f.Add("a", "b", "c")
	f.Add("a|", "b", "|c")
	f.Add("", "|", "||")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		parts := []string{a, b, c}
		id := Join(3, func(i int) string { return parts[i] })
		if id == "" {
			return
		}
		got := strings.SplitN(id, schemas.CompositeSeparator, 3)
		if len(got) != 3 || got[0] != a || got[1] != b || got[2] != c {
			t.Errorf("%q: got %q, which reads as %q", parts, id, got)
		}
	})
}

func TestWholeSeconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		math.MinInt64: 1, -1: 1, 0: 1, 1: 1, time.Second: 1, time.Second + 1: 2, 2 * time.Second: 2,
		math.MaxInt64: math.MaxInt64 / int64(time.Second), 366 * 24 * time.Hour: 366 * 24 * 3600,
	} {
		if got := WholeSeconds(d); got != want {
			t.Errorf("%v: got %d, want %d", d, got, want)
		}
	}
}
