// Command goproxy is a reverse proxy before a language model, with gates by API key. Tokens are counted when a request ends, and held
// while it runs. README.md says what is read of requests and answers.
//
//	MODEL=http://127.0.0.1:8000 LISTEN=127.0.0.1:8080 FLOODGATE_BROKERS=127.0.0.1:9092 go run ./deploy/recipes/goproxy
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := realMain(ctx, os.Getenv); err != nil {
		slog.Error("goproxy failed", "error", err)
		os.Exit(1)
	}
}

// realMain listens where env says, and serves until ctx ends.
func realMain(ctx context.Context, env func(string) string) error {
	model, err := url.Parse(env("MODEL"))
	if err != nil || model.Host == "" || model.Scheme != "http" && model.Scheme != "https" {
		return fmt.Errorf("MODEL: got %q, want a URL such as http://127.0.0.1:8000", env("MODEL"))
	}
	l, err := net.Listen("tcp", cmp.Or(env("LISTEN"), "127.0.0.1:8080"))
	if err != nil {
		return err
	}
	set, rec := gate.New(gate.Options{}), record.New(record.Options{Holds: true})
	link, err := kafkalink.Open(set, rec, kafkalink.Config{Brokers: strings.Split(cmp.Or(env("FLOODGATE_BROKERS"), "127.0.0.1:9092"), ",")})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer link.Close() // at the very end: it sends what the last responses have left
	slog.Info("serving", "address", l.Addr().String())
	return serve(ctx, l, newProxy(model, set, rec))
}

// serve answers on l until ctx ends, and then waits for streams that run, but not for ever.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		stopped <- srv.Shutdown(last)
	})
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serve: %w", err)
	}
	return <-stopped
}
