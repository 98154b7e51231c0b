package ingest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRoutes(t *testing.T) {
	r, err := newRoutes([]string{
		"/", "/users", "/users/{id}", "/users/me", "/users/{id}/orders/{order}", "/users/{id}/orders", "/static/{file...}",
		"/{lang}/docs", "/en/docs", "/a/{b}/c", "/a/x/{d}", "/all/{rest...}", "/all/but/this",
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/":                             "/",
		"/users":                        "/users",
		"/users/123":                    "/users/{id}",
		"/users/me":                     "/users/me",
		"/users/me/orders":              "/users/{id}/orders",
		"/users/1/orders/2":             "/users/{id}/orders/{order}",
		"/users/1/orders/":              "/users/1/orders/",
		"/users/":                       "/users/",
		"/users//orders":                "/users//orders",
		"/users/1/2/3":                  "/users/1/2/3",
		"/static/a/b/c.png":             "/static/{file...}",
		"/static/":                      "/static/{file...}",
		"/static":                       "/static",
		"/en/docs":                      "/en/docs",
		"/de/docs":                      "/{lang}/docs",
		"/a/x/c":                        "/a/x/{d}",
		"/a/y/c":                        "/a/{b}/c",
		"/a/x/d":                        "/a/x/{d}",
		"/a/y/d":                        "/a/y/d",
		"/all/but/this":                 "/all/but/this",
		"/all/but/that":                 "/all/{rest...}",
		"/all/but":                      "/all/{rest...}",
		"/Users/1":                      "/Users/1",
		"*":                             "*",
		"example.com:443":               "example.com:443",
		"":                              "",
		"/users/%2f":                    "/users/{id}",
		"/users/\x1b[31m":               "/users/{id}",
		"/users/{id}":                   "/users/{id}",
		"users/1":                       "users/1",
		"//users/1":                     "//users/1",
		"/users/1?a=b":                  "/users/{id}", // the query is cut before
		"/" + strings.Repeat("a/", 500): "/" + strings.Repeat("a/", 500),
	} {
		if got := r.name(path); got != want {
			t.Errorf("%.60s: got %.60s, want %.60s", path, got, want)
		}
	}
}

func TestWhatFitsNoTemplateHasAName(t *testing.T) {
	r, err := newRoutes([]string{"/users/{id}"}, "(other)")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/users/1": "/users/{id}", "/x": "(other)", "*": "(other)", "": ""} {
		if got := r.name(path); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
	if got := (*routes)(nil).name("/users/1"); got != "/users/1" {
		t.Errorf("no routes: got %q", got)
	}
}

func TestTemplatesThatAreRefused(t *testing.T) {
	many := make([]string, MaxRoutes+1)
	for i := range many {
		many[i] = fmt.Sprintf("/%d", i)
	}
	for name, templates := range map[string][]string{
		"relative":       {"users"},
		"empty":          {""},
		"twice":          {"/a/{b}", "/a/{c}"},
		"twice the same": {"/a", "/a"},
		"two rests":      {"/a/{b...}", "/a/{c...}"},
		"rest inside":    {"/a/{b...}/c"},
		"half a name":    {"/a/{b"},
		"brace":          {"/a/b}"},
		"part of one":    {"/a/x{b}"},
		"nameless":       {"/a/{}"},
		"deep":           {strings.Repeat("/a", maxSegments+1)},
		"long":           {"/" + strings.Repeat("a", 1024)},
		"many":           many,
	} {
		if _, err := newRoutes(templates, ""); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if _, err := newRoutes(nil, strings.Repeat("x", 1025)); err == nil {
		t.Error("a long name for the others: got no error")
	}
	if _, err := newRoutes(many[:MaxRoutes], ""); err != nil {
		t.Error(err)
	}
}

// TestRoutesAgreeWithExpressions compares the tree with the templates as regular expressions: a path has a template if and
// only if one of them fits, and it is one that does.
func TestRoutesAgreeWithExpressions(t *testing.T) {
	segment := rapid.SampledFrom([]string{"a", "b", "{x}", "c"})
	rapid.Check(t, func(t *rapid.T) {
		r, expressions := &routes{}, map[string]*regexp.Regexp{}
		for range rapid.IntRange(1, 8).Draw(t, "templates") {
			parts := rapid.SliceOfN(segment, 1, 4).Draw(t, "segments")
			if rapid.IntRange(0, 4).Draw(t, "rest") == 0 {
				parts = append(parts, "{r...}")
			}
			template := "/" + strings.Join(parts, "/")
			if r.add(template) != nil {
				continue // there already
			}
			text := strings.ReplaceAll(template, "{x}", "[^/]+")
			text = strings.ReplaceAll(text, "/{r...}", "/.*")
			expressions[template] = regexp.MustCompile("^" + text + "$")
		}
		path := "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", ""}), 1, 6).Draw(t, "path"), "/")
		got, fits := r.name(path), false
		for template, e := range expressions {
			if e.MatchString(path) {
				fits = true
			}
			if template == got && got != path && !e.MatchString(path) {
				t.Fatalf("%s: got %s, which does not fit", path, got)
			}
		}
		if _, is := expressions[got]; fits != is {
			t.Fatalf("%s: got %s, fits %v", path, got, fits)
		}
	})
}
