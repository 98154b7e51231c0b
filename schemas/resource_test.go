package schemas

import (
	"strings"
	"testing"
)

// TestAClientCannotMakeResourcesByItsMethod: whatever a client sends as its method, a route is at most eleven resources.
func TestAClientCannotMakeResourcesByItsMethod(t *testing.T) {
	for text, want := range map[string]string{
		"GET": "GET", "HEAD": "HEAD", "POST": "POST", "PUT": "PUT", "PATCH": "PATCH", "DELETE": "DELETE",
		"CONNECT": "CONNECT", "OPTIONS": "OPTIONS", "TRACE": "TRACE", "get": "GET", "Post": "POST",
		"": "", "-": "", "GET ": "OTHER", "GETS": "OTHER", "X1": "OTHER", "PROPFIND": "OTHER", "OTHER": "OTHER", "\x00": "OTHER",
		strings.Repeat("G", 1<<16): "OTHER", "ĢET": "OTHER",
	} {
		if got := Method(text); got != want {
			t.Errorf("%.20q: got %q, want %q", text, got, want)
		}
	}
}

func TestResourcePath(t *testing.T) {
	for resource, want := range map[string]string{
		"GET /search": "/search", "OTHER /search": "/search", "/search": "/search", "": "", "GET": "GET", "GET ": "",
		"GET example.com/search": "example.com/search", "get /search": "get /search", "list users": "list users",
		"/GET /search": "/GET /search", " /search": " /search", "- /search": "- /search", "/a b": "/a b", "GET /a b": "/a b",
	} {
		if got := ResourcePath(resource); got != want {
			t.Errorf("%q: got %q, want %q", resource, got, want)
		}
	}
}

// FuzzResourcePath: a resource that was made of a method and a path gives the path back, so that a rule for a path finds it.
func FuzzResourcePath(f *testing.F) {
	f.Add("GET", "/search")
	f.Add("M-SEARCH", "GET /x")
	f.Fuzz(func(t *testing.T, method, path string) {
		if m := Method(method); m != "" {
			if got := ResourcePath(m + " " + path); got != path {
				t.Errorf("%q of %q: got the path %q", m, method, got)
			}
			if again := Method(m); again != m {
				t.Errorf("%q: got %q, and of that %q", method, m, again)
			}
		}
	})
}
