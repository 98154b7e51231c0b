package bouncer

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Routes, as Stats counts them.
const (
	routeStartup = iota // /v1/decisions/stream?startup=true
	routeDelta          // /v1/decisions/stream
	routeLookup         // /v1/decisions
	routeUsage          // /v1/usage-metrics
	routeHealth         // /health
	routeOther
	routes
)

// maxUsageBytes is the longest report of a bouncer about itself.
const maxUsageBytes = 1 << 20

// nothingChanged is a delta without items.
const nothingChanged = `{"new":null,"deleted":null}`

// ServeHTTP answers a bouncer. It implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := s.options.Clock()
	w.Header().Set("Cache-Control", "no-store") // an answer is for one bouncer, and holds for one moment
	w.Header().Set("X-Content-Type-Options", "nosniff")
	route := s.route(w, r)
	s.stats.requests[route].note(s.options.Clock().Sub(begun))
}

// route answers, and says which route it was.
func (s *Server) route(w http.ResponseWriter, r *http.Request) int {
	method := http.MethodGet
	answer, route := s.stream, routeDelta
	switch r.URL.Path {
	case "/v1/decisions/stream":
	case "/v1/decisions":
		answer, route = s.lookup, routeLookup
	case "/v1/usage-metrics":
		answer, route, method = s.usage, routeUsage, http.MethodPost
	case "/health":
		route = routeHealth
	default:
		s.refuse(w, http.StatusNotFound, "no such path: want /v1/decisions/stream, /v1/decisions, /v1/usage-metrics or /health")
		return routeOther
	}
	if r.Method != method && (r.Method != http.MethodHead || method != http.MethodGet) {
		w.Header().Set("Allow", method)
		s.refuse(w, http.StatusMethodNotAllowed, "method not allowed: want "+method)
		return route
	}
	if route == routeHealth {
		send(w, http.StatusOK, `{"status":"up"}`)
		return route
	}
	key, ok := s.key(r)
	if !ok {
		s.refuse(w, http.StatusForbidden, "access forbidden")
		return route
	}
	if method == http.MethodGet { // the request has been read: its read deadline would cut off a long answer
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // tests have no connection
	}
	return answer(w, r, key)
}

// key returns the name of the key that a request has.
func (s *Server) key(r *http.Request) (name string, ok bool) {
	sent := r.Header["X-Api-Key"]
	if len(sent) != 1 || sent[0] == "" {
		return "", false
	}
	e, ok := s.options.Keys.Find(sent[0], s.options.Clock())
	return e.Name, ok
}

// refuse answers with an error as bouncers read it.
func (s *Server) refuse(w http.ResponseWriter, status int, message string) {
	reason := errorOther
	switch status {
	case http.StatusForbidden:
		reason = errorForbidden
	case http.StatusServiceUnavailable:
		reason = errorNotReady
	case http.StatusBadRequest:
		reason = errorQuery
	}
	s.stats.errors[reason].Add(1)
	send(w, status, string(append(appendText([]byte(`{"message":`), message), '}')))
}

func send(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) //nolint:gosec // it is JSON, and its type says so
}

// usage takes what a bouncer reports about itself, and forgets it.
func (s *Server) usage(w http.ResponseWriter, r *http.Request, _ string) int {
	_, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxUsageBytes))
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		s.refuse(w, http.StatusRequestEntityTooLarge, "got a report of more than 1 MiB")
		return routeUsage
	}
	w.WriteHeader(http.StatusCreated)
	return routeUsage
}

// stream answers with everything, or with what has changed.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, key string) int {
	q, _, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		s.refuse(w, http.StatusBadRequest, err.Error())
		return routeDelta
	}
	route := routeDelta
	if q.startup {
		route = routeStartup
	}
	if r.Method == http.MethodHead { // it only asks whether the key is good
		w.WriteHeader(http.StatusOK)
		return route
	}
	if !q.startup && !s.fresh() {
		send(w, http.StatusOK, nothingChanged)
		return route
	}
	v, ok := s.complete(r.Context(), &q)
	switch {
	case !ok && q.startup:
		s.refuse(w, http.StatusServiceUnavailable, "floodgate has not read all decisions yet: try again")
		return route
	case !ok:
		send(w, http.StatusOK, nothingChanged)
		return route
	}
	id := identify(r, key, &q)
	a := v.begin(id, q.startup, s.options.Clock())
	given := s.write(w, r, v, &q, &a)
	v.end(id, a, given, s.options.Clock())
	if !given {
		s.stats.errors[errorCut].Add(1)
	}
	return route
}

// complete returns the view for a query, once the view holds all that is in force. It waits at most startupWait for a bouncer that
// starts, and deltaWait for others, and then returns false.
func (s *Server) complete(ctx context.Context, q *query) (*view, bool) {
	wait := deltaWait
	if q.startup {
		wait = startupWait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if q.startup && s.await(ctx) != nil {
		return nil, false
	}
	return s.filled(ctx, q.rules)
}

// fresh reports whether a delta may contain changes: all decisions were read, and those of at least one partition are fresh.
func (s *Server) fresh() bool {
	current, _ := s.isCurrent()
	return current && s.anyFresh()
}

// identify returns the identity of the instance that sends a request.
func identify(r *http.Request, key string, q *query) identity {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr // a Unix socket
	}
	b := []byte(key)
	for _, part := range []string{host, r.UserAgent(), q.scopes, q.origin} {
		b = append(strconv.AppendInt(append(b, 0), int64(len(part)), 10), 0)
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}
