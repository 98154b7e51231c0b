package daemon

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/haproxy"
	"github.com/509da70d/floodgate/schemas"
)

// haproxyFlags are the flags of sidecar and serve for HAProxy's maps.
type haproxyFlags struct {
	socket string
	texts  []string

	maps []haproxy.Map // from texts
}

func (f *haproxyFlags) add(cmd *cobra.Command) {
	command.Section(cmd, "HAProxy", func(flags *pflag.FlagSet) {
		flags.StringVar(&f.socket, "haproxy-socket", "",
			"`path` of HAProxy's stats socket, of level operator or admin: its maps get all closures; empty: none")
		flags.StringSliceVar(&f.texts, "haproxy-map", nil, "maps of HAProxy, as `kind=file` with the name that its configuration has: one for each kind of caller")
	})
}

func (f *haproxyFlags) check() error {
	if f.socket == "" && len(f.texts) > 0 {
		return command.Usagef("--haproxy-socket: got none, want a path with --haproxy-map")
	}
	if f.socket != "" && len(f.texts) == 0 {
		return command.Usagef("--haproxy-map: got none, want kind=file, such as ip=/etc/haproxy/closed_ip.map, with --haproxy-socket")
	}
	kinds, names := map[string]bool{}, map[string]bool{}
	for _, text := range f.texts {
		m, err := haproxy.ParseMap(text)
		if err != nil {
			return command.Usagef("--haproxy-map: got %q, want kind=file: %w", text, err)
		}
		if kinds[m.Kind] || names[m.Name] {
			return command.Usagef("--haproxy-map: got %q, want one map for each kind, and one kind for each map", text)
		}
		kinds[m.Kind], names[m.Name] = true, true
		f.maps = append(f.maps, m)
	}
	return nil
}

// build returns what writes the maps of the flags, or nil if there is no HAProxy. Nothing connects yet.
func (f *haproxyFlags) build(b *board.Board, ids schemas.IDs, shadow bool, logger *slog.Logger) *haproxy.Writer {
	if f.socket == "" {
		return nil
	}
	return haproxy.New(haproxy.Options{Board: b, Socket: f.socket, Maps: f.maps, IDs: ids, Shadow: shadow, Logger: logger})
}

// beginHAProxy adds a writer to a group, if there is one. It runs until ctx ends.
func beginHAProxy(ctx context.Context, g *errgroup.Group, w *haproxy.Writer) {
	if w != nil {
		g.Go(func() error { return w.Run(ctx) })
	}
}
