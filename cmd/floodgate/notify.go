package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/notify"
	"github.com/509da70d/floodgate/analyzer/notify/endpoint"
	"github.com/509da70d/floodgate/analyzer/notify/notifyprom"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/httpd"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaprom"
)

// notifyConfig is the flags of notify.
type notifyConfig struct {
	kafka   kafkaFlags
	config  string
	group   string
	listen  string
	session time.Duration
	log     logFlags
}

func (c *notifyConfig) add(flags *pflag.FlagSet) {
	flags.StringVar(&c.config, "config", "", "`file` of settings: the endpoints; it and the files that it names are read again when they change and on SIGHUP")
	flags.StringVar(&c.group, "group", "floodgate-notify", "consumer group, to which a dot and the name of an endpoint are appended; with another group, the events of the last ten minutes are sent again")
	flags.StringVar(&c.listen, "listen", "127.0.0.1:9097", "`host:port` of /metrics, /healthz and /readyz; empty: none")
	flags.DurationVar(&c.session, "session-timeout", kafkaio.DefaultSessionTimeout, "how long a silent member of a group keeps its partitions")
	c.log.add(flags)
	c.addKafka(flags)
}

// addKafka adds the flags that say how to reach Kafka. Of its topics, notify uses that of events alone, and makes none.
func (c *notifyConfig) addKafka(flags *pflag.FlagSet) {
	k := &c.kafka
	k.names, k.partitions, k.follower = schemas.DefaultTopicNames(), 1, true
	flags.StringSliceVar(&k.brokers, "brokers", nil, "Kafka brokers to find the cluster by, `host:port,...`")
	flags.StringVar(&k.names.Events, "topic-events", k.names.Events, "topic of what has happened: closes, their ends, what people decided")
	k.addSecurity(flags)
	inKafkaGroup(flags, "brokers", "topic-events")
}

// runNotify delivers events until it is stopped, or runs notify check or notify test.
func runNotify(ctx context.Context, p process, args []string) error {
	var c notifyConfig
	flags := newFlags("notify --config FILE --brokers HOST:PORT... [flags]\n       floodgate notify check FILE | secret | test ENDPOINT --config FILE\n\n" +
		"Delivers events of the topic of events as webhooks, signed as Standard Webhooks say, each at least once. Any number of processes share\n" +
		"the work. check says what is wrong with a file of settings. secret prints a new secret. test sends one message that says that it is a\n" +
		"test, and prints the answer.")
	c.add(flags)
	if err := parseFlags(p, flags, args); err != nil {
		return err
	}
	switch command := flags.Arg(0); {
	case flags.NArg() == 0:
		return c.run(ctx, p)
	case command == "check" && flags.NArg() == 2:
		return checkNotify(p, flags.Arg(1))
	case command == "secret" && flags.NArg() == 1:
		_, err := fmt.Fprintln(p.stdout, newWebhookSecret())
		return err
	case command == "test" && flags.NArg() == 2:
		return c.test(ctx, p, flags.Arg(1))
	}
	return usagef("notify: got %q, want no arguments, check FILE, secret, or test ENDPOINT", flags.Args())
}

func (c *notifyConfig) check() error {
	if c.session < 2*time.Second {
		return usagef("--session-timeout: got %v, want 2s or more", c.session)
	}
	if c.kafka.names.Events == "" {
		return usagef("--topic-events: got none, want the name of a topic")
	}
	if c.group == "" {
		return usagef("--group: got none, want the name of a consumer group")
	}
	return c.kafka.check()
}

// settings reads the file of settings.
func (c *notifyConfig) settings() (*endpoint.Config, error) {
	if c.config == "" {
		return nil, usagef("--config: got none, want a file of settings")
	}
	return endpoint.Load(c.config)
}

// run delivers until ctx ends.
func (c *notifyConfig) run(ctx context.Context, p process) (err error) {
	defer c.log.report(p, &err)
	if err := c.check(); err != nil {
		return err
	}
	settings, err := c.settings()
	if err != nil {
		return err
	}
	calls, webhooks := kafkaprom.New(), notifyprom.New(time.Now)
	d := &daemon{logger: c.log.logger(p), kafka: c.kafka, http: httpd.New(httpd.Config{Metrics: []prometheus.Collector{buildMetric(), calls, webhooks}})}
	if d.client, err = c.kafka.observedClient(calls.Observe); err != nil {
		return err
	}
	defer d.close()
	logStart(d.logger, "notify")
	for _, w := range settings.Warnings {
		d.logger.Warn("settings", "warning", w.Error())
	}
	n := notify.New(notify.Config{
		Fetcher: d.client, Join: c.join(d), Topic: c.kafka.names.Events, Group: c.group, Path: c.config, Logger: d.logger, Observe: webhooks.Observe,
	}, settings)
	webhooks.Show(n)
	d.http.Report(func(time.Time) string { return n.Waits() })
	g, ctx := errgroup.WithContext(ctx)
	if err := d.listen(ctx, g, c.listen); err != nil {
		return err
	}
	g.Go(func() error { d.warnOfMissing(ctx, c.kafka.names.Events); return nil })
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
			Client: d.client, Group: group, Topic: c.kafka.names.Events, SessionTimeout: c.session, GrowthCheck: kafkaio.DefaultGrowthCheck,
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

// checkNotify says how a file of settings is understood.
func checkNotify(p process, path string) error {
	settings, err := endpoint.Load(path)
	if err != nil {
		return err
	}
	for _, w := range settings.Warnings {
		fmt.Fprintf(p.stdout, "warning: %s\n", printable.Error(w))
	}
	for _, e := range settings.Endpoints {
		signed := []string{"not signed", "signed", "signed by two secrets"}[len(e.Webhook.Secrets)]
		events := "all events"
		if len(e.Routes) > 0 {
			events = "the events of its routes"
		}
		fmt.Fprintf(p.stdout, "%s: %s, %s\n", e.Name, events, signed)
	}
	return nil
}
