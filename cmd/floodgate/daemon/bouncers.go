package daemon

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/httpd"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/bouncer"
	"github.com/509da70d/floodgate/schemas"
)

// bouncerFlags are the flags of sidecar for CrowdSec's bouncers.
type bouncerFlags struct {
	listen   string
	keys     string // file
	shortest time.Duration
}

func (f *bouncerFlags) add(cmd *cobra.Command) {
	command.Section(cmd, "CrowdSec's bouncers", func(flags *pflag.FlagSet) {
		flags.StringVar(&f.listen, "bouncer-listen", "",
			"`address` at which CrowdSec's bouncers find closed addresses, as from CrowdSec's local API: host:port, or unix:PATH; empty: none")
		flags.StringVar(&f.keys, "bouncer-keys", "", "`file` with a line NAME SHA256 for the key of each bouncer; it is read again when it changes")
		flags.DurationVar(&f.shortest, "bouncer-min", bouncer.DefaultMinClosure,
			"shortest `closure` that bouncers are given, 1s at least: how often they ask, as a shorter one is mostly over before")
	})
}

func (f *bouncerFlags) check() error {
	switch {
	case f.listen != "" && f.keys == "":
		return command.Usagef("--bouncer-keys: got none, want a file of lines NAME SHA256 with --bouncer-listen")
	case f.listen == "" && f.keys != "":
		return command.Usagef("--bouncer-listen: got none, want host:port or unix:PATH with --bouncer-keys")
	case f.shortest < time.Second:
		return command.Usagef("--bouncer-min: got %v, want 1s at least", f.shortest)
	}
	return nil
}

// bouncers answers CrowdSec's bouncers beside a sidecar.
type bouncers struct {
	server *bouncer.Server
	listen string
	bound  net.Listener // once open
	logger *slog.Logger
}

// build returns what the flags describe, or nil if no bouncer is to be answered. Nothing connects yet.
func (f *bouncerFlags) build(b *board.Board, ids schemas.IDs, shadow bool, logger *slog.Logger) (*bouncers, error) {
	if f.listen == "" {
		return nil, nil //nolint:nilnil // there is nothing to do
	}
	keys, err := bouncer.OpenKeys(f.keys, time.Now(), logger)
	if err != nil {
		return nil, command.Usagef("--bouncer-keys: %w", err)
	}
	return &bouncers{
		server: bouncer.New(bouncer.Options{Board: b, Keys: keys, IDs: ids, MinClosure: f.shortest, Shadow: shadow, Logger: logger}),
		listen: f.listen, logger: logger,
	}, nil
}

// open listens. It does nothing without bouncers.
func (b *bouncers) open() (err error) {
	if b == nil {
		return nil
	}
	b.bound, err = httpd.Listen("bouncer-listen", b.listen)
	return err
}

// begin adds what runs until ctx ends to a group, after open.
func (b *bouncers) begin(ctx context.Context, g *errgroup.Group) {
	if b == nil {
		return
	}
	address := b.bound.Addr()
	b.logger.Info("listening for bouncers", "address", address.String())
	if !local(address) {
		b.logger.Warn("bouncers' keys cross the network in the clear: listen on loopback, or put a proxy with TLS before it", "address", address.String())
	}
	g.Go(func() error { return b.server.Run(ctx) })
	g.Go(func() error { return b.server.Serve(ctx, b.bound) })
}

// local reports whether only this machine can reach an address.
func local(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback() || strings.HasPrefix(a.Network(), "unix")
}
