package bouncer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/keyfile"
)

// Defaults and bounds.
const (
	DefaultMinClosure = 10 * time.Second
	maxViews          = 8                // filters of scenarios that are served at a time
	startupWait       = 10 * time.Second // the longest time that a bouncer waits until all decisions are read

	deltaWait = 5 * time.Second // the longest time that a delta waits until its view, which was dropped, is filled again
)

// Bounds on connections.
const (
	headerTimeout  = 5 * time.Second
	readTimeout    = 10 * time.Second
	writeTimeout   = 30 * time.Second // of a piece of an answer
	idleTimeout    = 5 * time.Minute  // bouncers keep connections
	stopTimeout    = time.Second
	maxHeaderBytes = 16 << 10
)

// errKeys says that a file of keys cannot be used.
var errKeys = errors.New("bad file of bouncers' keys")

// OpenKeys reads a file of bouncers' keys: lines of NAME SHA256, the SHA-256 of the key's text. A key that a bouncer sends is
// compared in constant time, and the file is read again when it changes.
func OpenKeys(path string, now time.Time, logger *slog.Logger) (*Keys, error) {
	return keyfile.Open(path, keyfile.Format[struct{}]{Err: errKeys, Secret: "key", Words: "NAME SHA256"}, now, logger)
}

// Keys are the keys of bouncers. OpenKeys reads them.
type Keys = keyfile.File[struct{}]

// Options are the options of a Server. Board and Keys are needed.
type Options struct {
	Board      *board.Board
	Keys       *Keys
	IDs        schemas.IDs      // how callers' ids were made: IPv6 networks are given whole
	MinClosure time.Duration    // shorter closures are left out; 0 is DefaultMinClosure, and less than a second is a second
	Shadow     bool             // bouncers get no addresses, because the gates of this process refuse nobody
	Clock      func() time.Time // nil is time.Now
	Logger     *slog.Logger     // nil is slog.Default()
}

// Server answers bouncers. New makes one; it is an http.Handler. Any goroutine may use it.
type Server struct {
	options     Options
	started     uint64 // all change numbers are above it, so that those of an earlier process are recognised
	stats       counters
	filling     sync.WaitGroup // of views
	reading     time.Duration  // readTimeout, but in tests
	skipInForce bool           // for Run only: skip the InForce events that follow a Lost, because all views were updated at it

	mu      sync.Mutex // protects what follows
	views   map[string]*view
	current bool          // all that is in force was read
	wake    chan struct{} // closed and replaced when current changes
}

// New returns a Server that holds nothing until Run is called.
func New(o Options) *Server {
	o.MinClosure = max(cmp.Or(o.MinClosure, DefaultMinClosure), shortestDuration)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Server{options: o, views: map[string]*view{}, wake: make(chan struct{}), reading: readTimeout}
	s.started = uint64(max(0, o.Clock().UnixMicro())) // JavaScript reads numbers below 2^53
	first := s.newView(s.rules(ruleFilter{}))
	close(first.filled) // by Run
	s.views[first.rules.key()] = first
	return s
}

func (s *Server) newView(rules ruleFilter) *view {
	return newView(s.options.Board, rules, s.options.MinClosure, s.started)
}

// rules returns a filter as this server applies it.
func (s *Server) rules(f ruleFilter) ruleFilter {
	f.nothing = s.options.Shadow
	return f
}

// Run follows the board until ctx ends. The error is that of Board.Subscribe, or nil. Call it once.
func (s *Server) Run(ctx context.Context) error {
	sub, err := s.options.Board.Subscribe(0)
	if err != nil {
		return fmt.Errorf("serve bouncers: %w", err)
	}
	defer sub.Close()
	for {
		e, err := sub.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil // it was asked to stop
			}
			return fmt.Errorf("serve bouncers: %w", err)
		}
		s.handle(&e)
	}
}

// handle applies an event of the board.
func (s *Server) handle(e *board.Event) {
	now := s.options.Clock()
	switch e.Kind {
	case board.Lost:
		// lookAtAll takes a while. In a storm, more changes are lost meanwhile, and it runs again: bouncers then get changes later.
		if s.skipInForce = s.options.Board.Ready(); !s.skipInForce {
			s.setCurrent(false) // there are other partitions
			return
		}
		for _, v := range s.all() {
			v.lookAtAll(now)
		}
	case board.InForce:
		if !s.skipInForce {
			s.changed(e, now)
		}
	case board.Current:
		s.skipInForce = false
		s.setCurrent(true)
	default:
		s.changed(e, now)
	}
}

// changed makes all views look at the caller of an event.
func (s *Server) changed(e *board.Event, now time.Time) {
	s.count(e)
	if addr, ok := addressOf(e.Decision.Caller); ok {
		for _, v := range s.all() {
			v.look(addr, e.Decision.Caller.ID, now, e.Kind == board.InForce)
		}
	}
}

// all returns the views.
func (s *Server) all() []*view {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*view, 0, maxViews)
	for _, v := range s.views {
		list = append(list, v)
	}
	return list
}

func (s *Server) setCurrent(current bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != current {
		s.current = current
		close(s.wake)
		s.wake = make(chan struct{})
	}
}

// isCurrent reports whether all that is in force was read, and returns a channel that is closed when that changes.
func (s *Server) isCurrent() (bool, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current && s.options.Board.Ready(), s.wake
}

// await waits until all that is in force was read. The error is that of ctx.
func (s *Server) await(ctx context.Context) error {
	if err := s.options.Board.AwaitReady(ctx); err != nil {
		return err
	}
	for {
		current, wake := s.isCurrent()
		if current {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// filled returns the view of a filter when it is filled, or false if ctx ends before.
func (s *Server) filled(ctx context.Context, f ruleFilter) (*view, bool) {
	for {
		v := s.view(f, s.options.Clock())
		select {
		case <-v.filled:
		case <-ctx.Done():
			return nil, false
		}
		if v.rules.key() == f.key() {
			return v, true
		}
	}
}

// view returns the view of a filter, and makes one if there is none. If there are maxViews already, the new one replaces the one that
// was used least recently. The view is complete when its channel filled is closed. A view that is being filled is never replaced, so
// that at most maxViews take memory. If all of them are being filled, view returns one of these: the caller waits for it, and calls view
// again.
func (s *Server) view(f ruleFilter, now time.Time) *view {
	f = s.rules(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.views[f.key()]
	if !ok {
		if len(s.views) >= maxViews {
			if busy := s.dropView(); busy != nil {
				return busy
			}
		}
		v = s.newView(f)
		s.views[f.key()] = v
		s.filling.Go(func() { v.fill(now) })
	}
	v.used = now
	return v
}

// dropView drops the filled view that was used least recently. It never drops the view without a filter, which Run keeps up to date. If
// it can drop none, it returns a view that is being filled.
func (s *Server) dropView() (busy *view) {
	var oldest string
	for key, v := range s.views {
		switch {
		case key == (ruleFilter{}).key():
		case !v.isFilled():
			busy = v
		case oldest == "" || v.used.Before(s.views[oldest].used):
			oldest = key
		}
	}
	if oldest == "" {
		return busy
	}
	delete(s.views, oldest)
	return nil
}

// Serve answers on a listener until ctx ends and running requests have their answers, which may take a second more. It closes
// the listener. Call it once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTimeout, ReadTimeout: s.reading, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(s.options.Logger.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // cuts off requests that take longer
		}
	})
	err := server.Serve(l)
	if !stop() {
		<-stopped
	}
	s.filling.Wait()
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve bouncers: %w", err)
	}
	return nil
}
