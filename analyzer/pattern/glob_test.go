package pattern

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestGlob(t *testing.T) {
	tests := []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true},
		{"", "anything", true},
		{"*", "", true},
		{"***", "a/b", true},
		{"/api", "/api", true},
		{"/api", "/api/", false},
		{"/api", "", false},
		{"/api/*", "/api/", true},
		{"/api/*", "/api/v1/users/7", true},
		{"/api/*", "/api", false},
		{"*.php", "/x.php", true},
		{"*.php", "/x.php5", false},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"*a*", "xax", true},
		{"*a*", "xx", false},
		{"a**b", "ab", true},
		{"/*/users/*/posts", "/v1/users/7/posts", true},
		{"/*/users/*/posts", "/v1/users/posts", false},
		{"*ab*ab*", "abab", true},
		{"*ab*ab*", "aba", false},
		{"free-*", "FREE-1", false},
		{"[a]?.\\", "[a]?.\\", true},
	}
	for _, test := range tests {
		if got := NewGlob(test.pattern).Match(test.text); got != test.want {
			t.Errorf("%q on %q: got %v, want %v", test.pattern, test.text, got, test.want)
		}
	}
}

func TestGlobIsTheRegexpItStandsFor(t *testing.T) {
	letters := rapid.SampledFrom([]string{"a", "b", "*", "/", "ab"})
	rapid.Check(t, func(t *rapid.T) {
		pattern := strings.Join(rapid.SliceOfN(letters, 0, 8).Draw(t, "pattern"), "")
		text := strings.ReplaceAll(strings.Join(rapid.SliceOfN(letters, 0, 10).Draw(t, "text"), ""), "*", "c")
		quoted := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`)
		want := pattern == "" || regexp.MustCompile("^(?s:"+quoted+")$").MatchString(text)
		if got := NewGlob(pattern).Match(text); got != want {
			t.Fatalf("%q on %q: got %v, want %v", pattern, text, got, want)
		}
		if g := NewGlob(pattern); NewGlob(g.String()).Match(text) != want {
			t.Fatalf("%q is written %q and means something else", pattern, g)
		}
	})
}

// Backtracking globs take exponential time here.
func TestGlobTakesLinearStepsOnHostileText(t *testing.T) {
	g := NewGlob(strings.Repeat("a*", 500) + "b")
	if g.Match(strings.Repeat("a", 1_000_000)) {
		t.Error("got a match")
	}
}

// TestTheFirstGlobOfAResource: a glob may be for the whole resource, or for the path of any method. The first that matches counts.
func TestTheFirstGlobOfAResource(t *testing.T) {
	globs := []Glob{NewGlob("POST /api/big*"), NewGlob("/api/*"), NewGlob("GET /healthz"), NewGlob("*z")}
	for text, want := range map[string]int{
		"/api/x": 1, "GET /api/x": 1, "POST /api/bigger": 0, "GET /api/bigger": 1, "/healthz": 3, "GET /healthz": 2, "/other": -1, "": -1, "NO /api/x": -1,
	} {
		if got := IndexResource(globs, text); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
	if got := IndexResource(nil, ""); got != -1 {
		t.Errorf("no glob at all matches an empty text: got %d", got)
	}
}

func TestParts(t *testing.T) {
	for text, want := range map[string]string{"": "", "**": "", "abc": "", "a*b": "a b", "*x**y*": " x y "} {
		if got := strings.Join(NewGlob(text).Parts(), " "); got != want {
			t.Errorf("parts of %q: got %q, want %q", text, got, want)
		}
	}
}
