package main

import (
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

	"github.com/509da70d/floodgate/analyzer"
)

// server answers /metrics, /healthz and /readyz of a daemon: also while it still waits for Kafka, so that whoever watches
// it can tell waiting from dead.
type server struct {
	listener net.Listener
	http     *http.Server
	registry *prometheus.Registry
	waits    atomic.Pointer[func(time.Time) string] // what it waits for, or nothing; nil until watch
	metrics  prometheus.Collector                   // of what is served; nil until then
}

func newServer() *server {
	s := &server{registry: prometheus.NewRegistry()}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := s.unready(time.Now()); why != "" {
			http.Error(w, "not ready: "+why, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	s.http = &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	return s
}

// open listens, so that an address in use is found at once.
func (s *server) open(listen string, logger *slog.Logger) (err error) {
	if s.listener, err = net.Listen("tcp", listen); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	logger.Info("listening", "address", s.listener.Addr().String())
	return nil
}

// watch makes the server answer for an analyzer: see serve.
func (s *server) watch(a *analyzer.Analyzer) {
	s.serve(newCollector(a), func(now time.Time) string {
		if !a.Ready(now) {
			return "see floodgate_partition_state"
		}
		return ""
	})
}

// serve makes the server answer with metrics, and with what is waited for, in the place of those before. One goroutine
// calls it.
func (s *server) serve(metrics prometheus.Collector, waits func(time.Time) string) {
	if s.metrics != nil {
		s.registry.Unregister(s.metrics)
	}
	s.metrics = metrics
	s.registry.MustRegister(metrics)
	s.waits.Store(&waits)
}

// unready returns what the daemon waits for, or nothing.
func (s *server) unready(now time.Time) string {
	if waits := s.waits.Load(); waits != nil {
		return (*waits)(now)
	}
	return "waiting for Kafka"
}

// run serves until ctx ends.
func (s *server) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = s.http.Shutdown(ctx) // what takes longer is cut off by the process's end
	})
	defer stop()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
