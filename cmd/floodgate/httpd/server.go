package httpd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Bounds on each connection. Those that Config has too are its defaults.
const (
	readHeaderTimeout     = 5 * time.Second
	readTimeout           = 10 * time.Second
	DefaultWriteTimeout   = 30 * time.Second
	DefaultIdleTimeout    = time.Minute
	DefaultMaxHeaderBytes = 16 << 10
)

// stopTimeout is how long running requests may take when the server stops. Longer ones are cut off.
const stopTimeout = time.Second

// Config bounds the time and memory of a connection. The zero value suits people, probes and Prometheus.
type Config struct {
	WriteTimeout   time.Duration // of an answer; 0 is DefaultWriteTimeout
	IdleTimeout    time.Duration // of a connection between requests; 0 is DefaultIdleTimeout
	MaxHeaderBytes int           // of a request; 0 is DefaultMaxHeaderBytes
	Handler        http.Handler  // answers all requests; nil: the server's own routes, and those that Handle adds

	Metrics []prometheus.Collector // that /metrics shows at all times, beside those of the Go runtime and the process
}

// Server answers /metrics, /healthz and /readyz of a daemon, and the routes that Handle adds. New makes one.
type Server struct {
	mux      *http.ServeMux
	http     *http.Server
	registry *prometheus.Registry
	listener net.Listener           // nil before Listen
	reported []prometheus.Collector // of the newest Report

	waits atomic.Pointer[func(time.Time) string] // of the newest Report; nil before the first
}

// New returns a server that does not listen yet. Its /metrics shows the Go runtime, the process and Config.Metrics.
func New(c Config) *Server {
	s := &Server{mux: http.NewServeMux(), registry: prometheus.NewRegistry()}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s.registry.MustRegister(c.Metrics...)
	s.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	s.Handle("GET /healthz", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }))
	s.Handle("GET /readyz", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if why := s.unready(time.Now()); why != "" {
			http.Error(w, "not ready: "+why, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}))
	s.http = &http.Server{
		Handler: cmp.Or[http.Handler](c.Handler, s.mux), ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout,
		WriteTimeout:   cmp.Or(c.WriteTimeout, DefaultWriteTimeout),
		IdleTimeout:    cmp.Or(c.IdleTimeout, DefaultIdleTimeout),
		MaxHeaderBytes: cmp.Or(c.MaxHeaderBytes, DefaultMaxHeaderBytes),
	}
	return s
}

// Handle adds a route, by a pattern of http.ServeMux such as "GET /callers/{id}". It panics if the pattern is invalid or
// was added before: both mistakes show at the first start. Any goroutine may call it.
func (s *Server) Handle(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// Report makes /metrics show the collectors, and /readyz say what the daemon waits for; waits returns "" when the daemon is
// ready. Both replace those of the previous call. One goroutine calls it; waits is called from any.
func (s *Server) Report(waits func(now time.Time) string, metrics ...prometheus.Collector) {
	for _, m := range s.reported {
		s.registry.Unregister(m)
	}
	s.reported = metrics
	s.registry.MustRegister(metrics...)
	s.waits.Store(&waits)
}

// unready returns what the daemon waits for, or nothing.
func (s *Server) unready(now time.Time) string {
	if waits := s.waits.Load(); waits != nil {
		return (*waits)(now)
	}
	return "waiting for Kafka"
}

// Listen listens on the address of a flag as the function Listen does, and logs the address. An address that is in use is an error at once.
func (s *Server) Listen(flag, address string, logger *slog.Logger) (err error) {
	if s.listener, err = Listen(flag, address); err != nil {
		return err
	}
	logger.Info("listening", "address", s.Address(), "flag", "--"+flag)
	return nil
}

// On makes the server use a listener.
func (s *Server) On(l net.Listener) { s.listener = l }

// Address returns where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Run serves until ctx ends and running requests have their answers, which may take a second more.
func (s *Server) Run(ctx context.Context) error {
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if s.http.Shutdown(ctx) != nil {
			_ = s.http.Close() // cuts off requests that take longer
		}
	})
	err := s.http.Serve(s.listener)
	if !stop() {
		<-stopped
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
