package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/api/apiprom"
	"github.com/509da70d/floodgate/analyzer/api/ui"
	"github.com/509da70d/floodgate/cmd/floodgate/apid"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/httpd"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/version"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/kafkalink"
)

// apiFlags are the flags of the API that analyze serves.
type apiFlags struct {
	listen    string
	advertise string
	tokens    string
	cert, key string
	clientCA  string
	cluster   string
	hosts     []string
	redact    bool

	server *api.Server // nil: none
}

func (f *apiFlags) add(cmd *cobra.Command) {
	command.Section(cmd, "API", func(flags *pflag.FlagSet) {
		flags.StringVar(&f.listen, "api-listen", "127.0.0.1:9096", "`host:port` of the API, which answers questions and takes what people decide; empty: none. Addresses other than loopback need --api-tokens and --api-cert")
		flags.StringVar(&f.advertise, "api-advertise", "", "`host:port` at which other analyzers reach the API (default: --api-listen, if it is one address)")
		flags.StringVar(&f.tokens, "api-tokens", "", "`file` of tokens, lines of NAME ROLE SHA256, where ROLE is read, operate or admin; read again when it changes. Without it, the API listens on loopback only and changes nothing")
		flags.StringVar(&f.cert, "api-cert", "", "PEM `file` of the API's certificate; read again when it changes")
		flags.StringVar(&f.key, "api-key", "", "PEM `file` of its key")
		flags.StringVar(&f.clientCA, "api-client-ca", "", "PEM `file` of authorities. Clients and other analyzers then need a certificate that one of these has signed")
		flags.StringVar(&f.cluster, "api-cluster-key-file", "", "`file` with a secret of 32 bytes or more, the same for all analyzers, with which analyzers sign the questions that they forward; without it, each analyzer answers only for its own partitions")
		flags.BoolVar(&f.redact, "api-redact", false, "show hashes in place of ids, and no reasons, to tokens of role read")
		flags.StringSliceVar(&f.hosts, "api-allowed-hosts", nil, "`names` under which the API is reached, besides the addresses of this machine and localhost")
	})
}

// make makes the server that the flags describe, if they describe one. It does not listen yet.
func (f *apiFlags) make(d *daemon, ids *option.IDs) error {
	if f.listen == "" {
		return nil
	}
	made, err := ids.Load()
	if err != nil {
		return err
	}
	secret, err := f.clusterKey()
	if err != nil {
		return err
	}
	if f.advertise == "" && single(f.listen) {
		f.advertise = f.listen
	}
	c := api.Config{
		Address: f.listen, Advertise: f.advertise, AllowedHosts: f.hosts, TokenFile: f.tokens, Redact: f.redact,
		CertFile: f.cert, KeyFile: f.key, ClientCAFile: f.clientCA, ClusterKey: secret, IDs: made, Version: version.This().Version, Logger: d.logger,
		Page: ui.Handler(),
	}
	apid.Limits(&c)
	f.server, err = api.New(c)
	if errors.Is(err, api.ErrExposed) || errors.Is(err, api.ErrConfig) || errors.Is(err, api.ErrTokens) {
		return command.Usagef("--api-listen: %w", err)
	}
	return err
}

// clusterKey reads the secret, without a line end at its end.
func (f *apiFlags) clusterKey() ([]byte, error) {
	if f.cluster == "" {
		return nil, nil
	}
	secret, err := os.ReadFile(f.cluster)
	if err != nil {
		return nil, fmt.Errorf("read the key of the cluster: %w", err)
	}
	if secret = bytes.TrimRight(secret, "\r\n"); len(secret) < api.MinClusterKey {
		return nil, command.Usagef("--api-cluster-key-file: got %d bytes, want %d or more", len(secret), api.MinClusterKey)
	}
	return secret, nil
}

// single reports whether an address to listen on is one address with one port.
func single(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && at.Port() != 0 && !at.Addr().IsUnspecified()
}

// serve serves the API in g until ctx ends.
func (f *apiFlags) serve(ctx context.Context, g *errgroup.Group, d *daemon) error {
	if f.server == nil {
		return nil
	}
	l, err := httpd.Listen("api-listen", f.listen)
	if err != nil {
		return err
	}
	if _, ok := l.(*net.TCPListener); !ok {
		return errors.Join(command.Usagef("--api-listen: got %q, want host:port", f.listen), l.Close())
	}
	d.logger.Info("listening for the API", "address", l.Addr().String())
	g.Go(func() error { return f.server.Serve(ctx, l) })
	return nil
}

// answer lets the API answer for an analyzer, from a board, until ctx ends.
func (f *apiFlags) answer(ctx context.Context, g *errgroup.Group, d *daemon, a *analyzer.Analyzer, partitions int, b *board.Board) error {
	if f.server == nil {
		return nil
	}
	tls, sasl, err := d.kafka.Secure.Load()
	if err != nil {
		return err
	}
	life := apid.Life{
		Server: f.server, Analyzer: a, Log: d.client, Names: d.kafka.Names, Partitions: partitions, Key: d.key, Logger: d.logger, Board: b,
		Follow: &kafkalink.FollowConfig{Brokers: d.kafka.Brokers, ClientID: "floodgate-api", TLS: tls, SASL: sasl, Topic: d.kafka.Names.Decisions, Logger: d.logger},
	}
	g.Go(func() error { return life.Run(ctx) })
	return nil
}

// board returns a board for the API, and the metrics of the board and the API. Without an API it returns nil.
func (f *apiFlags) board(partitions int) (*board.Board, []prometheus.Collector) {
	if f.server == nil {
		return nil, nil
	}
	b := apid.NewBoard()
	return b, []prometheus.Collector{apid.PartitionRules(b, partitions), apiprom.New(f.server.Stats)}
}

// advertised returns the address that heartbeats carry.
func (f *apiFlags) advertised() string {
	if f.server == nil {
		return ""
	}
	return f.advertise
}
