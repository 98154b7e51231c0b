package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/httpd"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/version"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gateprom"
	"github.com/509da70d/floodgate/gate/haproxy"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/gate/sidecar"
	"github.com/509da70d/floodgate/gate/sidecar/sidecarprom"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaprom"
)

// sidecarConfig is the flags of sidecar.
type sidecarConfig struct {
	kafka          option.Kafka
	key            option.Key
	listen         string
	grpc           string
	trusted        option.Trusted
	ids            option.IDs
	callers        []string
	rejectRepeated []string
	resourceHeader string
	record         bool
	holds          bool
	shadow         bool
	stale          string
	log            command.Log
	bouncer        bouncerFlags
	feed           gateFeedFlags
	haproxy        haproxyFlags

	functions []gatehttp.CallerFunc // from trusted and callers
	made      schemas.IDs           // from ids
	policy    gate.Policy           // from stale
}

// Sidecar answers proxies until it is stopped.
func Sidecar(p command.Process) *cobra.Command {
	var c sidecarConfig
	cmd := &cobra.Command{
		Use:     "sidecar --brokers HOST:PORT... [flags]",
		Short:   "answer nginx, Traefik, Caddy and Envoy whether a request may pass, and write HAProxy's maps",
		Example: "floodgate sidecar --brokers kafka:9092 --callers key=X-Api-Key",
		Args:    command.FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(); err != nil {
				return err
			}
			return c.run(cmd.Context(), p)
		},
	}
	c.add(cmd)
	return cmd
}

func (c *sidecarConfig) add(cmd *cobra.Command) {
	c.kafka.Add(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&c.callers, "callers", nil,
		"callers of a kind beside ip, as `kind=Header`, or kind=part+part for a composite one, where ip, net and asn are parts too; net=net and asn=asn are networks of addresses; can be given several times")
	c.trusted.Add(flags, "127.0.0.0/8", "::1/128")
	c.key.Add(cmd)
	flags.StringVar(&c.listen, "listen", defaultListen, "`address` of /auth, /auth_request, /caller, /metrics, /healthz and /readyz: host:port, or unix:PATH")
	flags.StringVar(&c.grpc, "grpc-listen", "", "`address` of Envoy's ext_authz, rate limit and quota services: host:port, or unix:PATH; empty: none")
	flags.StringSliceVar(&c.rejectRepeated, "reject-repeated", nil,
		"`headers` such as X-Api-Key that a request may have once; one that has more, or a comma in it, gets 400 (nginx: 403)")
	flags.StringVar(&c.resourceHeader, "resource-header", "", "`header` in which the proxy names the route, to be recorded")
	flags.BoolVar(&c.record, "record", false, "count the requests that the proxy asks about; if its log is ingested too, each request counts twice, unless the mapping has arrivals: none")
	flags.BoolVar(&c.holds, "holds", false, "with --record: a log says when the requests end, by a mapping with arrivals: none and a duration. Until then they hold a part of limits")
	flags.BoolVar(&c.shadow, "shadow", false, "refuse no request, and count those that would have been refused")
	flags.StringVar(&c.stale, "stale", "hold", "`policy` while no decisions come: hold (closures run to their end), open or closed")
	command.Words(cmd, "stale", gate.Hold.String(), gate.Open.String(), gate.Closed.String())
	c.ids.Add(cmd)
	c.ids.AddASN(cmd)
	c.feed.add(cmd)
	c.bouncer.add(cmd)
	c.haproxy.add(cmd)
	c.log.Add(cmd)
}

func (c *sidecarConfig) check() error {
	if err := errors.Join(c.kafka.Check(), c.feed.check(), c.bouncer.check(), c.haproxy.check()); err != nil {
		return err
	}
	policies := map[string]gate.Policy{"hold": gate.Hold, "open": gate.Open, "closed": gate.Closed}
	policy, ok := policies[c.stale]
	if !ok {
		return command.Usagef("--stale: got %q, want hold, open or closed", c.stale)
	}
	c.policy = policy
	switch {
	case c.listen == "":
		return command.Usagef("--listen: got none, want host:port or unix:PATH")
	case c.holds && !c.record:
		return command.Usagef("--holds: got it alone, want it with --record: requests that are not counted hold nothing")
	}
	trusted, err := c.trusted.Load()
	if err != nil {
		return err
	}
	if c.made, err = c.ids.Load(); err != nil {
		return err
	}
	c.functions, err = callerFunctions(c.callers, trusted, c.made)
	return err
}

// callerFunctions returns what finds the callers of a request: its address, and those of --callers.
func callerFunctions(texts []string, trusted []netip.Prefix, ids schemas.IDs) ([]gatehttp.CallerFunc, error) {
	functions := []gatehttp.CallerFunc{gatehttp.ClientIP(trusted)}
	for _, text := range texts {
		f, err := headerCallers(text, trusted, ids)
		if err != nil {
			return nil, err
		}
		functions = append(functions, f)
	}
	if len(functions) > gate.MaxCallers {
		return nil, command.Usagef("--callers: got %d, want at most %d beside ip", len(functions)-1, gate.MaxCallers-1)
	}
	return functions, nil
}

func (c *sidecarConfig) run(ctx context.Context, p command.Process) (err error) {
	defer c.log.Report(p, &err)
	logger := c.log.Logger(p)
	version.LogStart(logger, "sidecar")
	side, err := c.build(logger)
	if err != nil {
		return err
	}
	defer side.link.Close() // when nobody asks any more: it sends what was recorded
	server := side.server()
	g, ctx := errgroup.WithContext(ctx)
	listen := func() error {
		if err := server.Listen("listen", c.listen, logger); err != nil {
			return err
		}
		g.Go(func() error { return server.Run(ctx) })
		return nil
	}
	if err := errors.Join(listen(), side.feed.open(), side.bouncers.open(), c.listenEnvoy(ctx, g, side.Sidecar, logger)); err != nil {
		g.Go(func() error { return err }) // stops what listens already
		return g.Wait()
	}
	g.Go(func() error { return boundMemory(ctx, hostLimit) })
	g.Go(func() error { c.ids.Watch(ctx, logger); return nil })
	if side.board != nil {
		g.Go(func() error { side.board.RunClock(ctx); return nil })
	}
	side.feed.begin(ctx, g)
	side.bouncers.begin(ctx, g)
	beginHAProxy(ctx, g, side.haproxy)
	if err := g.Wait(); err != nil {
		return fmt.Errorf("sidecar: %w", err)
	}
	return nil
}

// listenEnvoy answers Envoy in g until ctx ends, if there is an address.
func (c *sidecarConfig) listenEnvoy(ctx context.Context, g *errgroup.Group, side *sidecar.Sidecar, logger *slog.Logger) error {
	if c.grpc == "" {
		return nil
	}
	l, err := httpd.Listen("grpc-listen", c.grpc)
	if err != nil {
		return err
	}
	logger.Info("listening for Envoy", "address", l.Addr().String())
	g.Go(func() error { return serveEnvoy(ctx, l, side) })
	return nil
}

// sidecarParts is a sidecar and its parts.
type sidecarParts struct {
	*sidecar.Sidecar

	set      *gate.Set
	rec      *record.Recorder
	link     *kafkalink.Link
	calls    *kafkaprom.Calls // of the link
	board    *board.Board     // nil: nobody needs it
	feed     *gateFeed        // nil: none is served
	bouncers *bouncers        // nil: none are answered
	haproxy  *haproxy.Writer  // nil: no maps are written
}

// build makes the parts that the flags describe, and opens the link.
func (c *sidecarConfig) build(logger *slog.Logger) (sidecarParts, error) {
	key, err := c.key.Load()
	if err != nil {
		return sidecarParts{}, err
	}
	tls, sasl, err := c.kafka.Secure.Load()
	if err != nil {
		return sidecarParts{}, fmt.Errorf("prepare the link to Kafka: %w", err)
	}
	set := gate.New(gate.Options{Stale: c.policy, Logger: logger, IDs: c.made})
	if c.shadow {
		set.SetMode(gate.Shadow)
	}
	rec, calls := record.New(record.Options{Holds: c.holds}), kafkaprom.New()
	o := sidecar.Options{Set: set, Callers: c.functions, RejectRepeated: c.rejectRepeated}
	if c.record {
		o.Recorder = rec
	}
	if c.resourceHeader != "" {
		o.Resource = gatehttp.HeaderValue(c.resourceHeader)
	}
	config := kafkalink.Config{
		Brokers: c.kafka.Brokers, ClientID: "floodgate-sidecar", TLS: tls, SASL: sasl, Topics: c.kafka.Names,
		PartitionKey: key, Logger: logger, Calls: calls.Observe,
	}
	parts := sidecarParts{set: set, rec: rec, calls: calls}
	if c.grpc != "" || c.feed.listen != "" || c.bouncer.listen != "" || c.haproxy.socket != "" {
		parts.board = board.New(board.Options{MaxSubscribers: maxReaders, FirstChange: uint64(time.Now().UnixNano())})
		config.Watch, o.Board = parts.board.Handler(), parts.board
	}
	parts.Sidecar = sidecar.New(o)
	forward := func(ctx context.Context, frame []byte) error { return parts.link.Forward(ctx, frame) } // of the link that is opened below
	if parts.feed, err = c.feed.build(parts.board, c.shadow, forward, logger); err != nil {
		return sidecarParts{}, err
	}
	if parts.bouncers, err = c.bouncer.build(parts.board, c.made, c.shadow, logger); err != nil {
		return sidecarParts{}, err
	}
	parts.haproxy = c.haproxy.build(parts.board, c.made, c.shadow, logger)
	if parts.link, err = kafkalink.Open(set, rec, config); err != nil {
		return sidecarParts{}, fmt.Errorf("open the link to Kafka: %w", err)
	}
	return parts, nil
}

// maxReaders is how many readers a feed may have. Each has two buffers of some KiB.
const maxReaders = 4096

// ready reports whether a link has applied the decisions that were there when it began.
func ready(link *kafkalink.Link) bool {
	asked, cancel := context.WithCancel(context.Background())
	cancel() // now or not
	return link.Ready(asked) == nil
}

// defaultListen is where proxies ask, unless --listen says otherwise. The file nginx.conf has it too.
const defaultListen = "127.0.0.1:9091"

// maxQuestionBytes is the longest header of a question. Proxies pass their clients' headers on, and add to them: those
// written in Go take 1 MiB from a client.
const maxQuestionBytes = 2 << 20

// server returns what answers proxies, and those who watch. Proxies keep connections.
func (s sidecarParts) server() *httpd.Server {
	server := httpd.New(httpd.Config{
		WriteTimeout: 10 * time.Second, IdleTimeout: 5 * time.Minute, MaxHeaderBytes: maxQuestionBytes,
		Metrics: []prometheus.Collector{version.Metric(), s.calls},
	})
	server.Handle("/", s.Handler())
	reported := []prometheus.Collector{gateprom.New(gateprom.Options{Set: s.set, Recorder: s.rec, Link: s.link}), sidecarprom.New(s.Sidecar)}
	reported = append(reported, s.feed.metrics()...)
	if s.bouncers != nil {
		reported = append(reported, sidecarprom.NewBouncer(s.bouncers.server))
	}
	if s.haproxy != nil {
		reported = append(reported, sidecarprom.NewHAProxy(s.haproxy))
	}
	server.Report(func(time.Time) string {
		if !ready(s.link) {
			return "waiting for decisions from Kafka; all gates are open"
		}
		return ""
	}, reported...)
	return server
}

// serveEnvoy serves gRPC until ctx ends, with the standard health service beside it.
func serveEnvoy(ctx context.Context, l net.Listener, s *sidecar.Sidecar) error {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(sidecar.MaxReportBytes))
	s.Register(server)
	healthpb.RegisterHealthServer(server, health.NewServer())
	stop := context.AfterFunc(ctx, server.Stop) // answers take microseconds, so Stop need not wait for them
	defer stop()
	if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) { // stopped before it began
		return fmt.Errorf("serve gRPC: %w", err)
	}
	return nil
}

// headerCallers returns the caller function of kind=part+part.
func headerCallers(text string, trusted []netip.Prefix, ids schemas.IDs) (gatehttp.CallerFunc, error) {
	kind, value, ok := strings.Cut(text, "=")
	if !ok || kind == "" || value == "" {
		return nil, command.Usagef("--callers: got %q, want kind=Header or kind=part+part", text)
	}
	if err := schemas.ValidateKind(kind); err != nil {
		return nil, command.Usagef("--callers: %w", err)
	}
	names := strings.Split(value, "+")
	if slices.Contains(names, "") {
		return nil, command.Usagef("--callers: got %q, want no part empty", text)
	}
	if strings.ContainsAny(value, ",= ") { // no name of a header has them: it would never be found
		return nil, command.Usagef("--callers: got %q, want one kind: give the flag again for another one", text)
	}
	switch {
	case kind == schemas.KindNet && value != schemas.KindNet:
		return nil, command.Usagef("--callers: got %q, want net=net: these callers are networks of addresses", text)
	case kind == schemas.KindNet:
		return gatehttp.ClientNet(trusted), nil
	case slices.Contains(names, schemas.KindASN) && ids.ASN == nil:
		return nil, command.Usagef("--callers: got %q and no --asn-file, want a file that says which addresses an autonomous system has", text)
	}
	return func(s *gate.Set) gatehttp.AddFunc {
		parts := make([]func(*http.Request) string, len(names))
		for i, name := range names {
			switch name {
			case schemas.KindIP:
				parts[i] = gatehttp.IP(s, trusted)
			case schemas.KindNet:
				parts[i] = gatehttp.Net(s, trusted)
			case schemas.KindASN:
				parts[i] = gatehttp.ASN(s, trusted)
			default:
				parts[i] = gatehttp.HeaderValue(name)
			}
		}
		return gatehttp.Composite(kind, parts...)(s)
	}, nil
}
