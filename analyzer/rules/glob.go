package rules

import "strings"

// Glob is a pattern in which * stands for any run of characters, also an empty one and also one with slashes.
// The zero value matches everything.
type Glob struct {
	text  string
	parts []string // of the text between the stars; nil if there is none
}

// NewGlob returns the pattern that text is.
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

// String returns the pattern, * for one that matches everything.
func (g Glob) String() string {
	if g.text == "" {
		return "*"
	}
	return g.text
}

// All reports whether the pattern matches everything.
func (g Glob) All() bool { return g.text == "" }

// Match reports whether the pattern matches all of s. It does not allocate, and takes time in len(s)·len(pattern) at
// worst.
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

func anyGlob(globs []Glob, s string) bool {
	for i := range globs {
		if globs[i].Match(s) {
			return true
		}
	}
	return false
}
