package schemas

import "strings"

// MethodOther is the method in the resource of a request whose method is none of those that Method knows.
const MethodOther = "OTHER"

// Method returns the method of a request as resources have it: one of GET, HEAD, POST, PUT, PATCH, DELETE, CONNECT, OPTIONS and
// TRACE, also where text is in lower case; "" for a text that is empty or "-"; and MethodOther for all others. Clients choose the
// method: with every text of theirs in it, one route would be as many resources as a client likes. It does not allocate.
func Method(text string) string {
	switch text {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE":
		return text
	case "", "-":
		return ""
	}
	for _, m := range [...]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"} {
		if strings.EqualFold(text, m) {
			return m
		}
	}
	return MethodOther
}

// ResourcePath returns a resource without its method: "/search" of "GET /search", and of "/search". A resource is the method as
// Method returns it, a blank, and the path or the route; where nobody knows the method, it is the path or the route alone.
func ResourcePath(resource string) string {
	if method, path, found := strings.Cut(resource, " "); found && method != "" && (method == MethodOther || Method(method) == method) {
		return path
	}
	return resource
}
