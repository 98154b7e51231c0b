package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gateprom"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/gate/sidecar"
	"github.com/509da70d/floodgate/schemas"
)

// sidecarConfig is what the flags of sidecar say.
type sidecarConfig struct {
	kafka          kafkaFlags
	key            keyFlag
	listen         string
	grpc           string
	trusted        []string
	ipv6Bits       int
	callers        []string
	resourceHeader string
	record         bool
	shadow         bool
	stale          string

	functions []gatehttp.CallerFunc // from trusted and callers
	policy    gate.Policy           // from stale
}

func (c *sidecarConfig) add(flags *pflag.FlagSet) {
	c.kafka.addFollower(flags)
	c.key.add(flags)
	flags.StringVar(&c.listen, "listen", "127.0.0.1:9091", "`address` of /auth, /auth_request, /metrics, /healthz and /readyz: host:port, or unix:PATH")
	flags.StringVar(&c.grpc, "grpc-listen", "", "`address` of Envoy's ext_authz and rate limit services: host:port, or unix:PATH; empty: none")
	flags.StringSliceVar(&c.trusted, "trusted", []string{"127.0.0.0/8", "::1/128"}, "`prefixes` of proxies that append to X-Forwarded-For what they see")
	flags.IntVar(&c.ipv6Bits, "ipv6-prefix", 128, "`bits` of an IPv6 address that are one client, as ingest's mapping has them; 64 is usual")
	flags.StringArrayVar(&c.callers, "callers", nil,
		"callers of a kind beside ip, as `kind=Header`, or kind=part+part for a composite one, where ip is a part too; can be given several times")
	flags.StringVar(&c.resourceHeader, "resource-header", "", "`header` in which the proxy names the route, to be recorded")
	flags.BoolVar(&c.record, "record", false, "count what the proxy asks about; not where its log is ingested, or each request counts twice")
	flags.BoolVar(&c.shadow, "shadow", false, "refuse nobody, and count what would have been refused")
	flags.StringVar(&c.stale, "stale", "hold", "`policy` while decisions don't come: hold (closures run to their end), open or closed")
}

func parseSidecar(p process, args []string) (sidecarConfig, error) {
	var c sidecarConfig
	flags := newFlags("sidecar --brokers HOST:PORT... [flags]")
	c.add(flags)
	if err := parseFlags(p, flags, args); err != nil {
		return c, err
	}
	if err := flagsOnly(flags); err != nil {
		return c, err
	}
	return c, c.check()
}

func (c *sidecarConfig) check() error {
	if err := c.kafka.check(); err != nil {
		return err
	}
	policies := map[string]gate.Policy{"hold": gate.Hold, "open": gate.Open, "closed": gate.Closed}
	policy, ok := policies[c.stale]
	if !ok {
		return usagef("--stale: got %q, want hold, open or closed", c.stale)
	}
	c.policy = policy
	if c.listen == "" {
		return usagef("--listen: got none, want host:port or unix:PATH")
	}
	if c.ipv6Bits < 1 || c.ipv6Bits > 128 {
		return usagef("--ipv6-prefix: got %d, want 1 to 128", c.ipv6Bits)
	}
	var trusted []netip.Prefix
	for _, text := range c.trusted {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return usagef("--trusted: got %q, want prefixes such as 10.0.0.0/8", text)
		}
		trusted = append(trusted, prefix)
	}
	c.functions = []gatehttp.CallerFunc{gatehttp.ClientNetwork(trusted, c.ipv6Bits)}
	for _, text := range c.callers {
		f, err := headerCallers(text, trusted, c.ipv6Bits)
		if err != nil {
			return err
		}
		c.functions = append(c.functions, f)
	}
	if len(c.functions) > gate.MaxCallers {
		return usagef("--callers: got %d, want at most %d beside ip", len(c.functions)-1, gate.MaxCallers-1)
	}
	return nil
}

// runSidecar answers proxies until ctx ends.
func runSidecar(ctx context.Context, p process, args []string) error {
	c, err := parseSidecar(p, args)
	if err != nil {
		return err
	}
	logger := p.logger()
	link, side, err := c.build(logger)
	if err != nil {
		return err
	}
	httpListener, err := listenOn(c.listen)
	if err != nil {
		return err
	}
	logger.Info("listening", "address", httpListener.Addr().String())
	g, ctx := errgroup.WithContext(ctx)
	if c.grpc != "" {
		l, err := listenOn(c.grpc)
		if err != nil {
			return errors.Join(err, httpListener.Close())
		}
		logger.Info("listening for Envoy", "address", l.Addr().String())
		g.Go(func() error { return serveEnvoy(ctx, l, side.Sidecar) })
	}
	g.Go(func() error { return link.Run(ctx) })
	g.Go(func() error { return serveProxies(ctx, httpListener, side.handler(link)) })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("sidecar: %w", err)
	}
	return nil
}

// proxied is a sidecar and what it is made of.
type proxied struct {
	*sidecar.Sidecar

	set *gate.Set
	rec *record.Recorder
}

// build makes the parts that the flags describe; nothing connects yet.
func (c *sidecarConfig) build(logger *slog.Logger) (*kafkalink.Link, proxied, error) {
	key, err := c.key.key()
	if err != nil {
		return nil, proxied{}, err
	}
	tls, sasl, err := c.kafka.secure.Load()
	if err != nil {
		return nil, proxied{}, fmt.Errorf("prepare the link to Kafka: %w", err)
	}
	set := gate.New(gate.Options{Stale: c.policy, Logger: logger})
	if c.shadow {
		set.SetMode(gate.Shadow)
	}
	rec := record.New(record.Options{})
	link := kafkalink.New(set, rec, kafkalink.Config{
		Brokers: c.kafka.brokers, ClientID: "floodgate-sidecar", TLS: tls, SASL: sasl, Topics: c.kafka.names,
		PartitionKey: key, Logger: logger,
	})
	o := sidecar.Options{Set: set, Callers: c.functions, IPv6Bits: c.ipv6Bits}
	if c.record {
		o.Recorder = rec
	}
	if c.resourceHeader != "" {
		o.Resource = gatehttp.HeaderValue(c.resourceHeader)
	}
	return link, proxied{sidecar.New(o), set, rec}, nil
}

// handler answers proxies, and those who watch.
func (s proxied) handler(link *kafkalink.Link) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gateprom.New(gateprom.Options{Set: s.set, Recorder: s.rec, Link: link}), sidecarCollector{s.Sidecar})
	mux := http.NewServeMux()
	mux.Handle("/", s.Handler())
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		asked, cancel := context.WithCancel(context.Background())
		cancel() // now or not
		if link.Ready(asked) != nil {
			http.Error(w, "not ready: waiting for decisions from Kafka; all gates are open", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}

// headerCallers returns the caller function of kind=part+part.
func headerCallers(text string, trusted []netip.Prefix, ipv6Bits int) (gatehttp.CallerFunc, error) {
	kind, value, ok := strings.Cut(text, "=")
	if !ok || kind == "" || value == "" {
		return nil, usagef("--callers: got %q, want kind=Header or kind=part+part", text)
	}
	if err := schemas.ValidateKind(kind); err != nil {
		return nil, usagef("--callers: %w", err)
	}
	names := strings.Split(value, "+")
	parts := make([]func(*http.Request) string, 0, len(names))
	for _, name := range names {
		switch name {
		case "":
			return nil, usagef("--callers: got %q, want no part empty", text)
		case "ip":
			parts = append(parts, gatehttp.IPNetwork(trusted, ipv6Bits))
		default:
			parts = append(parts, gatehttp.HeaderValue(name))
		}
	}
	return gatehttp.Composite(kind, parts...), nil
}
