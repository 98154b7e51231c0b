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
		{[]string{"a|b", "c"}, "~0eab8a0a3380abf4c7d1fb0b43b66aaf|c"},                                                       // would be the one above
		{[]string{"~0eab8a0a3380abf4c7d1fb0b43b66aaf", "c"}, schemas.Part("~0eab8a0a3380abf4c7d1fb0b43b66aaf", "|") + "|c"}, // would be the one above
		{[]string{"", "b"}, ""},
		{[]string{"a", ""}, ""},
	} {
		if got := Join(len(p.parts), func(i int) string { return p.parts[i] }); got != p.want {
			t.Errorf("%q: got %q, want %q", p.parts, got, p.want)
		}
	}
}

// FuzzJoin: an id determines its parts, or their hashes, if their number is known. So no two callers share an id.
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
		if len(got) != 3 || got[0] != schemas.Part(a, "|") || got[1] != schemas.Part(b, "|") || got[2] != c {
			t.Errorf("%q: got %q, which reads as %q", parts, id, got)
		}
	})
}

func TestRepeated(t *testing.T) {
	for _, p := range []struct {
		lines []string
		want  bool
	}{
		{nil, false}, {[]string{""}, false}, {[]string{"a"}, false}, {[]string{"a b|c;d"}, false},
		{[]string{"a,b"}, true}, {[]string{","}, true}, {[]string{"a", ""}, true}, {[]string{"a", "a"}, true},
	} {
		if got := Repeated(p.lines); got != p.want {
			t.Errorf("%q: got %t, want %t", p.lines, got, p.want)
		}
	}
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
