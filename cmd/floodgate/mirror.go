package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// runMirror writes the requests of one topic to another with another number of partitions: the way from P to P′.
func runMirror(ctx context.Context, p process, args []string) error {
	flags := newFlags("mirror --brokers HOST:PORT... --to-requests TOPIC [flags]")
	var k kafkaFlags
	var key keyFlag
	var to string
	var follow bool
	flags.StringVar(&to, "to-requests", "", "`topic` to write to, which is there and has the number of partitions wanted")
	flags.BoolVar(&follow, "follow", false, "go on when all that was there at the start is written, until stopped")
	k.add(flags)
	key.add(flags)
	if err := parseFlags(p, flags, args); err != nil {
		return err
	}
	if err := flagsOnly(flags); err != nil {
		return err
	}
	if to == "" || to == k.names.Requests {
		return usagef("--to-requests: got %q, want a topic beside %s", to, k.names.Requests)
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
	c := analyzer.MirrorConfig{From: k.names.Requests, To: to, Follow: follow, Logger: p.logger()}
	c.Fold.Key = secret
	if c.Fold.Partitions, err = client.Partitions(ctx, c.From); err != nil {
		return fmt.Errorf("mirror: %w", err)
	}
	if c.Targets, err = client.Partitions(ctx, c.To); err != nil {
		return fmt.Errorf("mirror: %w", err)
	}
	return mirror(ctx, p, client, c)
}

// mirrorReport is how often a mirror that follows says how far it is.
const mirrorReport = 5 * time.Second

func mirror(ctx context.Context, p process, client *kafkaio.Client, c analyzer.MirrorConfig) error {
	c.Logger.Info("mirroring", "from", c.From, "partitions", c.Fold.Partitions, "to", c.To, "targets", c.Targets)
	m := analyzer.NewMirror(client, c)
	g, running := errgroup.WithContext(ctx)
	running, done := context.WithCancel(running)
	g.Go(func() error { defer done(); return m.Run(running) })
	g.Go(func() error { reportMirror(running, c.Logger, m); return nil })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("mirror: %w", err)
	}
	if ctx.Err() != nil && !c.Follow {
		return fmt.Errorf("mirror: interrupted with %d records still to be written: %w", m.Behind(), ctx.Err())
	}
	_, err := fmt.Fprintf(p.stdout, "mirrored %s to %s, %d records behind\n", c.From, c.To, m.Behind())
	return err
}

// reportMirror says when the mirror has caught up, and how far it is behind while it has not.
func reportMirror(ctx context.Context, logger *slog.Logger, m *analyzer.Mirror) {
	const look = 100 * time.Millisecond
	caughtUp, said := false, time.Now()
	wait(ctx, look)
	for ; ctx.Err() == nil; wait(ctx, look) {
		behind := m.Behind()
		switch {
		case behind == 0 && !caughtUp:
			logger.Info("caught up")
			caughtUp = true
		case behind > 0 && time.Since(said) >= mirrorReport:
			logger.Info("mirroring", "behind", behind)
			caughtUp, said = false, time.Now()
		}
	}
}
