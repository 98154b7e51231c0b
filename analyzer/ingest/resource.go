package ingest

import (
	"fmt"
	"strings"

	"github.com/509da70d/floodgate/schemas"
)

// findResource makes the resource of the line at hand: the method as schemas.Method returns it, a blank, and the path or the
// template that it fits. A line without a method has the path or the template alone, and one without a path has no resource. Where
// "-" stands for no value, a request "GET - HTTP/1.1" has no path: every server refuses it.
func (s *scan) findResource(l *Line) {
	method, target := l.requestOf(s.first(&s.m.path))
	if s.m.method.what != refNone {
		if given := s.first(&s.m.method); given != "" {
			method = given
		}
	}
	s.path = pathOf(target)
	s.route = s.m.routes.name(s.path)
	if known := schemas.Method(method); known != "" && s.route != "" {
		s.route = l.joined(known, s.route)
	}
	l.resource(s.route)
}

// joined returns method, a blank and path: as a view, if the request line begins so, as nearly all do; else in l's scratch.
func (l *Line) joined(method, path string) string {
	if n := len(method) + len(" ") + len(path); n <= len(l.request) {
		if s := l.request[:n]; s[:len(method)] == method && s[len(method)] == ' ' && s[len(method)+1:] == path {
			return s
		}
	}
	return l.keep(method, " ", path)
}

// requestOf returns the method and the target of a request line "GET /path HTTP/1.1", and s itself as the target if it is none.
func (l *Line) requestOf(s string) (method, target string) {
	if s == "" || s[0] == '/' {
		return "", s
	}
	i := strings.IndexByte(s, ' ')
	if i <= 0 || strings.Trim(s[:i], "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != "" || !strings.Contains(s[i:], " HTTP/") {
		return "", s
	}
	return l.splitRequest(s)
}

// pathOf returns the path of a request target, without the query; of an absolute URL, the path of it.
func pathOf(target string) string {
	if i := strings.IndexByte(target, '?'); i >= 0 {
		target = target[:i]
	}
	if target == "" || target[0] == '/' {
		return target
	}
	if _, after, found := strings.Cut(target, "://"); found {
		if i := strings.IndexByte(after, '/'); i >= 0 {
			return after[i:]
		}
		return "/"
	}
	return target
}

// maxSegments bounds how deep a template goes.
const maxSegments = 32

// routes finds the template that a path fits: /users/123 is /users/{id}. A segment in braces is any one segment that is
// not empty, {name...} at the end any number of them; where several templates fit, plain text goes before a segment in
// braces, and that before any number. It does not change once made.
type routes struct {
	root  route
	other string
}

// route is a node of the tree of templates: what follows a number of segments.
type route struct {
	next map[string]*route
	any  *route // a segment in braces
	name string // the template that ends here, "" if none does
	rest string // the template that takes all that follows, "" if none does
}

// newRoutes returns the routes of templates, with a name for what fits none; "" leaves such a path as it is.
func newRoutes(templates []string, other string) (*routes, error) {
	if len(templates) > maxRoutes {
		return nil, fmt.Errorf("got %d resource templates, want at most %d", len(templates), maxRoutes)
	}
	if len(other) > schemas.MaxResource {
		return nil, fmt.Errorf("got a resource of %d bytes for what fits no template, want at most %d", len(other), schemas.MaxResource)
	}
	r := &routes{other: other}
	for _, t := range templates {
		if err := r.add(t); err != nil {
			return nil, fmt.Errorf("resource template %q: %w", t, err)
		}
	}
	return r, nil
}

// add adds one template.
func (r *routes) add(t string) error {
	if !strings.HasPrefix(t, "/") || len(t) > schemas.MaxResource {
		return fmt.Errorf("want a path that begins with / and has at most %d bytes", schemas.MaxResource)
	}
	n, segments := &r.root, strings.Split(t[1:], "/")
	if len(segments) > maxSegments {
		return fmt.Errorf("got %d segments, want at most %d", len(segments), maxSegments)
	}
	for i, segment := range segments {
		open, end := strings.HasPrefix(segment, "{"), strings.HasSuffix(segment, "}")
		switch {
		case open && strings.HasSuffix(segment, "...}"):
			if i < len(segments)-1 {
				return fmt.Errorf("%s is not the last segment", segment)
			}
			if n.rest != "" {
				return fmt.Errorf("says the same as %s", n.rest)
			}
			n.rest = t
			return nil
		case open && end && len(segment) > 2:
			if n.any == nil {
				n.any = new(route)
			}
			n = n.any
		case strings.ContainsAny(segment, "{}"):
			return fmt.Errorf("got %q, want text or a name in braces", segment)
		default:
			if n.next == nil {
				n.next = make(map[string]*route)
			}
			if n.next[segment] == nil {
				n.next[segment] = new(route)
			}
			n = n.next[segment]
		}
	}
	if n.name != "" {
		return fmt.Errorf("says the same as %s", n.name)
	}
	n.name = t
	return nil
}

// name returns the template that path fits, or what it is called otherwise. A nil r names nothing.
func (r *routes) name(path string) string {
	if r == nil || path == "" {
		return path
	}
	if path[0] == '/' {
		if t := r.root.find(path[1:]); t != "" {
			return t
		}
	}
	if r.other != "" {
		return r.other
	}
	return path
}

// find returns the template that the rest of a path fits below n. It visits each node at most once, because each node has
// one way that leads to it.
func (n *route) find(path string) string {
	segment, rest, more := strings.Cut(path, "/")
	for _, next := range [...]*route{n.next[segment], n.any} {
		if next == nil || next == n.any && segment == "" {
			continue
		}
		if !more {
			if next.name != "" {
				return next.name
			}
		} else if t := next.find(rest); t != "" {
			return t
		}
	}
	return n.rest
}
