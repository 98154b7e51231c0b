// Package sidecar is a gate for servers that cannot embed one. It runs beside a proxy. The proxy asks it about each request,
// and it answers from memory:
//
//	nginx auth_request ───────────────┐
//	Traefik ForwardAuth, Caddy ───────┼─▶ Handler ─┐
//	Envoy ext_authz (gRPC) ───────────┘            ├─▶ Set.Check, and Recorder.Record if there is one
//	Envoy rate limit service (gRPC) ─▶ descriptors ┘
//
// The first three ask about an HTTP request, and get the same answer from the same gatehttp middleware. For Envoy, the
// sidecar makes an HTTP request from Envoy's description, and Envoy's answer from the answer of the middleware. The fourth
// names callers itself, in descriptors.
//
// # nginx
//
// The module auth_request accepts only the statuses 2xx, 401 and 403. So the sidecar refuses with 403 there, and the
// configuration of nginx turns it into 429 with Retry-After. deploy/nginx has a configuration to copy.
//
// # Trust
//
// A program that asks the sidecar can claim anything about a request. So the sidecar must listen for the proxy only: on
// loopback or on a Unix socket. It finds client addresses as gatehttp.ClientAddr does, with the proxies that are trusted.
//
// A client may send a field such as X-Api-Key twice. The first line counts. A proxy may have joined both lines by a comma
// before it asks; then each new text after the comma makes another caller. The sidecar cannot know which of the two values
// the server behind the proxy uses. Options.RejectRepeated rejects such requests: with 400, or with 403 for nginx.
//
// Ids of chosen kinds are hashed with a secret if the options of the Set say so: see package gate.
//
// GET /caller tells people what the gates hold about a caller: package schemas/gateview has the JSON. Whoever may ask whether requests
// pass may ask this too, so a proxy must not forward it.
//
// # Descriptors
//
// A descriptor with one entry is a caller: its key is the kind, its value the id. Envoy's remote_address is the kind ip. A
// descriptor with several entries is a composite caller, with the keys joined by "_" and the values by "|": remote_address
// and the key path make the kind ip_path. The domain is ignored: a caller is the same in all domains.
//
// # Chosen input
//
// The proxy describes the request; clients choose its header and path. The cost of a field grows with its length. Fields lie
// in a Go map, which is seeded. The proxy, and gRPC's limit of 4 MiB, bound how many there are. The configuration of the
// proxy determines the kinds of descriptors, at most 100. X-Forwarded-For is read from its end to the first address that is
// not a proxy's, so that a forged part is not read. Package gate looks the ids up.
package sidecar
