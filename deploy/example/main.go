// Command example is a web server with gates in front of it: one for client addresses, one for API keys. It serves as soon
// as it listens, whether Kafka is there or not.
//
//	LISTEN=127.0.0.1:8080 FLOODGATE_BROKERS=127.0.0.1:9092 go run ./deploy/example
//
// FLOODGATE_PARTITION_KEY_FILE names the file that "floodgate topics --create --partition-key-file" made; without it, the
// public key is used. METRICS is a second address, for Prometheus alone; without it, there are no metrics.
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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gateprom"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
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
	key := schemas.DefaultPartitionKey()
	if path := env("FLOODGATE_PARTITION_KEY_FILE"); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if key, err = schemas.ParsePartitionKey(string(text)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	l, err := net.Listen("tcp", cmp.Or(env("LISTEN"), "127.0.0.1:8080"))
	if err != nil {
		return err
	}
	slog.Info("serving", "address", l.Addr().String())
	var metrics net.Listener
	if address := env("METRICS"); address != "" {
		if metrics, err = net.Listen("tcp", address); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	return serve(ctx, mux, l, metrics, kafkalink.Config{Brokers: strings.Split(cmp.Or(env("FLOODGATE_BROKERS"), "127.0.0.1:9092"), ","), PartitionKey: key})
}

// serve answers on l with what app says until ctx ends, and Prometheus on metrics, if that is not nil. All of floodgate is in the
// lines that name gate, gateprom, record, kafkalink or gatehttp.
func serve(ctx context.Context, app http.Handler, l, metrics net.Listener, kafka kafkalink.Config) error {
	set := gate.New(gate.Options{})
	rec := record.New(record.Options{Responses: true}) // for rules that match a status or measure cost
	link, err := kafkalink.Open(set, rec, kafka)
	if err != nil {
		return err
	}
	defer link.Close() // at the very end: it sends what the last requests and responses have left
	gates := gatehttp.New(gatehttp.Options{Set: set, Recorder: rec, Callers: []gatehttp.CallerFunc{
		gatehttp.ClientIP(nil), // behind proxies: their prefixes
		gatehttp.Header("key", "X-Api-Key"),
	}})
	registry := prometheus.NewRegistry()
	registry.MustRegister(gateprom.New(gateprom.Options{Set: set, Link: link}))

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return answer(ctx, l, gates(app)) })
	if metrics != nil {
		g.Go(func() error { return answer(ctx, metrics, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})) })
	}
	return g.Wait()
}

// answer serves on l until ctx ends, and then waits until running requests have their answers.
func answer(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		stopped <- srv.Shutdown(last)
	})
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serve: %w", err)
	}
	return <-stopped
}
