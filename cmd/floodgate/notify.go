package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/notify"
	"github.com/509da70d/floodgate/analyzer/notify/endpoint"
	"github.com/509da70d/floodgate/analyzer/notify/notifyprom"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/httpd"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/version"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaprom"
)

// notifyConfig is the flags of notify.
type notifyConfig struct {
	kafka   option.Kafka
	config  string
	group   string
	listen  string
	session time.Duration
	log     command.Log
}

// Notify delivers events until it is stopped.
func Notify(p command.Process) *cobra.Command {
	var c notifyConfig
	cmd := &cobra.Command{
		Use:   "notify --config FILE --brokers HOST:PORT... [flags]",
		Short: "deliver events as webhooks",
		Long: "Delivers events of the topic of events as webhooks, signed as Standard Webhooks say, each at least once. Any number of processes share " +
			"the work.",
		Example: "floodgate notify --brokers kafka:9092 --config /etc/floodgate/notify.yaml",
		Args:    command.Arguments(0, 0, "no arguments, check FILE, secret, or test ENDPOINT"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context(), p) },
	}
	c.kafka.AddEvents(cmd)
	flags := cmd.Flags()
	c.addConfig(cmd)
	flags.StringVar(&c.group, "group", "floodgate-notify", "consumer group, to which a dot and the name of an endpoint are appended; with another group, the events of the last ten minutes are sent again")
	flags.StringVar(&c.listen, "listen", "127.0.0.1:9097", "`host:port` of /metrics, /healthz and /readyz; empty: none")
	flags.DurationVar(&c.session, "session-timeout", kafkaio.DefaultSessionTimeout, "how long a silent member of a group keeps its partitions")
	c.log.Add(cmd)
	cmd.AddCommand(notifyCheck(p), notifySecret(p), notifyTest(p))
	return cmd
}

func (c *notifyConfig) addConfig(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.config, "config", "", "`file` of settings: the endpoints; it and the files that it names are read again when they change and on SIGHUP")
}

func (c *notifyConfig) check() error {
	if c.session < 2*time.Second {
		return command.Usagef("--session-timeout: got %v, want 2s or more", c.session)
	}
	if c.kafka.Names.Events == "" {
		return command.Usagef("--topic-events: got none, want the name of a topic")
	}
	if c.group == "" {
		return command.Usagef("--group: got none, want the name of a consumer group")
	}
	return c.kafka.Check()
}

// settings reads the file of settings.
func (c *notifyConfig) settings() (*endpoint.Config, error) {
	if c.config == "" {
		return nil, command.Usagef("--config: got none, want a file of settings")
	}
	return endpoint.Load(c.config)
}

// run delivers until ctx ends.
func (c *notifyConfig) run(ctx context.Context, p command.Process) (err error) {
	defer c.log.Report(p, &err)
	if err := c.check(); err != nil {
		return err
	}
	settings, err := c.settings()
	if err != nil {
		return err
	}
	calls, webhooks := kafkaprom.New(), notifyprom.New(time.Now)
	d := &daemon{logger: c.log.Logger(p), kafka: c.kafka, http: httpd.New(httpd.Config{Metrics: []prometheus.Collector{version.Metric(), calls, webhooks}})}
	if d.client, err = c.kafka.ObservedClient(calls.Observe); err != nil {
		return err
	}
	defer d.close()
	version.LogStart(d.logger, "notify")
	for _, w := range settings.Warnings {
		d.logger.Warn("settings", "warning", w.Error())
	}
	n := notify.New(notify.Config{
		Fetcher: d.client, Join: c.join(d), Topic: c.kafka.Names.Events, Group: c.group, Path: c.config, Logger: d.logger, Observe: webhooks.Observe,
	}, settings)
	webhooks.Show(n.Stats)
	d.http.Report(func(time.Time) string { return n.Waits() })
	g, ctx := errgroup.WithContext(ctx)
	if err := d.listen(ctx, g, c.listen); err != nil {
		return err
	}
	g.Go(func() error { d.warnOfMissing(ctx, c.kafka.Names.Events); return nil })
	g.Go(func() error { return n.Run(ctx) })
	g.Go(func() error { reloadOnHangup(ctx, n.Reload); return nil })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	d.logger.Info("stopped")
	return nil
}

// join returns what makes the process a member of a group.
func (c *notifyConfig) join(d *daemon) func(group string) (notify.Membership, error) {
	return func(group string) (notify.Membership, error) {
		g, err := kafkaio.NewGroup(kafkaio.GroupConfig{
			Client: d.client, Group: group, Topic: c.kafka.Names.Events, SessionTimeout: c.session, GrowthCheck: kafkaio.DefaultGrowthCheck,
		})
		if err != nil {
			return nil, err
		}
		return notify.GroupMember{Group: g}, nil
	}
}

// warnOfMissing logs that a topic is missing, which analyzers make.
func (d *daemon) warnOfMissing(ctx context.Context, topic string) {
	ctx, stop := context.WithTimeout(ctx, kafkaio.DefaultTimeout)
	defer stop()
	if _, err := d.client.Partitions(ctx, topic); err != nil && ctx.Err() == nil {
		d.logger.Warn("cannot find the topic of events, which analyzers and floodgate topics --create make", "topic", topic, "error", err)
	}
}

// reloadOnHangup calls reload on each SIGHUP until ctx ends.
func reloadOnHangup(ctx context.Context, reload func()) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			reload()
		}
	}
}
