package ingest

import (
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
