// Package sidecar is a gate for servers that cannot embed one. It runs beside a proxy, which asks it about each request,
// and answers from memory:
//
//	nginx auth_request ───────────────┐
//	Traefik ForwardAuth, Caddy ───────┼─▶ Handler ─┐
//	Envoy ext_authz (gRPC) ───────────┘            ├─▶ Set.Check, and Recorder.Record if there is one
//	Envoy rate limit service (gRPC) ─▶ descriptors ┘
//
// The first three ask about an HTTP request, and get the same answer from the same gatehttp middleware: the request that
// Envoy describes is made into one, and what the middleware answers is made into Envoy's. The fourth names callers
// itself, in descriptors.
//
// # nginx
//
// The module auth_request understands 2xx, 401 and 403 and nothing else. So there the refusal is 403, and the
// configuration turns it into 429 with Retry-After; deploy/nginx has one to copy.
//
// # Whom to believe
//
// Who asks may claim anything about a request, so the sidecar listens for the proxy alone: on loopback or on a Unix
// socket. Client addresses are found as gatehttp.ClientAddr does, with the proxies that are trusted.
//
// # Descriptors
//
// A descriptor of one entry is a caller: its key is the kind, its value the id. Envoy's remote_address is the kind ip. A
// descriptor of several is a composite caller, the keys joined by "_" and the values by "|": remote_address and
// the key path are ip_path. Callers are one space, whatever the domain, which is not looked at.
package sidecar
