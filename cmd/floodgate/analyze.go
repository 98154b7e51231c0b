package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// analyzeConfig is the flags of analyze.
type analyzeConfig struct {
	kafka      kafkaFlags
	key        keyFlag
	rules      string
	data       string
	listen     string
	group      string
	session    time.Duration
	checkpoint time.Duration
	repeat     time.Duration
	maxRows    int
}

func parseAnalyze(p process, args []string) (analyzeConfig, error) {
	var c analyzeConfig
	flags := newFlags("analyze --brokers HOST:PORT... --rules FILE --data DIR [flags]")
	c.kafka.add(flags)
	c.key.add(flags)
	flags.StringVar(&c.rules, "rules", "", "rules `file`; read again when it changes and on SIGHUP")
	flags.StringVar(&c.data, "data", "", "`directory` for the counts")
	flags.StringVar(&c.listen, "listen", "127.0.0.1:9090", "`host:port` of /metrics, /healthz and /readyz; empty: none")
	flags.StringVar(&c.group, "group", "floodgate", "consumer group that shares out the partitions")
	flags.DurationVar(&c.session, "session-timeout", kafkaio.DefaultSessionTimeout, "how long a silent analyzer keeps its partitions")
	flags.DurationVar(&c.checkpoint, "checkpoint", analyzer.DefaultCheckpoint, "time between commits of the counts")
	flags.DurationVar(&c.repeat, "repeat", analyzer.DefaultRepeat, "time between repeats of all closures in force")
	flags.IntVar(&c.maxRows, "max-rows", analyzer.DefaultMaxRows, "rules × callers counted in one partition at most")
	if err := parseFlags(p, flags, args); err != nil {
		return c, err
	}
	return c, c.check(flags.Args())
}

func (c *analyzeConfig) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return usagef("analyze: got %q, want flags only", rest)
	case c.rules == "":
		return usagef("--rules: got none, want a file")
	case c.data == "":
		return usagef("--data: got none, want a directory")
	case c.session < 2*time.Second:
		return usagef("--session-timeout: got %v, want 2s or more", c.session)
	case c.checkpoint < time.Millisecond || c.checkpoint > time.Minute:
		return usagef("--checkpoint: got %v, want 1ms to 1m", c.checkpoint)
	case c.repeat < time.Second:
		return usagef("--repeat: got %v, want 1s or more", c.repeat)
	case c.maxRows < 1:
		return usagef("--max-rows: got %d, want 1 or more", c.maxRows)
	}
	return c.kafka.check()
}

// runAnalyze runs an analyzer until it is stopped.
func runAnalyze(ctx context.Context, p process, args []string) error {
	c, err := parseAnalyze(p, args)
	if err != nil {
		return err
	}
	logger := p.logger()
	set, err := rules.Load(c.rules)
	if err != nil {
		return fmt.Errorf("load rules: %w", err)
	}
	logWarnings(logger, set)
	client := c.kafka.client()
	defer client.Close()
	if err := prepareTopics(ctx, logger, client, c.kafka); err != nil {
		return err
	}
	a, err := c.analyzer(ctx, logger, client, set)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.Run(ctx) })
	g.Go(func() error { return followRules(ctx, logger, c.rules, set, a) })
	if c.listen != "" {
		server, err := newServer(c.listen, a, logger)
		if err != nil {
			return err
		}
		g.Go(func() error { return server.run(ctx) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("analyze: %w", err)
	}
	logger.Info("stopped")
	return nil
}

// analyzer builds the analyzer that the flags describe.
func (c *analyzeConfig) analyzer(ctx context.Context, logger *slog.Logger, client *kafkaio.Client, set *rules.Set) (*analyzer.Analyzer, error) {
	key, err := c.key.key()
	if err != nil {
		return nil, err
	}
	partitions, err := client.Partitions(ctx, c.kafka.names.Requests)
	if err != nil {
		return nil, fmt.Errorf("count partitions: %w", err)
	}
	return analyzer.New(client, analyzer.Config{
		Dir: c.data, SessionTimeout: c.session,
		Join: func() (analyzer.Membership, error) {
			return kafkaio.NewGroup(kafkaio.GroupConfig{
				Client: client, Group: c.group, Topic: c.kafka.names.Requests, SessionTimeout: c.session,
			})
		},
		Owner: analyzer.OwnerConfig{
			Fold:     analyzer.FoldOptions{Key: key, Partitions: partitions, MaxRows: c.maxRows},
			Requests: c.kafka.names.Requests, Decisions: c.kafka.names.Decisions,
			Rules: set, Name: ownerName(), Checkpoint: c.checkpoint, Repeat: c.repeat,
			Store: store.Options{Logger: logger}, Logger: logger,
		},
	}), nil
}

func ownerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// prepareTopics creates the topics that are missing, and says what is wrong with those that are there.
func prepareTopics(ctx context.Context, logger *slog.Logger, client *kafkaio.Client, k kafkaFlags) error {
	specs := kafkaio.Specs(k.names, k.partitions)
	for {
		created, err := client.EnsureTopics(ctx, specs...)
		if err == nil {
			if len(created) > 0 {
				logger.Info("created topics", "topics", created)
			}
			break
		}
		if !kafkaio.Temporary(err) || ctx.Err() != nil {
			return fmt.Errorf("create topics: %w", err)
		}
		logger.Warn("cannot reach Kafka, trying again", "error", err)
		wait(ctx, time.Second)
	}
	findings, err := client.CheckTopics(ctx, specs...)
	if err != nil {
		logger.Warn("cannot check topics", "error", err)
		return nil
	}
	for _, f := range findings {
		if f.Setting != "partitions" { // any number of them will do
			logger.Warn("topic is not as it should be", "topic", f.Topic, "setting", f.Setting, "got", f.Got, "want", f.Want, "because", f.Why)
		}
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func logWarnings(logger *slog.Logger, set *rules.Set) {
	for _, w := range set.Warnings {
		logger.Warn("rules", "warning", w.Error())
	}
}

// followRules gives the analyzer new rules when their file changes or on SIGHUP. A file that can't be used changes
// nothing: the running rules stay.
func followRules(ctx context.Context, logger *slog.Logger, path string, set *rules.Set, a *analyzer.Analyzer) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	change := func(next *rules.Set, err error) {
		if err != nil {
			logger.Error("rules not changed: the file is not usable", "error", err)
			return
		}
		logWarnings(logger, next)
		a.SetRules(next)
	}
	w := rules.NewWatcher(path, set.ID(), change)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.Run(ctx) })
	g.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-hup:
				w.Reload()
			}
		}
	})
	return g.Wait()
}
