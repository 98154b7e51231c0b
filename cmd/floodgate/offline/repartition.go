package offline

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/analyzer/repartition"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Repartition writes the requests of one topic to another with another number of partitions: the way from P to P′.
func Repartition(p command.Process) *cobra.Command {
	var c repartitionConfig
	cmd := &cobra.Command{
		Use:     "repartition --brokers HOST:PORT... --to-requests TOPIC [flags]",
		Short:   "write requests to another topic with more partitions, to grow",
		Example: "floodgate repartition --brokers kafka:9092 --to-requests floodgate2.requests",
		Args:    command.FlagsOnly,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context(), p) },
	}
	c.kafka.Add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&c.to, "to-requests", "", "`topic` to write to, which must exist and have the new number of partitions")
	flags.BoolVar(&c.follow, "follow", false, "when everything that was there at the start is written, continue until stopped")
	c.key.Add(cmd)
	return cmd
}

// repartitionConfig is the flags of repartition.
type repartitionConfig struct {
	kafka  option.Kafka
	key    option.Key
	to     string // topic
	follow bool
}

func (r *repartitionConfig) run(ctx context.Context, p command.Process) error {
	k := &r.kafka
	if err := k.Check(); err != nil {
		return err
	}
	if r.to == "" {
		return command.Usagef("--to-requests: got none, want a topic beside %s", k.Names.Requests)
	}
	if kind := k.Uses(r.to); kind != "" {
		return command.Usagef("--to-requests: got %q, which is the topic of %s; want another topic", r.to, kind)
	}
	secret, err := r.key.Load()
	if err != nil {
		return err
	}
	client, err := k.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	c := repartition.Config{From: k.Names.Requests, To: r.to, Follow: r.follow, Logger: p.Logger()}
	c.Fold.Key = secret
	if c.Fold.Partitions, err = client.Partitions(ctx, c.From); err != nil {
		return fmt.Errorf("repartition: %w", err)
	}
	if c.Targets, err = client.Partitions(ctx, c.To); err != nil {
		return fmt.Errorf("repartition: %w", err)
	}
	return repartitionUntil(ctx, p, client, c)
}

// repartitionReport is how often a repartitioner that follows says how far it is.
const repartitionReport = 5 * time.Second

func repartitionUntil(ctx context.Context, p command.Process, client *kafkaio.Client, c repartition.Config) error {
	c.Logger.Info("repartitioning", "from", c.From, "partitions", c.Fold.Partitions, "to", c.To, "targets", c.Targets)
	m := repartition.New(client, c)
	g, running := errgroup.WithContext(ctx)
	running, done := context.WithCancel(running)
	g.Go(func() error { defer done(); return m.Run(running) })
	g.Go(func() error { reportRepartition(running, c.Logger, m); return nil })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("repartition: %w", err)
	}
	if ctx.Err() != nil && !c.Follow {
		return fmt.Errorf("repartition: interrupted with %d records still to be written: %w", m.Behind(), ctx.Err())
	}
	_, err := fmt.Fprintf(p.Stdout, "repartitioned %s to %s, %d records behind\n", printable.Of(c.From), printable.Of(c.To), m.Behind())
	return err
}

// reportRepartition logs that the repartitioner has caught up, or how far it is behind.
func reportRepartition(ctx context.Context, logger *slog.Logger, m *repartition.Repartitioner) {
	const look = 100 * time.Millisecond
	caughtUp, reported := false, time.Now()
	_ = kafkaio.Sleep(ctx, look)
	for ; ctx.Err() == nil; _ = kafkaio.Sleep(ctx, look) {
		behind := m.Behind()
		switch {
		case behind == 0 && !caughtUp:
			logger.Info("caught up")
			caughtUp = true
		case behind > 0 && time.Since(reported) >= repartitionReport:
			logger.Info("repartitioning", "behind", behind)
			caughtUp, reported = false, time.Now()
		}
	}
}
