package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/cmd/floodgate/version"
)

// serveConfig is the flags of serve.
type serveConfig struct {
	files     []string
	record    bool
	callers   []string
	mapping   option.Mapping
	data      string
	rules     string
	listen    string
	metrics   string
	api       string
	dashboard bool
	keep      command.Duration
	keepBytes byteSize
	fromStart bool
	checkOnly bool
	notify    string
	feed      gateFeedFlags
	bouncer   bouncerFlags
	haproxy   haproxyFlags
	log       command.Log
}

// Defaults and bounds of serve.
const (
	defaultKeep      = 24 * time.Hour
	defaultKeepBytes = 10_000_000_000
	minKeepBytes     = 100_000_000
)

// Serve counts, decides and answers proxies in one process, without Kafka.
func Serve(p command.Process) *cobra.Command {
	c := serveConfig{keep: command.Duration(defaultKeep), keepBytes: defaultKeepBytes}
	cmd := &cobra.Command{
		Use:   "serve --file FILE... | --record --data DIR [flags]",
		Short: "count, decide and answer proxies on one host, in one process, without Kafka",
		Long: "Follows the access logs of the servers of this host, counts, decides, and answers nginx, Traefik, Caddy and Envoy whether a request may pass. " +
			"A log that is there already is followed from its end. Without --rules it writes a proposal to the data directory: rules in mode shadow, which block nobody.",
		Example: "floodgate serve --file /var/log/nginx/access.log --data /var/lib/floodgate-serve",
		Args:    command.FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(); err != nil {
				return err
			}
			if c.checkOnly {
				return c.printFindings(p)
			}
			return c.run(cmd.Context(), p)
		},
	}
	c.add(cmd)
	return cmd
}

func (c *serveConfig) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&c.files, "file", nil, "access log `file` to follow through rotations; can be given several times")
	flags.BoolVar(&c.record, "record", false, "count the requests that proxies ask about, in place of a log, or beside one whose mapping has arrivals: none")
	flags.StringVar(&c.data, "data", "", "`directory` for the counts, the log of what was read, and the rules")
	flags.StringVar(&c.rules, "rules", "", "rules `file`; read again when it changes and on SIGHUP (default: rules.yaml in --data)")
	flags.BoolVar(&c.fromStart, "from-start", false, "count what is in the logs already. Nothing is decided about the past; the output says who would have been closed")
	flags.BoolVar(&c.checkOnly, "check", false, "look at logs, formats, permissions, clock and addresses, print what is found, and exit")
	c.mapping.Add(cmd)
	flags.StringArrayVar(&c.callers, "callers", nil,
		"callers of a kind beside ip that proxies ask about, as `kind=Header`, or kind=part+part for a composite one, where ip, net and asn are parts too; can be given several times")
	flags.StringVar(&c.listen, "listen", defaultListen, "`address` of /auth and /auth_request, for proxies: host:port, or unix:PATH")
	flags.StringVar(&c.metrics, "metrics-listen", "127.0.0.1:9090", "`host:port` of /metrics, /healthz and /readyz; empty: none")
	flags.StringVar(&c.api, "api-listen", "127.0.0.1:9096", "`host:port` on loopback of the API and the dashboard; empty: none. The file api-token in --data has a token for it")
	flags.BoolVar(&c.dashboard, "dashboard", false, "print a link to the dashboard, which works once")
	flags.Var(&c.keep, "keep", "how long what was read is kept: audits reach back so far")
	flags.Var(&c.keepBytes, "keep-bytes", "how many `bytes` of it are kept, such as 500MB. Reading waits rather than exceed them")
	flags.StringVar(&c.notify, "notify", "", "`file` of endpoints, to which events are delivered as webhooks; see floodgate notify")
	c.feed.add(cmd)
	c.bouncer.add(cmd)
	c.haproxy.add(cmd)
	c.log.Add(cmd)
}

func (c *serveConfig) check() error {
	switch {
	case c.data == "":
		return command.Usagef("--data: got none, want a directory")
	case len(c.files) == 0 && !c.record:
		return command.Usagef("--file, --record: got neither, want a log to follow, or that requests are counted when proxies ask")
	case c.listen == "":
		return command.Usagef("--listen: got none, want host:port or unix:PATH")
	case time.Duration(c.keep) < time.Minute:
		return command.Usagef("--keep: got %v, want 1m or more", time.Duration(c.keep))
	case c.keepBytes < minKeepBytes:
		return command.Usagef("--keep-bytes: got %v, want %v or more", &c.keepBytes, humanize.Bytes(minKeepBytes))
	case c.dashboard && c.api == "":
		return command.Usagef("--dashboard: got no --api-listen, want an address for it")
	}
	if err := errors.Join(c.feed.check(), c.bouncer.check(), c.haproxy.check()); err != nil {
		return err
	}
	var err error
	if c.files, err = differentFiles(c.files); err != nil {
		return err
	}
	if c.rules == "" {
		c.rules = option.LocalRules(c.data)
	}
	return nil
}

func (c *serveConfig) run(ctx context.Context, p command.Process) (err error) {
	defer c.log.Report(p, &err)
	interactive := terminal.Interactive(p.Stdout)
	if interactive {
		c.log.Quiet() // a line a second says how it goes
	}
	logger := c.log.Logger(p)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // or else one that comes while it starts or stops would end it at once
	defer signal.Stop(hangups)
	version.LogStart(logger, "serve")
	h, err := c.open(ctx, logger)
	if err != nil {
		return err
	}
	v := newServeView(p.Stdout, interactive, h)
	if err := h.run(ctx, v); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	logger.Info("stopped")
	return nil
}

// byteSize is a number of bytes of a flag: 10GB, 500MB, or a plain number.
type byteSize int64

// String implements pflag.Value.
func (b *byteSize) String() string { return strings.ReplaceAll(humanize.Bytes(uint64(*b)), " ", "") }

// Set implements pflag.Value.
func (b *byteSize) Set(text string) error {
	n, err := humanize.ParseBytes(text)
	if err != nil || n > 1<<60 {
		return fmt.Errorf("got %q, want a number of bytes such as 500MB or 10GB", text)
	}
	*b = byteSize(n)
	return nil
}

// Type implements pflag.Value.
func (*byteSize) Type() string { return "bytes" }
