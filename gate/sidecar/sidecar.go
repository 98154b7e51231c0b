package sidecar

import (
	"net/http"
	"sync/atomic"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
)

// Paths of Handler.
const (
	PathAuth        = "/auth"         // refused with 429: Traefik, Caddy and others that pass a refusal on
	PathAuthRequest = "/auth_request" // refused with 403, for nginx
)

// Options say what a Sidecar does. Set and Callers are required.
type Options struct {
	Set      *gate.Set
	Recorder gatehttp.Recorder     // nil records nothing: where the server's log is counted, the sidecar must not count too
	Callers  []gatehttp.CallerFunc // of HTTP requests, at most gate.MaxCallers

	// IPv6Bits is how much of an IPv6 address that descriptors name counts, as gatehttp.ClientNetwork has it; 0 is all.
	IPv6Bits int

	// Resource says what an HTTP request asks for. nil is nothing: those who send requests choose the path, and each new one
	// would be an entry of its own.
	Resource func(*http.Request) string
}

// Stats is what a Sidecar was asked since it was made.
type Stats struct {
	HTTP        Answers // Handler
	Authz       Answers // Envoy ext_authz
	RateLimit   Answers // Envoy's rate limit service
	Descriptors uint64  // of the rate limit service, that name no caller and were let pass
}

// Answers is how many requests were asked about, and how many of them were refused.
type Answers struct{ Asked, Refused uint64 }

type answers struct{ asked, refused atomic.Uint64 }

func (a *answers) count(refused bool) {
	a.asked.Add(1)
	if refused {
		a.refused.Add(1)
	}
}

func (a *answers) snapshot() Answers {
	refused := a.refused.Load() // first: never more than asked
	return Answers{Asked: a.asked.Load(), Refused: refused}
}

// Sidecar answers proxies. Make one with New; any goroutine may use it.
type Sidecar struct {
	auth, authRequest http.Handler
	authz             authorizer
	limits            limiter
	http              answers
}

// New returns a Sidecar. It does no I/O. It panics as gatehttp.New does: mistakes that show at the first start.
func New(o Options) *Sidecar {
	if o.Resource == nil {
		o.Resource = func(*http.Request) string { return "" }
	}
	gates := gatehttp.New(gatehttp.Options{
		Set: o.Set, Recorder: arrivals(o.Recorder), Callers: o.Callers, Resource: o.Resource,
		OnClosed: func(w http.ResponseWriter, _ *http.Request, _ gate.Verdict) {
			w.WriteHeader(http.StatusTooManyRequests)
		},
	})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	s := &Sidecar{
		authz:  authorizer{gates: gates},
		limits: limiter{set: o.Set, recorder: o.Recorder, kinds: newKinds(o.Set, o.IPv6Bits)},
	}
	s.auth = s.handler(gates, http.StatusTooManyRequests)
	s.authRequest = s.handler(gates, http.StatusForbidden)
	return s
}

// Handler answers on PathAuth and PathAuthRequest, whatever the method: with 200, or with the refusal's status and the
// fields Retry-After, RateLimit and RateLimit-Policy. Bodies are not read.
func (s *Sidecar) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(PathAuth, s.auth)
	mux.Handle(PathAuthRequest, s.authRequest)
	return mux
}

// Register offers envoy.service.auth.v3.Authorization and envoy.service.ratelimit.v3.RateLimitService on a gRPC server.
func (s *Sidecar) Register(r grpc.ServiceRegistrar) {
	authv3.RegisterAuthorizationServer(r, &s.authz)
	ratelimitv3.RegisterRateLimitServiceServer(r, &s.limits)
}

// Stats returns a snapshot.
func (s *Sidecar) Stats() Stats {
	return Stats{
		HTTP: s.http.snapshot(), Authz: s.authz.snapshot(), RateLimit: s.limits.snapshot(),
		Descriptors: s.limits.ignored.Load(),
	}
}

// handler answers with this status where gates refuse.
func (s *Sidecar) handler(gates http.Handler, refused int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := refusal{ResponseWriter: w, status: refused}
		gates.ServeHTTP(&a, r)
		s.http.count(a.refused)
	})
}

// refusal is a ResponseWriter that puts another status in the place of 429.
type refusal struct {
	http.ResponseWriter
	status  int
	refused bool
}

func (a *refusal) WriteHeader(status int) {
	if status == http.StatusTooManyRequests {
		a.refused, status = true, a.status
	}
	a.ResponseWriter.WriteHeader(status)
}

// arrivals is a recorder of arrivals alone: a sidecar never learns how a request ended.
func arrivals(r gatehttp.Recorder) gatehttp.Recorder {
	if r == nil {
		return nil
	}
	return arrivalRecorder{r}
}

type arrivalRecorder struct{ gatehttp.Recorder }

func (arrivalRecorder) Responses() bool { return false }
