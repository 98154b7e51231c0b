package ingest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/schemas"
)

// TestResourcesHaveOneForm, whatever the format calls its fields and whether or not it has the method.
func TestResourcesHaveOneForm(t *testing.T) {
	ip := callers(t, "ip=ip")
	for name, c := range map[string]struct {
		format, line, want string
		m                  Mapping
	}{
		"a field of its own":         {"json", `{"time":1,"ip":"192.0.2.1","p":"/a?b","m":"post"}`, "POST /a", Mapping{Callers: ip, Resource: "p", Method: "m"}},
		"a usual name":               {"json", `{"time":1,"ip":"192.0.2.1","p":"/a?b","method":"DELETE"}`, "DELETE /a", Mapping{Callers: ip, Resource: "p"}},
		"a request line":             {"json", `{"time":1,"ip":"192.0.2.1","p":"PUT /a?b HTTP/1.1"}`, "PUT /a", Mapping{Callers: ip, Resource: "p"}},
		"a field before the line":    {"json", `{"time":1,"ip":"192.0.2.1","p":"PUT /a?b HTTP/1.1","method":"GET"}`, "GET /a", Mapping{Callers: ip, Resource: "p"}},
		"no method":                  {"json", `{"time":1,"ip":"192.0.2.1","p":"/a?b"}`, "/a", Mapping{Callers: ip, Resource: "p"}},
		"a dash for the method":      {"nginx", `{"msec":"1","remote_addr":"192.0.2.1","uri":"/a","request_method":"-"}`, "/a", Mapping{}},
		"no path":                    {"json", `{"time":1,"ip":"192.0.2.1","method":"GET"}`, "", Mapping{Callers: ip, Resource: "p"}},
		"a method that HTTP has not": {"combined", `192.0.2.1 - - ` + clfTime + ` "FETCH /a HTTP/1.1" 200 1`, "OTHER /a", Mapping{}},
		"a template":                 {"combined", `192.0.2.1 - - ` + clfTime + ` "GET /users/7 HTTP/1.1" 200 1`, "GET /users/{id}", Mapping{Routes: []string{"/users/{id}"}}},
		"a path of no template":      {"combined", `192.0.2.1 - - ` + clfTime + ` "GET /a HTTP/1.1" 200 1`, "GET (other)", Mapping{Routes: []string{"/users/{id}"}, OtherRoute: "(other)"}},
		"a column":                   {"csv", `1,192.0.2.1,/a,GET`, "GET /a", Mapping{Columns: []string{"time", "ip", "path", "method"}}},
	} {
		l := new(Line)
		if got := Scan(scanner(t, c.format, c.m), []byte(c.line), l); got != OK || l.Resource != c.want {
			t.Errorf("%s: %s: got %v, %q, want %q", name, c.line, got, l.Resource, c.want)
		}
	}
}

// TestAClientHasFewResources: nobody makes a new resource of a template by its method, and so a new caller of kind ip_route.
func TestAClientHasFewResources(t *testing.T) {
	s := scanner(t, "combined", Mapping{Callers: callers(t, "ip_route=ip+resource"), Routes: []string{"/users/{id}"}})
	seen := make(map[string]bool)
	for i := range 1000 {
		method := strings.Repeat(string(rune('A'+i%26)), 1+i/26)
		l := new(Line)
		if got := Scan(s, []byte(`192.0.2.1 - - `+clfTime+` "`+method+` /users/7 HTTP/1.1" 200 1`), l); got != OK {
			t.Fatal(method, got)
		}
		seen[strings.Clone(l.IDs[1])] = true
	}
	if len(seen) != 1 || !seen["192.0.2.1|OTHER /users/{id}"] {
		t.Errorf("got %d callers, want one: %.200v", len(seen), seen)
	}
}

// FuzzJoined: a resource is the method, a blank and the path, whatever the request line is. It is a view of a line that begins so,
// and of no other memory but the Line's own.
func FuzzJoined(f *testing.F) {
	f.Add("GET /a y", "GET", "/a")
	f.Add("GET /a", "GET", "/a")
	f.Add("GET/a", "GET", "/a")
	f.Add("GET /", "GET", "/a")
	f.Add("get /a HTTP/1.1", "GET", "/a")
	f.Add("GET /users/7 HTTP/1.1", "GET", "/users/{id}")
	f.Add("", schemas.MethodOther, "")
	f.Fuzz(func(t *testing.T, request, method, path string) {
		l, want := &Line{request: request}, method+" "+path
		got := l.joined(strings.Clone(method), strings.Clone(path))
		if got != want {
			t.Errorf("%q: %q and %q: got %q", request, method, path, got)
		}
		if strings.HasPrefix(request, want) != (len(l.scratch) == 0) || !within(got, request) && !within(got, view(l.scratch)) {
			t.Errorf("%q: %q and %q: got a copy of %q", request, method, path, l.scratch)
		}
	})
}

// TestResourceIsNoViewOfTheLineBefore: a line without a request line has a resource in memory that outlasts the line before it.
func TestResourceIsNoViewOfTheLineBefore(t *testing.T) {
	s, l := scanner(t, "json", Mapping{Callers: callers(t, "ip=ip"), Resource: "p", Method: "m"}), new(Line)
	before := []byte(`{"time":1,"ip":"192.0.2.1","p":"GET /a/b HTTP/1.1"}`)
	for _, line := range [][]byte{before, []byte(`{"time":1,"ip":"192.0.2.1","p":"/a","m":"GET"}`)} {
		if got := Scan(s, line, l); got != OK {
			t.Fatalf("%s: got %v", line, got)
		}
	}
	clear(before) // as when the next file is read into the buffer
	if l.Resource != "GET /a" {
		t.Errorf("got resource %q, want GET /a", l.Resource)
	}
}

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
	many := make([]string, maxRoutes+1)
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
	if _, err := newRoutes(many[:maxRoutes], ""); err != nil {
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
