package gatehttp

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/509da70d/floodgate/schemas"
)

// Route returns the method and the pattern that matched the request, such as "GET /items/{id}", for Composite; "" if no pattern is
// known. See the package documentation.
func Route(r *http.Request) string { return joinRoute(r.Method, r.Pattern) }

// joinRoute puts the method before a pattern that has none. The net/http package reads an empty method as GET.
func joinRoute(method, pattern string) string {
	if pattern == "" || strings.ContainsAny(pattern, " \t") {
		return pattern
	}
	if method == "" {
		method = http.MethodGet
	}
	return schemas.Method(method) + " " + pattern
}

// maxRoutes bounds the patterns that a middleware remembers: servers choose them, but another router may set the Pattern to what a
// client has sent.
const maxRoutes = 1024

// routes remembers what joinRoute returned, so that a request needs no memory for it.
type routes struct {
	known  atomic.Pointer[map[string]map[string]string] // by pattern, and by method as schemas.Method returns it
	adding sync.Mutex
}

// of returns the same as Route.
func (c *routes) of(r *http.Request) string {
	if r.Pattern == "" || strings.ContainsAny(r.Pattern, " \t") {
		return r.Pattern
	}
	if known := c.known.Load(); known != nil {
		if route, ok := (*known)[r.Pattern][r.Method]; ok {
			return route
		}
	}
	route := Route(r)
	if r.Method == schemas.Method(r.Method) {
		c.remember(r.Method, r.Pattern, route)
	}
	return route
}

// remember adds a route to those that are known, unless there are many.
func (c *routes) remember(method, pattern, route string) {
	if known := c.known.Load(); known != nil && len(*known) >= maxRoutes {
		return
	}
	c.adding.Lock()
	defer c.adding.Unlock()
	next := make(map[string]map[string]string)
	if known := c.known.Load(); known != nil {
		next = maps.Clone(*known)
	}
	methods := maps.Clone(next[pattern])
	if methods == nil {
		methods = make(map[string]string)
	}
	methods[method] = route
	next[pattern] = methods
	c.known.Store(&next)
}
