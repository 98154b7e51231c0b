package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/httpd"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/feed"
	"github.com/509da70d/floodgate/gate/sidecar/sidecarprom"
)

// gateFeedFlags are the flags for gates in other servers, which follow a feed.
type gateFeedFlags struct {
	listen string
	keys   string // file
	group  string
	frames bool
}

func (f *gateFeedFlags) add(cmd *cobra.Command) {
	command.Section(cmd, "gates in other servers", func(flags *pflag.FlagSet) {
		flags.StringVar(&f.listen, "feed-listen", "",
			"`address` at which gates in nginx, Traefik and other programs learn who is closed: unix:PATH, or host:port with --feed-keys; empty: none")
		flags.StringVar(&f.keys, "feed-keys", "", "`file` with a line NAME SHA256 for the key of each reader; it is read again when it changes")
		flags.StringVar(&f.group, "feed-group", "", "`group` that may use the Unix socket of --feed-listen, such as www-data; empty: that of this process")
		flags.BoolVar(&f.frames, "feed-frames", false, "take what these servers count as well: whoever may read the feed can then close callers")
	})
}

func (f *gateFeedFlags) check() error {
	_, isSocket := strings.CutPrefix(f.listen, "unix:")
	switch {
	case f.listen == "" && (f.keys != "" || f.group != "" || f.frames):
		return command.Usagef("--feed-listen: got none, want unix:PATH or host:port with --feed-keys, --feed-group or --feed-frames")
	case f.listen != "" && !isSocket && f.keys == "":
		return command.Usagef("--feed-keys: got none, want a file of lines NAME SHA256, because others can reach the address %s", f.listen)
	case f.group != "" && !isSocket:
		return command.Usagef("--feed-group: got %q, want it with a Unix socket only", f.group)
	}
	return nil
}

// gateFeed serves gates in other servers.
type gateFeed struct {
	server *feed.Server
	frames *feed.Frames // nil: none are taken
	http   *httpd.Server
	flags  *gateFeedFlags
	logger *slog.Logger
}

// build returns what the flags describe, or nil if no feed is to be served.
func (f *gateFeedFlags) build(b *board.Board, shadow bool, frames feed.FramesOptions, logger *slog.Logger) (*gateFeed, error) {
	if f.listen == "" {
		return nil, nil //nolint:nilnil // there is nothing to do
	}
	o := feed.Options{Board: b, Shadow: shadow}
	if f.keys != "" {
		var err error
		if o.Keys, err = feed.OpenKeys(f.keys, time.Now(), logger); err != nil {
			return nil, command.Usagef("--feed-keys: %w", err)
		}
	}
	s := &gateFeed{flags: f, logger: logger}
	if f.frames {
		frames.Partitions = b.Partitions
		s.frames = feed.NewFrames(frames)
		o.Frames = s.frames
	}
	s.server = feed.New(o)
	s.http = httpd.New(httpd.Config{Handler: s.server, IdleTimeout: 5 * time.Minute})
	return s, nil
}

// metrics returns the collectors of the feed; none if there is no feed.
func (s *gateFeed) metrics() []prometheus.Collector {
	switch {
	case s == nil:
		return nil
	case s.frames == nil:
		return []prometheus.Collector{sidecarprom.NewFeed(s.server)}
	}
	return []prometheus.Collector{sidecarprom.NewFeed(s.server), sidecarprom.NewFrames(s.frames)}
}

// open listens. It does nothing without a feed.
func (s *gateFeed) open() error {
	if s == nil {
		return nil
	}
	group := -1
	if name := s.flags.group; name != "" {
		g, err := user.LookupGroup(name)
		if err != nil {
			return command.Usagef("--feed-group: %w", err)
		}
		if group, err = strconv.Atoi(g.Gid); err != nil {
			return fmt.Errorf("--feed-group: %w", err)
		}
	}
	l, err := httpd.Listen("feed-listen", s.flags.listen)
	if err != nil {
		return err
	}
	if err := share(l.Addr(), group); err != nil {
		return fmt.Errorf("--feed-listen: %w", err)
	}
	s.http.On(l)
	s.logger.Info("listening for gates in other servers", "address", l.Addr().String())
	return nil
}

// share lets the owner and the group of a Unix socket use it, and nobody else.
func share(a net.Addr, group int) error {
	unix, ok := a.(*net.UnixAddr)
	if !ok {
		return nil
	}
	if group >= 0 {
		if err := os.Chown(unix.Name, -1, group); err != nil {
			return err
		}
	}
	return os.Chmod(unix.Name, 0o660) //nolint:gosec // the group is to have it
}

// begin adds what runs until ctx ends to a group, after open.
func (s *gateFeed) begin(ctx context.Context, g *errgroup.Group) {
	if s == nil {
		return
	}
	g.Go(func() error {
		defer context.AfterFunc(ctx, s.server.Close)()
		return s.http.Run(ctx)
	})
}
