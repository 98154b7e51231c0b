package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// analyzeConfig is the flags of analyze.
type analyzeConfig struct {
	kafka      kafkaFlags
	key        keyFlag
	rules      string
	ids        idFlags
	data       string
	listen     string
	group      string
	session    time.Duration
	checkpoint time.Duration
	repeat     time.Duration
	snapshot   time.Duration
	maxRows    int
	predict    predictFlags
	standby    bool
	status     *statusPage
	api        apiFlags
	log        logFlags
}

func parseAnalyze(p process, args []string) (analyzeConfig, error) {
	c := analyzeConfig{status: new(statusPage)}
	flags := newFlags("analyze --brokers HOST:PORT... --rules FILE --data DIR [flags]")
	c.kafka.add(flags)
	c.key.add(flags)
	flags.StringVar(&c.rules, "rules", "", "rules `file`; read again when it changes and on SIGHUP")
	c.ids.add(flags)
	flags.StringVar(&c.data, "data", "", "`directory` for the counts")
	flags.StringVar(&c.listen, "listen", "127.0.0.1:9090", "`host:port` of /metrics, /healthz, /readyz and /status; empty: none")
	flags.StringVar(&c.group, "group", "floodgate", "consumer group whose members share the partitions")
	flags.DurationVar(&c.session, "session-timeout", kafkaio.DefaultSessionTimeout, "how long a silent analyzer keeps its partitions")
	flags.DurationVar(&c.checkpoint, "checkpoint", analyzer.DefaultCheckpoint, "time between commits of the counts")
	flags.DurationVar(&c.repeat, "repeat", analyzer.DefaultRepeat, "time between repeats of all closures in force")
	flags.DurationVar(&c.snapshot, "snapshot", analyzer.DefaultSnapshot, "time between snapshots of all counts, from which another analyzer can continue")
	flags.BoolVar(&c.standby, "standby", false, "get partitions only while no other analyzer of the group runs")
	flags.IntVar(&c.maxRows, "max-rows", fold.DefaultMaxRows, "rules × callers with an exact count in one partition, at some 200 bytes each; further callers wait, and offenders among them take the rows of others")
	c.predict.add(flags)
	c.api.add(flags)
	c.log.add(flags)
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
	if err := c.predict.check(); err != nil {
		return err
	}
	return c.kafka.check()
}

// runAnalyze runs an analyzer until it is stopped.
func runAnalyze(ctx context.Context, p process, args []string) (err error) {
	c, err := parseAnalyze(p, args)
	if err != nil {
		return err
	}
	defer c.log.report(p, &err)
	set, err := c.ids.rules(c.rules)
	if err != nil {
		return fmt.Errorf("load rules: %w", err)
	}
	d, err := newDaemon(p, c.log, c.kafka, c.key)
	if err != nil {
		return err
	}
	defer d.close()
	if err := c.api.make(d, &c.ids); err != nil {
		return err
	}
	logStart(d.logger, "analyze", "rules", fmt.Sprintf("%016x", set.ID()), "rule_count", len(set.Rules), "file", c.rules)
	logWarnings(d.logger, set)
	if err := prepareData(c.data); err != nil {
		return err
	}
	lock, err := store.Lock(c.data)
	if err != nil {
		return fmt.Errorf("--data: %w; want a directory for each analyzer", err)
	}
	defer lock.Close() // the end of the process would do it too
	g, ctx := errgroup.WithContext(ctx)
	d.http.Handle("GET /status", c.status)
	if err := d.listen(ctx, g, c.listen); err != nil {
		return err
	}
	if err := c.api.serve(ctx, g, d); err != nil {
		g.Go(func() error { return err }) // stops what listens already
		return g.Wait()
	}
	g.Go(func() error { return c.count(ctx, d, set) })
	g.Go(func() error { return boundMemory(ctx) })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("analyze: %w", err)
	}
	d.logger.Info("stopped")
	return nil
}

// prepareData creates the directory of the counts and tries to write there. So a directory that cannot be used is an error
// before the wait for Kafka: an owner that cannot open its store would try for ever.
func prepareData(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	f, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return fmt.Errorf("write to data directory: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// analyzer builds the analyzer that the flags describe.
func (c *analyzeConfig) analyzer(d *daemon, set *rules.Set, partitions int) *analyzer.Analyzer {
	counting := fold.Options{Key: d.key, Partitions: partitions, MaxRows: c.maxRows}
	c.predict.set(&counting)
	var a *analyzer.Analyzer
	a = analyzer.New(d.client, analyzer.Config{
		Dir: c.data, SessionTimeout: c.session,
		Join: func() (analyzer.Membership, error) {
			return kafkaio.NewGroup(kafkaio.GroupConfig{
				Client: d.client, Group: c.group, Topic: c.kafka.names.Requests, SessionTimeout: c.session,
				Held: func() map[int]int64 { return a.Held() }, Standby: c.standby, MemberFile: filepath.Join(c.data, "member"),
			})
		},
		Owner: analyzer.OwnerConfig{
			Fold: counting, Requests: c.kafka.names.Requests, Decisions: c.kafka.names.Decisions, State: c.kafka.names.State,
			Rejects: c.kafka.names.Rejects, Control: c.kafka.names.Control, Events: c.kafka.names.Events, API: c.api.advertised(),
			Rules: set, Name: ownerName(), Checkpoint: c.checkpoint, Repeat: c.repeat, Snapshot: c.snapshot,
			Store: store.Options{Logger: d.logger}, Logger: d.logger,
		},
	})
	return a
}

// followRules calls take with new rules when their file changes or on SIGHUP. If the file cannot be used it calls refuse, and the
// rules in use stay.
func (c *analyzeConfig) followRules(ctx context.Context, d *daemon, set *rules.Set, take func(*rules.Set), refuse func(error)) error {
	ids, err := c.ids.load()
	if err != nil {
		return err
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	change := func(next *rules.Set, err error) {
		if err != nil {
			d.logger.Error("rules not changed: the file cannot be used", "error", err)
			refuse(err)
			return
		}
		logWarnings(d.logger, next)
		take(next)
	}
	w := rules.NewWatcher(c.rules, set.ID(), change)
	w.IDs = ids
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
