package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/version"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// analyzeConfig is the flags of analyze.
type analyzeConfig struct {
	kafka      option.Kafka
	key        option.Key
	rules      string
	ids        option.IDs
	data       string
	listen     string
	group      string
	session    time.Duration
	checkpoint time.Duration
	repeat     time.Duration
	snapshot   time.Duration
	maxRows    int
	predict    option.Predict
	standby    bool
	status     *statusPage
	api        apiFlags
	log        command.Log
}

// Analyze runs an analyzer until it is stopped.
func Analyze(p command.Process) *cobra.Command {
	c := analyzeConfig{status: new(statusPage)}
	cmd := &cobra.Command{
		Use:     "analyze --brokers HOST:PORT... --rules FILE --data DIR [flags]",
		Short:   "count requests from Kafka and publish decisions",
		Example: "floodgate analyze --brokers kafka:9092 --rules rules.yaml --data /var/lib/floodgate",
		Args:    command.FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(); err != nil {
				return err
			}
			return c.run(cmd.Context(), p)
		},
	}
	c.kafka.Add(cmd)
	c.kafka.AddPartitions(cmd)
	flags := cmd.Flags()
	flags.StringVar(&c.rules, "rules", "", "rules `file`; read again when it changes and on SIGHUP")
	flags.StringVar(&c.data, "data", "", "`directory` for the counts")
	c.key.Add(cmd)
	flags.StringVar(&c.listen, "listen", "127.0.0.1:9090", "`host:port` of /metrics, /healthz, /readyz and /status; empty: none")
	flags.StringVar(&c.group, "group", "", "consumer group whose members share the partitions (default: --topic-prefix)")
	flags.DurationVar(&c.session, "session-timeout", kafkaio.DefaultSessionTimeout, "how long a silent analyzer keeps its partitions")
	flags.DurationVar(&c.checkpoint, "checkpoint", analyzer.DefaultCheckpoint, "time between commits of the counts")
	flags.DurationVar(&c.repeat, "repeat", analyzer.DefaultRepeat, "time between repeats of all closures in force")
	flags.DurationVar(&c.snapshot, "snapshot", analyzer.DefaultSnapshot, "time between snapshots of all counts, from which another analyzer can continue")
	flags.BoolVar(&c.standby, "standby", false, "get partitions only while no other analyzer of the group runs")
	flags.IntVar(&c.maxRows, "max-rows", fold.DefaultMaxRows, "rules × callers with an exact count in one partition, at some 200 bytes each; further callers wait, and offenders among them take the rows of others")
	command.Hide(flags, "group", "session-timeout", "checkpoint", "repeat", "snapshot")
	c.predict.Add(cmd)
	c.api.add(cmd)
	c.ids.Add(cmd)
	c.ids.AddASN(cmd)
	c.log.Add(cmd)
	return cmd
}

func (c *analyzeConfig) check() error {
	switch {
	case c.rules == "":
		return command.Usagef("--rules: got none, want a file")
	case c.data == "":
		return command.Usagef("--data: got none, want a directory")
	case c.session < 2*time.Second:
		return command.Usagef("--session-timeout: got %v, want 2s or more", c.session)
	case c.checkpoint < time.Millisecond || c.checkpoint > time.Minute:
		return command.Usagef("--checkpoint: got %v, want 1ms to 1m", c.checkpoint)
	case c.repeat < time.Second:
		return command.Usagef("--repeat: got %v, want 1s or more", c.repeat)
	case c.snapshot < time.Second:
		return command.Usagef("--snapshot: got %v, want 1s or more", c.snapshot)
	case c.maxRows < 1:
		return command.Usagef("--max-rows: got %d, want 1 or more", c.maxRows)
	}
	return c.kafka.Check()
}

func (c *analyzeConfig) run(ctx context.Context, p command.Process) (err error) {
	defer c.log.Report(p, &err)
	set, err := c.ids.Rules(c.rules)
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
	version.LogStart(d.logger, "analyze", "rules", fmt.Sprintf("%016x", set.ID()), "rule_count", len(set.Rules), "file", c.rules)
	logWarnings(d.logger, set)
	if err := prepareData(c.data); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(c.data, layoutName)); err == nil {
		return command.Usagef("--data: got %s, which has the counts of floodgate serve, of another log; want a directory of its own for analyze", c.data)
	}
	lock, err := store.Lock(c.data)
	if err != nil {
		return fmt.Errorf("--data: %w; want a directory for each analyzer", err)
	}
	defer lock.Close() // the end of the process would do it too
	g, ctx := errgroup.WithContext(ctx)
	d.http.Handle("GET /status", c.status)
	if err := errors.Join(d.listen(ctx, g, c.listen), c.api.serve(ctx, g, d)); err != nil {
		g.Go(func() error { return err }) // stops what listens already
		return g.Wait()
	}
	g.Go(func() error { return c.count(ctx, d, set) })
	g.Go(func() error { return boundMemory(ctx, minLimit) })
	g.Go(func() error { c.ids.Watch(ctx, d.logger); return nil })
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
func (c *analyzeConfig) analyzer(d *daemon, set *rules.Set, t requestsTopic) *analyzer.Analyzer {
	counting := fold.Options{Key: d.key, Partitions: t.partitions, MaxRows: c.maxRows}
	counting.Predict = c.predict.MaxWay()
	if t.appendTime {
		counting.Predict = min(counting.Predict, rules.PredictEarly) // shares need servers whose clocks are bounded
	}
	var a *analyzer.Analyzer
	a = analyzer.New(d.client, analyzer.Config{
		Dir: c.data, SessionTimeout: c.session, Outage: d.client.Outage,
		Join: func() (analyzer.Membership, error) {
			return kafkaio.NewGroup(kafkaio.GroupConfig{
				Client: d.client, Group: cmp.Or(c.group, c.kafka.Prefix), Topic: c.kafka.Names.Requests, SessionTimeout: c.session,
				Held: func() map[int]int64 { return a.Held() }, Standby: c.standby, MemberFile: filepath.Join(c.data, "member"),
			})
		},
		Owner: analyzer.OwnerConfig{
			Fold: counting, Requests: c.kafka.Names.Requests, Decisions: c.kafka.Names.Decisions, State: c.kafka.Names.State,
			Rejects: c.kafka.Names.Rejects, Control: c.kafka.Names.Control, Events: c.kafka.Names.Events, API: c.api.advertised(),
			Rules: set, RulesFile: c.rules, Name: command.Name(), Checkpoint: c.checkpoint, Repeat: c.repeat, Snapshot: c.snapshot,
			Store: store.Options{Logger: d.logger}, Logger: d.logger,
		},
	})
	return a
}

// followRules calls take with new rules when their file changes or on SIGHUP. If the file cannot be used it calls refuse, and the
// rules in use stay.
func followRules(ctx context.Context, logger *slog.Logger, ids *option.IDs, path string, set *rules.Set, take func(*rules.Set), refuse func(error)) error {
	made, err := ids.Load()
	if err != nil {
		return err
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	change := func(next *rules.Set, err error) {
		if err != nil {
			logger.Error("rules not changed: the file cannot be used", "error", err)
			refuse(err)
			return
		}
		logWarnings(logger, next)
		take(next)
	}
	w := rules.NewWatcher(path, set.ID(), change)
	w.IDs = made
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
