package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/analyzer/repartition"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// runRepartition writes the requests of one topic to another with another number of partitions: the way from P to P′.
func runRepartition(ctx context.Context, p process, args []string) error {
	flags := newFlags("repartition --brokers HOST:PORT... --to-requests TOPIC [flags]")
	var k kafkaFlags
	var key keyFlag
	var to string
	var follow bool
	flags.StringVar(&to, "to-requests", "", "`topic` to write to, which must exist and have the new number of partitions")
	flags.BoolVar(&follow, "follow", false, "when everything that was there at the start is written, continue until stopped")
	k.add(flags)
	key.add(flags)
	if err := parseFlags(p, flags, args); err != nil {
		return err
	}
	if err := flagsOnly(flags); err != nil {
		return err
	}
	if to == "" {
		return usagef("--to-requests: got none, want a topic beside %s", k.names.Requests)
	}
	if flag := k.uses(to); flag != "" {
		return usagef("--to-requests: got %q, which is --%s; want another topic", to, flag)
	}
	if err := k.check(); err != nil {
		return err
	}
	secret, err := key.key()
	if err != nil {
		return err
	}
	client, err := k.client()
	if err != nil {
		return err
	}
	defer client.Close()
	c := repartition.Config{From: k.names.Requests, To: to, Follow: follow, Logger: p.logger()}
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

func repartitionUntil(ctx context.Context, p process, client *kafkaio.Client, c repartition.Config) error {
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
	_, err := fmt.Fprintf(p.stdout, "repartitioned %s to %s, %d records behind\n", printable.Of(c.From), printable.Of(c.To), m.Behind())
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
