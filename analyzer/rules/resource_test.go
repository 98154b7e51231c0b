package rules

import (
	"strings"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

// TestOneFormOfResources: a pattern with a method is for that method, whoever reports the request, and one without a method is for
// all methods, also where the source of the requests knows none.
func TestOneFormOfResources(t *testing.T) {
	for _, p := range []struct {
		pattern string
		yes, no []string
	}{
		{"GET /search*", []string{"GET /search", "GET /search/x"}, []string{"POST /search", "/search", "OTHER /search", "GET /x?GET /search", ""}},
		{"/search*", []string{"GET /search", "POST /search/x", "OTHER /search", "/search"}, []string{"GET /x", "/x/search", "", "GET search"}},
		{"/search", []string{"GET /search", "/search"}, []string{"GET /search/", "GET GET /search", "PROPFIND /search"}},
		{"*/search", []string{"GET /search", "GET /a/search", "/search"}, []string{"GET /searches"}},
		{"* /search", []string{"GET /search", "DELETE /search"}, []string{"/search"}},
		{"(other)", []string{"GET (other)", "(other)"}, []string{"GET /other"}},
		{"/pkg.Service/*", []string{"/pkg.Service/Method", "POST /pkg.Service/Method"}, []string{"/pkg.Other/Method"}},
	} {
		set, err := Parse("rules.yaml", []byte("version: 1\nrules: [{name: r, callers: ip, limit: 1, window: 1m, match: {resource: \""+p.pattern+"\"}}]"))
		if err != nil {
			t.Fatal(err)
		}
		for want, resources := range map[bool][]string{true: p.yes, false: p.no} {
			for _, resource := range resources {
				e := &schemas.Entry{Kind: schemas.KindIP, ID: "192.0.2.1", Resource: resource, Count: 1}
				if got := set.Rules[0].Matches(e); got != want {
					t.Errorf("%q and the pattern %q: got %v, want %v", resource, p.pattern, got, want)
				}
			}
		}
	}
}

// TestAPatternThatNoResourceMatchesIsDoubted before a single request has come.
func TestAPatternThatNoResourceMatchesIsDoubted(t *testing.T) {
	for text, want := range map[string]string{
		"GET /search*": "", "/search*": "", "*": "", "*.php": "", "* /search": "", "G* /x": "", "OTHER /x": "", "GET *": "", "(other)": "",
		"GET example.com/x": "", "GET (other)": "", "CONNECT *:443": "",
		"get /search": `got the method "get", want GET`,
		"FETCH /x":    `got the method "FETCH", want one of HTTP, such as GET, or OTHER`,
		"search":      `"search" names no path: a resource is a method, a blank and a path, such as "GET /search"`,
		"/search?q=*": "resources have no query",
		"GET search":  `"GET search" names no path`,
	} {
		set, err := Parse("rules.yaml", []byte("version: 1\nrules: [{name: r, callers: ip_route, limit: 1, window: 1m, match: {resource: \""+text+"\"}}]"))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, w := range set.Warnings {
			got += w.Error()
		}
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q: got the warning %q, want %q", text, got, want)
		}
	}
}
