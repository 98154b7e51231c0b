package sidecar

import (
	"net/http"
	"sync/atomic"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/gatehttp"
)

// Paths of Handler.
const (
	PathAuth        = "/auth"         // refuses with 429: for Traefik, Caddy and other proxies that pass this status on
	PathAuthRequest = "/auth_request" // refuses with 403: for nginx
)

// Options configure a Sidecar. Set and Callers are required.
type Options struct {
	Set      *gate.Set
	Recorder gatehttp.Recorder     // nil records nothing: use nil if ingest counts arrivals of the server's log
	Callers  []gatehttp.CallerFunc // of HTTP requests, at most gate.MaxCallers

	// RejectRepeated names fields of the header that an HTTP request may have only once, such as the one with an API key. A
	// request that has one of them twice, or with a comma in it, is answered with 400, and on PathAuthRequest with 403. It is
	// counted like any other: see gatehttp.Options.
	RejectRepeated []string

	// Resource returns what an HTTP request asks for. If it is nil, the resource is empty. It is not the path: clients choose
	// the path, and each new path would be an entry of its own.
	Resource func(*http.Request) string

	// Board tells Envoy's quota service which callers to look up in Set, so that Set must get each decision before Board does, as
	// kafkalink.Config.Watch has it. nil: the quota service is not served.
	Board *board.Board
}

// Stats counts the requests that a Sidecar was asked about since it was made.
type Stats struct {
	HTTP        Answers // Handler
	Authz       Answers // Envoy ext_authz
	RateLimit   Answers // Envoy's rate limit service
	Descriptors uint64  // descriptors of the rate limit service that name no caller, and so passed
	Quota       Quota   // Envoy's quota service
}

// Answers counts requests: all that the sidecar was asked about, those that it refused because a gate was closed, and those
// that it rejected because of Options.RejectRepeated.
type Answers struct{ Asked, Refused, Rejected uint64 }

type answers struct{ asked, refused, rejected atomic.Uint64 }

// count counts a request that the gates answered with this status.
func (a *answers) count(status int) {
	a.asked.Add(1)
	switch status {
	case http.StatusTooManyRequests:
		a.refused.Add(1)
	case http.StatusBadRequest:
		a.rejected.Add(1)
	}
}

func (a *answers) snapshot() Answers {
	refused, rejected := a.refused.Load(), a.rejected.Load() // before asked, so that they are never more than asked
	return Answers{Asked: a.asked.Load(), Refused: refused, Rejected: rejected}
}

// Sidecar answers proxies. Make one with New; any goroutine may use it.
type Sidecar struct {
	auth, authRequest http.Handler
	authz             authorizer
	limits            limiter
	quotas            quotas
	http              answers
}

// New returns a Sidecar. It does no I/O. It panics as gatehttp.New does.
func New(o Options) *Sidecar {
	if o.Resource == nil {
		o.Resource = func(*http.Request) string { return "" }
	}
	gates := gatehttp.New(gatehttp.Options{
		Set: o.Set, Recorder: arrivals(o.Recorder), Callers: o.Callers, Resource: o.Resource, RejectRepeated: o.RejectRepeated,
		OnClosed: func(w http.ResponseWriter, _ *http.Request, _ gate.Verdict) {
			w.WriteHeader(http.StatusTooManyRequests)
		},
	})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	kinds := newKinds(o.Set)
	s := &Sidecar{
		authz:  authorizer{gates: gates},
		limits: limiter{set: o.Set, recorder: o.Recorder, kinds: kinds},
		quotas: quotas{set: o.Set, board: o.Board, recorder: o.Recorder, kinds: kinds},
	}
	s.auth = s.handler(gates, http.StatusTooManyRequests)
	s.authRequest = s.handler(gates, http.StatusForbidden)
	return s
}

// Handler answers requests of any method on PathAuth and PathAuthRequest: with 200, or with the status of the refusal and the
// fields Retry-After, RateLimit and RateLimit-Policy. It does not read bodies.
//
// GET on PathCaller with the parameter caller=kind:id answers with a gateview.Caller in JSON: what the gates hold about that caller. It
// counts nothing. A caller that cannot be read is answered with 400.
func (s *Sidecar) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(PathAuth, s.auth)
	mux.Handle(PathAuthRequest, s.authRequest)
	mux.HandleFunc("GET "+PathCaller, func(w http.ResponseWriter, r *http.Request) { serveCaller(s.limits.set, w, r) })
	return mux
}

// Register registers envoy.service.auth.v3.Authorization and envoy.service.ratelimit.v3.RateLimitService at a gRPC server, and, if there is
// a Board, envoy.service.rate_limit_quota.v3.RateLimitQuotaService. Let the server take messages of MaxReportBytes.
func (s *Sidecar) Register(r grpc.ServiceRegistrar) {
	authv3.RegisterAuthorizationServer(r, &s.authz)
	ratelimitv3.RegisterRateLimitServiceServer(r, &s.limits)
	if s.quotas.board != nil {
		quotav3.RegisterRateLimitQuotaServiceServer(r, &s.quotas)
	}
}

// Stats returns a snapshot.
func (s *Sidecar) Stats() Stats {
	return Stats{
		HTTP: s.http.snapshot(), Authz: s.authz.snapshot(), RateLimit: s.limits.snapshot(),
		Descriptors: s.limits.ignored.Load(), Quota: s.quotas.quota(),
	}
}

// handler returns a handler that answers with the status refused if the gates refuse.
func (s *Sidecar) handler(gates http.Handler, refused int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := refusal{ResponseWriter: w, refused: refused}
		gates.ServeHTTP(&a, r)
		s.http.count(a.status)
	})
}

// refusal is a ResponseWriter that replaces status 429 by another one. If that is 403, for nginx, it replaces 400 too.
type refusal struct {
	http.ResponseWriter
	refused int // the status instead of 429
	status  int // the status of the gates
}

func (a *refusal) WriteHeader(status int) {
	a.status = status
	if status == http.StatusTooManyRequests || status == http.StatusBadRequest && a.refused == http.StatusForbidden {
		status = a.refused
	}
	a.ResponseWriter.WriteHeader(status)
}

// arrivals returns a Recorder that records arrivals only: a sidecar never learns how a request ended.
func arrivals(r gatehttp.Recorder) gatehttp.Recorder {
	if r == nil {
		return nil
	}
	return arrivalRecorder{r}
}

type arrivalRecorder struct{ gatehttp.Recorder }

func (arrivalRecorder) Responses() bool { return false }
