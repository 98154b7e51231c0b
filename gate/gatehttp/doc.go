// Package gatehttp puts gates before an http.Handler: it finds a request's callers, asks their gates, records the
// request, and refuses it with status 429 if a gate is closed.
//
//	request ─▶ Callers ─▶ Set.Check ─┬─ open ───▶ next handler ──▶ Recorder.Respond, if it wants responses
//	                          │      └─ closed ─▶ OnClosed, or 429
//	                          └─▶ Recorder.Record
//
// # Resource
//
// Requests are recorded when they arrive, so that slow ones count at once; but http.ServeMux sets a request's Pattern
// only while it dispatches. So a middleware around a *http.ServeMux asks the mux first, and sets the Pattern to what the
// mux will set it to: caller functions may read it, and it is the default resource. Around other handlers the resource
// is the Pattern that an outer mux has set, if any; for other routers give Options.Resource. The path by itself is not
// taken: those who send requests choose it, and each new one would be an entry of its own.
//
// # The answer to refused requests
//
// Status 429 (RFC 6585) with Retry-After in whole seconds, rounded up, at least 1. Where the decision said what the limit
// was, also the fields of draft-ietf-httpapi-ratelimit-headers, for the rule that refused:
//
//	RateLimit: "per-ip";r=0;t=12
//	RateLimit-Policy: "per-ip";q=100;w=60
//
// Admitted requests get no such fields: an open gate does not know what remains, and nothing is invented.
package gatehttp
