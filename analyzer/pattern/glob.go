package pattern

import (
	"strings"

	"github.com/509da70d/floodgate/schemas"
)

// Glob is a pattern in which * stands for any run of characters, including none and including slashes. The zero value matches
// everything. Any number of goroutines may use one.
type Glob struct {
	text  string
	parts []string // of the text between the stars; nil if there is none
}

// NewGlob returns the pattern that text describes. Every text is a pattern; an empty one matches everything.
func NewGlob(text string) Glob {
	if strings.Trim(text, "*") == "" {
		return Glob{} // empty, or all stars
	}
	for strings.Contains(text, "**") {
		text = strings.ReplaceAll(text, "**", "*")
	}
	g := Glob{text: text}
	if strings.Contains(text, "*") {
		g.parts = strings.Split(text, "*")
	}
	return g
}

// String returns the pattern, or * where it matches everything.
func (g Glob) String() string {
	if g.text == "" {
		return "*"
	}
	return g.text
}

// All reports whether the pattern matches everything.
func (g Glob) All() bool { return g.text == "" }

// Match reports whether the pattern matches all of s. It does not allocate. Its time is at worst proportional to
// len(s)·len(pattern).
func (g Glob) Match(s string) bool {
	if g.parts == nil {
		return g.text == "" || g.text == s
	}
	first, last := g.parts[0], g.parts[len(g.parts)-1]
	if len(s) < len(first)+len(last) || !strings.HasPrefix(s, first) || !strings.HasSuffix(s, last) {
		return false
	}
	s = s[len(first) : len(s)-len(last)]
	for _, part := range g.parts[1 : len(g.parts)-1] { // the leftmost place is always the best one
		at := strings.Index(s, part)
		if at < 0 {
			return false
		}
		s = s[at+len(part):]
	}
	return true
}

// Parts returns the texts between the stars, in order: one more than there are stars. It is nil for a pattern without a star,
// and for one that matches everything. The slice must not be changed.
func (g Glob) Parts() []string { return g.parts }

// IndexResource returns the index of the first glob that matches a resource, or −1: all of it, such as "GET /search", or its path without the
// method. So a pattern without a method is for all methods, and for those sources of requests that know none.
func IndexResource(globs []Glob, resource string) int {
	path := ""
	for i := range globs {
		if globs[i].Match(resource) {
			return i
		}
		if path == "" {
			path = schemas.ResourcePath(resource)
		}
		if len(path) < len(resource) && globs[i].Match(path) {
			return i
		}
	}
	return -1
}
