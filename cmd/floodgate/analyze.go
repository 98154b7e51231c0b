package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
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
	snapshot   time.Duration
	maxRows    int
	standby    bool
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
	flags.DurationVar(&c.snapshot, "snapshot", analyzer.DefaultSnapshot, "time between snapshots of all counts, from which another analyzer can go on")
	flags.BoolVar(&c.standby, "standby", false, "get partitions only while no other analyzer of the group runs")
	flags.IntVar(&c.maxRows, "max-rows", analyzer.DefaultMaxRows, "rules × callers counted in one partition, at some 200 bytes each; beyond, only those that are heavy")
	if err := parseFlags(p, flags, args); err != nil {
		return c, err
	}
	if err := flagsOnly(flags); err != nil {
		return c, err
	}
	return c, c.check()
}

func (c *analyzeConfig) check() error {
	switch {
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
	case c.snapshot < time.Second:
		return usagef("--snapshot: got %v, want 1s or more", c.snapshot)
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
	key, err := c.key.key()
	if err != nil {
		return err
	}
	if err := prepareData(c.data); err != nil {
		return err
	}
	client, err := c.kafka.client()
	if err != nil {
		return err
	}
	defer client.Close()
	server := newServer()
	g, ctx := errgroup.WithContext(ctx)
	if c.listen != "" {
		if err := server.open(c.listen, logger); err != nil {
			return err
		}
		g.Go(func() error { return server.run(ctx) })
	}
	g.Go(func() error { return c.count(ctx, logger, client, set, key, server) })
	g.Go(func() error { return boundMemory(ctx) })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("analyze: %w", err)
	}
	logger.Info("stopped")
	return nil
}

// prepareData makes the directory of the counts and tries to write there, so that a wrong one is found before Kafka is
// waited for: an owner that can't open its store goes on trying.
func prepareData(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	f, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return fmt.Errorf("write to data directory: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// analyzer builds the analyzer that the flags describe.
func (c *analyzeConfig) analyzer(logger *slog.Logger, client *kafkaio.Client, set *rules.Set, key schemas.PartitionKey, partitions int) *analyzer.Analyzer {
	var a *analyzer.Analyzer
	a = analyzer.New(client, analyzer.Config{
		Dir: c.data, SessionTimeout: c.session,
		Join: func() (analyzer.Membership, error) {
			return kafkaio.NewGroup(kafkaio.GroupConfig{
				Client: client, Group: c.group, Topic: c.kafka.names.Requests, SessionTimeout: c.session,
				Held: func() map[int]int64 { return a.Held() }, Standby: c.standby,
			})
		},
		Owner: analyzer.OwnerConfig{
			Fold:     analyzer.FoldOptions{Key: key, Partitions: partitions, MaxRows: c.maxRows},
			Requests: c.kafka.names.Requests, Decisions: c.kafka.names.Decisions, State: c.kafka.names.State,
			Rejects: c.kafka.names.Rejects,
			Rules:   set, Name: ownerName(), Checkpoint: c.checkpoint, Repeat: c.repeat, Snapshot: c.snapshot,
			Store: store.Options{Logger: logger}, Logger: logger,
		},
	})
	return a
}

func ownerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// prepareTopics creates the topics that are missing, says what is wrong with those that are there, and returns how many
// partitions of requests there are. While Kafka is away it goes on trying.
func prepareTopics(ctx context.Context, logger *slog.Logger, client *kafkaio.Client, k kafkaFlags) (partitions int, err error) {
	specs := kafkaio.Specs(k.names, k.partitions)
	for ; ; wait(ctx, time.Second) {
		var created []string
		if err = client.CheckBrokers(ctx); err == nil {
			created, err = client.EnsureTopics(ctx, specs...)
		}
		if err == nil {
			if len(created) > 0 {
				logger.Info("created topics", "topics", created)
			}
			partitions, err = client.Partitions(ctx, k.names.Requests)
		}
		if err == nil {
			break
		}
		if !kafkaio.Temporary(err) || ctx.Err() != nil {
			return 0, fmt.Errorf("prepare topics: %w", err)
		}
		logger.Warn("cannot reach Kafka, trying again", "error", err)
	}
	findings, err := client.CheckTopics(ctx, specs...)
	if err != nil {
		logger.Warn("cannot check topics", "error", err)
		return partitions, nil
	}
	for _, f := range findings {
		if f.Setting != "partitions" { // any number of them will do
			logger.Warn("topic is not as it should be", "topic", f.Topic, "setting", f.Setting, "got", f.Got, "want", f.Want, "because", f.Why)
		}
	}
	return partitions, nil
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
