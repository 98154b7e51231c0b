package daemon

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/notify"
	"github.com/509da70d/floodgate/analyzer/notify/endpoint"
	"github.com/509da70d/floodgate/analyzer/notify/notifyprom"
	"github.com/509da70d/floodgate/analyzer/notify/webhook"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/cmd/floodgate/version"
	"github.com/509da70d/floodgate/store/kafkaio"
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
	c.kafka.Add(cmd)
	flags := cmd.Flags()
	c.addConfig(cmd)
	flags.StringVar(&c.group, "group", "", "consumer group (default: --topic-prefix and -notify), to which a dot and the name of an endpoint are appended; with another group, the events of the last ten minutes are sent again")
	flags.StringVar(&c.listen, "listen", "127.0.0.1:9097", "`host:port` of /metrics, /healthz and /readyz; empty: none")
	flags.DurationVar(&c.session, "session-timeout", kafkaio.DefaultSessionTimeout, "how long a silent member of a group keeps its partitions")
	command.Hide(flags, "group", "session-timeout")
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
	webhooks := notifyprom.New(time.Now)
	d := &daemon{logger: c.log.Logger(p), kafka: c.kafka}
	if err := d.prepare(webhooks); err != nil {
		return err
	}
	defer d.close()
	version.LogStart(d.logger, "notify")
	for _, w := range settings.Warnings {
		d.logger.Warn("settings", "warning", w.Error())
	}
	n := notify.New(notify.Config{
		Fetcher: d.client, Join: c.join(d), Topic: c.kafka.Names.Events, Group: cmp.Or(c.group, c.kafka.Prefix+"-notify"), Path: c.config, Logger: d.logger, Observe: webhooks.Observe,
	}, settings)
	webhooks.Show(n.Stats)
	d.report(func(time.Time) string { return n.Waits() })
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
		return kafkaio.NewGroup(kafkaio.GroupConfig{
			Client: d.client, Group: group, Topic: c.kafka.Names.Events, SessionTimeout: c.session, GrowthCheck: kafkaio.DefaultGrowthCheck,
		})
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

// notifyCheck returns the subcommand that says what is wrong with a file of settings.
func notifyCheck(p command.Process) *cobra.Command {
	return &cobra.Command{
		Use:     "check FILE",
		Short:   "say what is wrong with a file of settings",
		Example: "floodgate notify check /etc/floodgate/notify.yaml",
		Args:    command.Arguments(1, 1, "one file"),
		RunE:    func(_ *cobra.Command, args []string) error { return checkNotify(p, args[0]) },
	}
}

// notifySecret returns the subcommand that prints a new secret.
func notifySecret(p command.Process) *cobra.Command {
	return &cobra.Command{
		Use:     "secret",
		Short:   "print a new secret, by which messages are signed",
		Example: "floodgate notify secret",
		Args:    command.FlagsOnly,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.Stdout, webhook.NewSecret())
			return err
		},
	}
}

// notifyTest returns the subcommand that sends one message.
func notifyTest(p command.Process) *cobra.Command {
	var c notifyConfig
	cmd := &cobra.Command{
		Use:     "test ENDPOINT --config FILE",
		Short:   "send one message that says that it is a test, and print the answer",
		Example: "floodgate notify test pager --config /etc/floodgate/notify.yaml",
		Args:    command.Arguments(1, 1, "the name of one endpoint"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.test(cmd.Context(), p, args[0]) },
	}
	c.addConfig(cmd)
	return cmd
}

// checkNotify says how a file of settings is understood.
func checkNotify(p command.Process, path string) error {
	settings, err := endpoint.Load(path)
	if err != nil {
		return err
	}
	for _, w := range settings.Warnings {
		fmt.Fprintf(p.Stdout, "warning: %s\n", printable.Error(w))
	}
	for _, e := range settings.Endpoints {
		signed := []string{"not signed", "signed", "signed by two secrets"}[len(e.Webhook.Secrets)]
		events := "all events"
		if len(e.Routes) > 0 {
			events = "the events of its routes"
		}
		fmt.Fprintf(p.Stdout, "%s: %s, %s\n", e.Name, events, signed)
	}
	return nil
}

// test sends one message to an endpoint, and prints the answer.
func (c *notifyConfig) test(ctx context.Context, p command.Process, name string) error {
	settings, err := c.settings()
	if err != nil {
		return err
	}
	e := settings.Named(name)
	if e == nil {
		return command.Usagef("notify test: got %q, want one of the endpoints %s", document.Clip(name), strings.Join(endpointNames(settings), ", "))
	}
	now := time.Now()
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	m := webhook.Message{ID: hex.EncodeToString(id[:])}
	if m.Body, err = e.Body(endpoint.TestNotice(m.ID, now)); err != nil {
		return err
	}
	client := webhook.New(e.Webhook)
	defer client.Close()
	answer := client.Send(ctx, m, now)
	fmt.Fprintf(p.Stdout, "message   %d bytes, webhook-id %s, %s\n", len(m.Body), m.ID, terminal.Amount(len(e.Webhook.Secrets), "signature"))
	if answer.Status != 0 {
		fmt.Fprintf(p.Stdout, "answered  %d after %v\n", answer.Status, time.Since(now).Round(time.Millisecond))
	}
	if len(answer.Body) > 0 {
		fmt.Fprintf(p.Stdout, "body      %s\n", printable.Of(string(answer.Body)))
	}
	if answer.Err != nil {
		return fmt.Errorf("notify test %s: %w", name, answer.Err)
	}
	return nil
}

func endpointNames(settings *endpoint.Config) []string {
	var names []string
	for _, e := range settings.Endpoints {
		names = append(names, e.Name)
	}
	return names
}
