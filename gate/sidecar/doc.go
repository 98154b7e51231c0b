// Package sidecar is a gate for servers that cannot embed one. It runs beside a proxy. The proxy asks it about each request,
// and it answers from memory:
//
//	nginx auth_request ───────────────┐
//	Traefik ForwardAuth, Caddy ───────┼─▶ Handler ─┐
//	Envoy ext_authz (gRPC) ───────────┘            ├─▶ Set.Check, and Recorder.Record if there is one
//	Envoy rate limit service (gRPC) ─▶ descriptors ┘
//	Envoy quota service (gRPC) ◀── Set.Holds, for the callers that a board.Board tells of
//
// The first three ask about an HTTP request, and get the same answer from the same gatehttp middleware. For Envoy, the
// sidecar makes an HTTP request from Envoy's description, and Envoy's answer from the answer of the middleware. The fourth
// names callers itself, in descriptors. The fifth asks about no request: see "Quota service".
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
// # Quota service
//
// Envoy's filter rate_limit_quota (RLQS) puts each request into a bucket, and keeps a verdict for each bucket. No request waits. The
// id of a bucket names a caller as a descriptor does, with its entries sorted by the parts of the kind. Envoy reports a new bucket at
// once, and all buckets each 5 s. A Sidecar tells it to refuse a bucket whose caller is closed, until the gate reopens, with jitter. It
// tells each change 20 ms later at most. If the sidecar is away, closures in Envoy run to their end, and then Envoy lets pass. Shares
// and the policy "closed" for stale decisions refuse nothing in Envoy.
//
// Envoy calls the filter work in progress. This is what Envoy 1.40 does, as tried with it:
//
//   - The first request of a closed caller passes, and so do those that come until the sidecar has answered. An assignment for a bucket
//     that Envoy has not reported is an error in its log.
//   - Each filter has one bucket for a request. Several filters make several callers.
//   - Once the stream has broken, Envoy opens it again at its next report: up to 5 s later. The field reporting_interval has no effect.
//     What it counted meanwhile is lost.
//   - Assignments last whole seconds; parts of a second are cut off. One without a time ends at once.
//   - A refusal has the same Retry-After for all: fields of the answer are fixed in the configuration.
//   - Envoy forgets no bucket by itself, and needs 1 to 3 KiB for one. So the Sidecar tells it to abandon a bucket that is open and had no
//     request between two reports.
//   - For each new bucket and for each message, Envoy's main thread copies its table: 0.3 ms with 1,000 buckets, 0.7 ms with 5,500. New
//     ids that come faster than that wait in its memory, and so do decisions. 25,000 new ids in 5 s kept it busy for over 25 s.
//   - One id that is not UTF-8 makes each report unreadable, until Envoy restarts. By its source, Envoy finds buckets by a hash of 64 bits
//     without a key, and does not compare ids. So ids must not be what clients write: deploy/envoy/envoy-rlqs.yaml makes them of
//     addresses alone. An address is its network there, because each address of an IPv6 network would have a first request.
//
// A stream has room for 16,384 buckets. One beyond that gets its verdict with its report only. A Sidecar serves 8 streams.
//
// With a Recorder, the requests that Envoy reports are recorded, spread evenly over the time since the last report: Envoy does not say when
// they came. So a rule whose window is shorter than a minute counts inexactly: count those by the log of Envoy.
//
// # Chosen input
//
// The proxy describes the request; clients choose its header and path. The cost of a field grows with its length. Fields lie
// in a Go map, which is seeded. The proxy, and gRPC's limit of MaxReportBytes, bound how many there are. The configuration of the
// proxy determines the kinds of descriptors and buckets, at most 100. X-Forwarded-For is read from its end to the first address that is
// not a proxy's, so that a forged part is not read. Package gate looks the ids up.
package sidecar
