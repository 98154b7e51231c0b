package feed

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/keyfile"
)

// Paths of a Server.
const (
	PathClosed = "/v1/closed"
	PathFrames = "/v1/frames"
)

// errKeys says that a file of keys cannot be used.
var errKeys = errors.New("bad file of readers' keys")

// OpenKeys reads a file of readers' keys: lines of NAME SHA256, the SHA-256 of the key's text. It is read again when it changes.
func OpenKeys(path string, now time.Time, logger *slog.Logger) (*Keys, error) {
	return keyfile.Open(path, keyfile.Format[struct{}]{Err: errKeys, Secret: "key", Words: "NAME SHA256"}, now, logger)
}

// Keys are the keys of readers. OpenKeys reads them.
type Keys = keyfile.File[struct{}]

// Options are the options of a Server. Board is needed.
type Options struct {
	Board  *board.Board
	Keys   *Keys        // nil: nobody needs a key, as on a Unix socket
	Frames http.Handler // answers POST on PathFrames; nil: there is no such path
	Shadow bool         // all decisions are sent in mode shadow, because the gates of this process refuse nobody
}

// Server answers readers. New makes one; it is an http.Handler. Any goroutine may use it.
type Server struct {
	options Options
	mux     *http.ServeMux
	stats   counters

	streams context.Context //nolint:containedctx // of all streams; Close ends it
	end     context.CancelFunc
}

// New returns a Server. It does no I/O.
func New(o Options) *Server {
	s := &Server{options: o, mux: http.NewServeMux()}
	s.streams, s.end = context.WithCancel(context.Background())
	s.mux.HandleFunc("GET "+PathClosed, s.closed)
	if o.Frames != nil {
		s.mux.Handle("POST "+PathFrames, o.Frames)
	}
	return s
}

// Close ends all streams, without waiting for them. No other one begins.
func (s *Server) Close() { s.end() }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.options.Keys != nil && !s.hasKey(r) {
		s.stats.refused[refusedKey].Add(1)
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "got no key that is in the file of keys, want Authorization: Bearer KEY", http.StatusUnauthorized)
		return
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Server) hasKey(r *http.Request) bool {
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || key == "" {
		return false
	}
	_, ok := s.options.Keys.Find(key, time.Now())
	return ok
}

// closed answers GET on PathClosed.
func (s *Server) closed(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		s.stats.refused[refusedQuery].Add(1)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	asEvents := strings.Contains(r.Header.Get("Accept"), "text/event-stream")
	since := q.since
	if last := r.Header.Get("Last-Event-ID"); asEvents && last != "" {
		since = last
	}
	if s.streams.Err() != nil { // a reader whose stream has ended asks again over its connection, which is still open
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the feed has ended: try again later", http.StatusServiceUnavailable)
		return
	}
	after, _ := strconv.ParseUint(since, 10, 64) // a text that is no number is the cursor of another process
	sub, err := s.options.Board.Subscribe(after)
	if err != nil {
		s.stats.refused[refusedFull].Add(1)
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the feed has too many readers: try again later", http.StatusServiceUnavailable)
		return
	}
	defer sub.Close()
	w.Header().Set("Content-Type", "application/x-ndjson")
	if asEvents {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead { // it only asks whether the key is good
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.streams, cancel)()
	s.stats.readers.Add(1)
	defer s.stats.readers.Add(-1)
	st := stream{Server: s, sub: sub, query: q, asEvents: asEvents, asked: after != 0, w: w, rc: http.NewResponseController(w)}
	_ = st.rc.SetReadDeadline(time.Time{}) // the request has been read; a test's writer has no connection
	st.run(ctx)
}

// query is what a reader asks for.
type query struct {
	kinds  map[string]bool // empty: all
	mode   schemas.Mode    // 0: both
	shares bool
	since  string
}

// parseQuery reads the parameters of PathClosed.
func parseQuery(raw string) (q query, err error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, err
	}
	for name, list := range values {
		if name != "kind" && len(list) > 1 {
			return q, errors.New("parameter " + name + ": got several, want one at most")
		}
		switch value := list[0]; {
		case name == "kind":
			if q.kinds, err = kindsOf(list); err != nil {
				return q, err
			}
		case name == "since":
			q.since = value
		case name == "mode" && value == schemas.ModeEnforce.String():
			q.mode = schemas.ModeEnforce
		case name == "mode" && value == schemas.ModeShadow.String():
			q.mode = schemas.ModeShadow
		case name == "mode":
			return q, errors.New("parameter mode: got " + strconv.Quote(value) + ", want enforce or shadow")
		case name == "shares" && (value == "true" || value == "false"):
			q.shares = value == "true"
		case name == "shares":
			return q, errors.New("parameter shares: got " + strconv.Quote(value) + ", want true or false")
		default:
			return q, errors.New("parameter " + strconv.Quote(name) + ": want kind, mode, shares or since")
		}
	}
	return q, nil
}

func kindsOf(list []string) (map[string]bool, error) {
	kinds := make(map[string]bool, len(list))
	for _, kind := range list {
		if err := schemas.ValidateKind(kind); err != nil {
			return nil, errors.New("parameter kind: " + err.Error())
		}
		kinds[kind] = true
	}
	return kinds, nil
}
