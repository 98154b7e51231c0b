package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/509da70d/floodgate/gate/sidecar"
)

// listenOn listens on host:port, or on the Unix socket of unix:PATH. A socket that a dead process left is replaced.
func listenOn(address string) (net.Listener, error) {
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
		return l, nil
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = c.Close() // it was only asked whether anybody is there
		return nil, fmt.Errorf("listen: %s is in use by another process", path)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

// serveProxies serves HTTP until ctx ends. Idle connections stay for as long as proxies keep them.
func serveProxies(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = s.Shutdown(ctx) // what takes longer is cut off by the process's end
	})
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// serveEnvoy serves gRPC until ctx ends, with the standard health service beside it.
func serveEnvoy(ctx context.Context, l net.Listener, s *sidecar.Sidecar) error {
	server := grpc.NewServer()
	s.Register(server)
	healthpb.RegisterHealthServer(server, health.NewServer())
	stop := context.AfterFunc(ctx, server.Stop) // questions take microseconds: there is nothing to wait for
	defer stop()
	if err := server.Serve(l); err != nil {
		return fmt.Errorf("serve gRPC: %w", err)
	}
	return nil
}

// sidecarCollector shows what a sidecar was asked to Prometheus.
type sidecarCollector struct{ s *sidecar.Sidecar }

//nolint:gochecknoglobals // descriptions are constants
var (
	sidecarAsked   = prometheus.NewDesc("floodgate_sidecar_asked_total", "Requests that proxies asked about.", []string{"by"}, nil)
	sidecarRefused = prometheus.NewDesc("floodgate_sidecar_refused_total", "Requests of these that were refused.", []string{"by"}, nil)
	sidecarIgnored = prometheus.NewDesc("floodgate_sidecar_ignored_descriptors_total", "Descriptors that named no caller, and passed.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c sidecarCollector) Describe(out chan<- *prometheus.Desc) {
	out <- sidecarAsked
	out <- sidecarRefused
	out <- sidecarIgnored
}

// Collect implements prometheus.Collector.
func (c sidecarCollector) Collect(out chan<- prometheus.Metric) {
	st := c.s.Stats()
	for by, a := range map[string]sidecar.Answers{"http": st.HTTP, "ext_authz": st.Authz, "rate_limit": st.RateLimit} {
		out <- prometheus.MustNewConstMetric(sidecarAsked, prometheus.CounterValue, float64(a.Asked), by)
		out <- prometheus.MustNewConstMetric(sidecarRefused, prometheus.CounterValue, float64(a.Refused), by)
	}
	out <- prometheus.MustNewConstMetric(sidecarIgnored, prometheus.CounterValue, float64(st.Descriptors))
}
