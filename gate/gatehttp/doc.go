// Package gatehttp puts gates before an http.Handler: it finds a request's callers, asks their gates, records the
// request, and refuses it with status 429 if a gate is closed.
//
//	request ─▶ Callers ─▶ Set.Check ─┬─ open ───▶ next handler ──▶ Recorder.Respond, if it wants responses
//	                          │      └─ closed ─▶ OnClosed, or 429
//	                          └─▶ Recorder.Record
//
// # Resource
//
// Requests are recorded when they arrive, so that slow requests count at once. But http.ServeMux sets the Pattern of a
// request only when it dispatches it. So a middleware around a *http.ServeMux asks the mux first, and sets the Pattern that
// the mux will set. Caller functions may read the Pattern. The default resource is the method, a blank and the Pattern without
// its own method, such as "GET /items/{id}": all that report to floodgate use this form, and schemas.Method says which methods
// there are. Around other handlers the Pattern is the one that an outer mux has set, if any; for other routers set
// Options.Resource. The path is not used as resource: clients choose it, and each new path would be an entry of its own.
//
// # The callers of a request
//
// Ids are counted in the form that package schemas gives them: IPv6 addresses by their network; long ids, and parts that
// contain the separator of a composite, by a hash. No id escapes its rule by its length or its content. If a field was sent
// twice, the first line counts; Options.RejectRepeated answers such requests with 400. Ids are sent to Kafka in clear, unless
// the Set's Options.IDs.Hash has their kind. Give it the kinds whose ids are secrets, such as API keys.
//
// # Holds
//
// With record.Options.Holds a request holds a part of its callers' limits from its arrival until its response is recorded: what
// Options.Declared expects of it, or what the rule says. The response is recorded when the handler returns, also if it panics or the
// client has gone away, and its cost is what Options.Cost knows by then. So a stream of server-sent events ends with its handler, and
// so does a connection that was hijacked: let the handler wait until it is closed. deploy/recipes/goproxy is an example.
//
// # The answer to refused requests
//
// Status 429 (RFC 6585) with Retry-After in whole seconds, rounded up, at least 1. If the decision contains the limit, the
// answer also has the fields of draft-ietf-httpapi-ratelimit-headers, for the rule that refused:
//
//	RateLimit: "per-ip";r=0;t=12
//	RateLimit-Policy: "per-ip";q=100;w=60
//
// Answers to admitted requests have no such fields, because an open gate does not know how much of the limit remains.
//
// # Chosen input
//
// The middleware reads only those fields of a header that callers are made of, and only the first value of each. Of
// X-Forwarded-For it reads from the end to the first address that is not a proxy's. Options.RejectRepeated reads all lines of
// its fields. net/http limits the length of a header (Server.MaxHeaderBytes).
package gatehttp
