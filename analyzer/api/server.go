package api

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas"
)

// Server is the API. New makes one; it answers 503 until Attach gives it what it answers from. Any goroutine may use it.
type Server struct {
	config       Config
	logger       *slog.Logger
	tokens       *tokenFile // nil: there are none
	signer       *signer    // nil: nothing is forwarded
	secret       []byte     // of redacted ids
	cursors      cursors
	instance     string // names this server among others, and among those before it
	callerParser callerParser
	hosts        map[string]bool
	routes       map[string]map[string]*route // by path and method
	origin       *http.CrossOriginProtection
	tls          *certificates // nil: plain
	peers        *http.Client
	streams      streams
	counters     *counters
	pending      pendingRecords
	shutdown     chan struct{} // closed when the server stops
	backend      atomic.Pointer[Backend]
	changes      atomic.Pointer[changeTexts] // of the newest backend that was attached
}

// New returns a server that does not listen yet, or why this Config is not safe or not right: see ErrExposed, ErrConfig and
// ErrTokens. It reads the files that the Config names.
func New(config Config) (*Server, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	secret := newSecret(config.ClusterKey)
	s := &Server{
		config: config, logger: config.Logger, callerParser: callerParser{config.IDs}, hosts: config.names(),
		origin: http.NewCrossOriginProtection(), shutdown: make(chan struct{}), secret: secret, cursors: newCursors(secret), instance: rand.Text(),
	}
	if config.TokenFile != "" {
		if s.tokens, err = openTokens(config.TokenFile, config.Clock(), s.logger); err != nil {
			return nil, err
		}
	}
	if config.CertFile != "" {
		if s.tls, err = openCertificates(&config); err != nil {
			return nil, err
		}
	}
	if len(config.ClusterKey) > 0 {
		s.signer = newSigner(config.ClusterKey)
		s.peers = s.newPeers()
	}
	s.routes = make(map[string]map[string]*route)
	table := s.routeTable()
	s.counters = newCounters(table)
	for _, r := range table {
		if s.routes[r.path] == nil {
			s.routes[r.path] = make(map[string]*route)
		}
		s.routes[r.path][r.method] = &r
	}
	return s, nil
}

// Attach makes the server answer from a backend, in place of the one before. nil is none: it answers 503 again.
func (s *Server) Attach(b *Backend) {
	s.changes.Store(&changeTexts{of: b})
	s.backend.Store(b)
}

// route is one operation.
type route struct {
	method, path string
	role         Role
	params       []string // of the query
	forwardable  bool     // other analyzers may forward it to here
	standalone   bool     // needs no backend
	endless      bool     // it answers until its client leaves
	serve        func(c *call) error
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	c := &call{Request: r, w: w, server: s}
	began := c.now()
	defer func() { s.counters.note(c, c.now().Sub(began)) }()
	err := s.serveSafely(c)
	var p *apiv1.Problem
	if err != nil {
		p = s.fail(c, err)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		s.logCall(c, p)
	}
}

// serveSafely is serve. A panic in it is a failure of this request, which the log has with its stack.
func (s *Server) serveSafely(c *call) (err error) {
	defer func() {
		switch p := recover(); {
		case p == nil:
		case c.status != 0 || isAbort(p): // an answer has begun: only closing the connection can show the failure
			if !isAbort(p) {
				s.logger.Error("the API has panicked, which is a bug", "path", c.URL.Path, "panic", p, "stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler)
		default:
			err = fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack())
		}
	}()
	return s.serve(c)
}

// isAbort reports whether a handler has panicked so that the connection is closed.
func isAbort(p any) bool {
	err, ok := p.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// errPanic says that a handler has panicked.
var errPanic = errors.New("a panic, which is a bug")

// serve does all that comes before the route's own work, then that.
func (s *Server) serve(c *call) error {
	if err := s.checkHost(c.Request); err != nil {
		return err
	}
	if s.ofPage(c.URL.Path) {
		return s.servePage(c)
	}
	if err := s.find(c); err != nil {
		return err
	}
	if err := s.checkOrigin(c); err != nil {
		return err
	}
	w, err := s.identify(c)
	if err != nil {
		return err
	}
	c.identity, c.redactor = w, redactor{on: w.redact, secret: s.secret}
	if w.role < c.route.role {
		return c.refused()
	}
	if c.query, err = parseQuery(c.URL.RawQuery, c.route.params); err != nil {
		return err
	}
	if _, err := c.readBody(); err != nil {
		return err
	}
	if c.backend = s.backend.Load(); c.backend == nil && !c.route.standalone {
		return problem(http.StatusServiceUnavailable, "this analyzer waits for Kafka")
	}
	return c.route.serve(c)
}

// find sets the route of a call.
func (s *Server) find(c *call) error {
	methods := s.routes[c.URL.Path]
	if methods == nil || c.URL.RawPath != "" {
		return problem(http.StatusNotFound, "there is no such route: see /v1/openapi.yaml")
	}
	if c.route = methods[c.Method]; c.route == nil {
		allowed := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
		c.w.Header().Set("Allow", allowed)
		return wrong(http.StatusMethodNotAllowed, "method", c.Method, allowed)
	}
	return nil
}

// fail answers with the problem that an error is, unless an answer has begun already.
func (s *Server) fail(c *call, err error) *apiv1.Problem {
	p := s.problemFor(err)
	if p.Status == http.StatusInternalServerError && c.Context().Err() == nil {
		s.logger.Error("the API failed", "method", c.Method, "path", c.URL.Path, "error", err)
	}
	if c.status == 0 {
		c.status = p.Status
		writeProblem(c.w, p)
	}
	return p
}

// logCall writes the line of a POST, also of one that was refused. Who asked and what was wanted are in it; secrets are not.
func (s *Server) logCall(c *call, p *apiv1.Problem) {
	name, role := "", ""
	if c.identity != nil {
		name, role = c.identity.name, c.identity.role.String()
	}
	pairs := []any{"method", clip(c.Method), "path", clip(c.URL.Path), "status", c.status, "who", name, "role", role, "address", c.RemoteAddr}
	pairs = append(pairs, c.log...)
	if p != nil {
		s.logger.Warn("API: refused", append(pairs, "problem", p.Detail, "at", p.Pointer)...)
		return
	}
	s.logger.Info("API", pairs...)
}

// routeTable returns all operations. schemas/openapi.yaml describes each.
func (s *Server) routeTable() []route {
	get, post := http.MethodGet, http.MethodPost
	return []route{
		{method: get, path: "/v1/openapi.yaml", role: roleRead, standalone: true, serve: getDescription},
		{method: get, path: "/v1/status", role: roleRead, serve: s.getStatus},
		{method: get, path: "/v1/caller", role: roleRead, params: []string{"caller"}, forwardable: true, serve: s.getCaller},
		{method: get, path: "/v1/explain", role: roleRead, params: []string{"caller"}, forwardable: true, serve: s.getExplain},
		{
			method: get, path: "/v1/callers", role: roleRead, forwardable: true, serve: s.getCallers,
			params: []string{"sort", "rule", "kind", "prefix", "network", "min_share", "limit", "cursor", "partition"},
		},
		{method: get, path: "/v1/series", role: roleRead, params: []string{"seconds", "partition"}, forwardable: true, serve: s.getSeries},
		{method: post, path: "/v1/try", role: roleRead, forwardable: true, serve: s.postTry},
		{method: get, path: "/v1/decisions", role: roleRead, params: []string{"caller", "rule", "kind", "mode", "prefix", "since", "limit", "cursor"}, serve: s.getDecisions},
		{method: get, path: "/v1/decisions/stream", role: roleRead, params: []string{"rule", "kind", "mode", "prefix"}, endless: true, serve: s.getStream},
		{method: get, path: "/v1/actions", role: roleRead, params: []string{"caller", "action", "state", "limit", "cursor"}, serve: s.getActions},
		{method: get, path: "/v1/rules", role: roleRead, params: []string{"version"}, serve: s.getRules},
		{method: get, path: "/v1/rules/versions", role: roleRead, serve: s.getVersions},
		{method: get, path: "/v1/rules/diff", role: roleRead, params: []string{"from", "to"}, serve: s.getDiff},
		{method: post, path: "/v1/rules/check", role: roleRead, standalone: true, serve: s.postRulesCheck},
		{method: post, path: "/v1/close", role: roleOperate, serve: s.postClose},
		{method: post, path: "/v1/open", role: roleOperate, serve: s.postOpen},
		{method: post, path: "/v1/limit", role: roleOperate, serve: s.postLimit},
		{method: post, path: "/v1/reset", role: roleOperate, serve: s.postReset},
		{method: post, path: "/v1/mode", role: roleAdmin, serve: s.postMode},
		{method: post, path: "/v1/undo", role: roleOperate, serve: s.postUndo},
	}
}

// getDescription serves schemas/openapi.yaml.
func getDescription(c *call) error {
	c.status = http.StatusOK
	c.w.Header().Set("Content-Type", "application/yaml")
	_, err := c.w.Write(schemas.OpenAPI())
	return err
}
