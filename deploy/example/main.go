// Command example is a web server with gates in front of it: one for client addresses, one for API keys. It serves as soon
// as it listens, whether Kafka is there or not.
//
//	LISTEN=127.0.0.1:8080 FLOODGATE_BROKERS=127.0.0.1:9092 go run ./deploy/example
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

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := realMain(ctx, cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:8080"), cmp.Or(os.Getenv("FLOODGATE_BROKERS"), "127.0.0.1:9092")); err != nil {
		slog.Error("example failed", "error", err)
		os.Exit(1)
	}
}

func realMain(ctx context.Context, listen, brokers string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	slog.Info("serving", "address", l.Addr().String())
	return serve(ctx, l, strings.Split(brokers, ","))
}

// serve answers on l until ctx ends. All of floodgate is in the lines that name gate, record, kafkalink or gatehttp.
func serve(ctx context.Context, l net.Listener, brokers []string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })

	set := gate.New(gate.Options{})
	rec := record.New(record.Options{})
	link := kafkalink.New(set, rec, kafkalink.Config{Brokers: brokers})
	gates := gatehttp.New(gatehttp.Options{Set: set, Recorder: rec, Callers: []gatehttp.CallerFunc{
		gatehttp.ClientIP(nil), // behind proxies: their prefixes
		gatehttp.Header("key", "X-Api-Key"),
	}})
	srv := &http.Server{Handler: gates(mux), ReadHeaderTimeout: 5 * time.Second}

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return link.Run(ctx) })
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
