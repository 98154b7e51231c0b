// Command example-chi is a web server on the chi router with gates in front of it, for client addresses, for API keys and
// for each route of an address, and with their metrics on an address of their own. It is a module of its own, so that
// users of floodgate don't inherit the router.
//
//	LISTEN=127.0.0.1:8080 METRICS=127.0.0.1:9090 FLOODGATE_BROKERS=127.0.0.1:9092 go run .
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gateprom"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := realMain(ctx, os.Getenv); err != nil {
		slog.Error("example failed", "error", err)
		os.Exit(1)
	}
}

// realMain listens where env says, and serves until ctx ends.
func realMain(ctx context.Context, env func(string) string) error {
	public, err := net.Listen("tcp", cmp.Or(env("LISTEN"), "127.0.0.1:8080"))
	if err != nil {
		return err
	}
	defer public.Close()
	internal, err := net.Listen("tcp", cmp.Or(env("METRICS"), "127.0.0.1:9090"))
	if err != nil {
		return err
	}
	defer internal.Close()
	slog.Info("serving", "address", public.Addr().String(), "metrics", internal.Addr().String())
	return serve(ctx, public, internal, strings.Split(cmp.Or(env("FLOODGATE_BROKERS"), "127.0.0.1:9092"), ","))
}

// serve answers requests on public, and Prometheus on internal, until ctx ends.
func serve(ctx context.Context, public, internal net.Listener, brokers []string) error {
	set := gate.New(gate.Options{})
	rec := record.New(record.Options{})
	link, err := kafkalink.Open(set, rec, kafkalink.Config{Brokers: brokers}) // never holds the server up
	if err != nil {
		return err
	}
	defer link.Close() // at the very end: it sends what the last requests have left
	gates := gatehttp.New(gatehttp.Options{Set: set, Recorder: rec, Callers: []gatehttp.CallerFunc{
		gatehttp.ClientIP(nil), // behind proxies: their prefixes
		gatehttp.Header("key", "X-Api-Key"),
		gatehttp.Composite("ip_route", gatehttp.IP(set, nil), gatehttp.Route),
	}})
	registry := prometheus.NewRegistry()
	registry.MustRegister(gateprom.New(gateprom.Options{Set: set, Link: link}))

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return listen(ctx, public, routes(gates)) })
	g.Go(func() error { return listen(ctx, internal, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})) })
	return g.Wait()
}

// routes is the application.
func routes(gates func(http.Handler) http.Handler) http.Handler {
	r := chi.NewRouter()
	r.Use(name, gates) // in this order
	r.Get("/items/{id}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "an item") })
	r.Route("/v1", func(r chi.Router) {
		r.Get("/search", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "found nothing") })
		r.Post("/login", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	})
	return r
}

// name sets a request's Pattern to the route that it will take, such as "GET /items/{id}". chi itself sets it after
// middlewares have run: too late for the gates, which record it as the resource and make callers of it. Requests without
// a route keep none, so that no client can invent resources.
func name(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := cmp.Or(r.URL.RawPath, r.URL.Path, "/")
		if route := chi.RouteContext(r.Context()).Routes.Find(chi.NewRouteContext(), r.Method, path); route != "" {
			r.Pattern = r.Method + " " + route
		}
		next.ServeHTTP(w, r)
	})
}

// listen serves h on l until ctx ends, and then waits until running requests have their answers.
func listen(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return srv.Shutdown(last)
	})
	return g.Wait()
}
