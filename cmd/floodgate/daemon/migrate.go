package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/ingest/tail"
	"github.com/509da70d/floodgate/analyzer/migrate"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/cmd/floodgate/version"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
)

// migrateConfig is the flags of migrate.
type migrateConfig struct {
	kafka     option.Kafka
	serve     serveConfig // as serve had it
	to        string
	positions string
	output    command.Output
	flags     *pflag.FlagSet // all of them, to fill in the next commands
}

// Migrate brings the counts of a serve to Kafka.
func Migrate(p command.Process) *cobra.Command {
	c := migrateConfig{serve: serveConfig{keepBytes: defaultKeepBytes}}
	cmd := &cobra.Command{
		Use:   "migrate --data DIR --brokers HOST:PORT... --to DIR [flags]",
		Short: "bring the counts of a stopped floodgate serve to Kafka",
		Long: "Writes the counts and closures of a floodgate serve to fresh topics, and makes the data directories from which analyze and ingest go on. No log is " +
			"copied. It answers proxies in place of serve, from the closures in force, until it is stopped. It can be interrupted, and called again. It " +
			"takes the flags of serve for formats and callers, and writes them into the commands that it prints.",
		Example: "floodgate migrate --data /var/lib/floodgate-serve --brokers kafka:9092 --to /var/lib/floodgate",
		Args:    command.FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(); err != nil {
				return err
			}
			return c.run(cmd.Context(), p)
		},
	}
	c.add(cmd)
	return cmd
}

func (c *migrateConfig) add(cmd *cobra.Command) {
	c.kafka.Add(cmd)
	s := &c.serve
	c.flags = cmd.Flags()
	c.flags.StringVar(&s.data, "data", "", "`directory` of the floodgate serve, which must be stopped")
	c.flags.StringVar(&c.to, "to", "", "new `directory` for the counts, of analyze")
	c.flags.StringVar(&c.positions, "positions", "", "new `directory` for the positions in files, of ingest (default: that of --to, and -ingest)")
	c.flags.StringVar(&s.rules, "rules", "", "rules `file` of serve (default: rules.yaml in --data)")
	c.flags.StringVar(&s.listen, "listen", defaultListen, "`address` at which proxies are answered in place of serve: host:port, or unix:PATH; empty: none, and migrate ends when all is migrated")
	c.flags.StringArrayVar(&s.callers, "callers", nil, "callers beside ip that proxies ask about, as `kind=Header`, as for serve; can be given several times")
	s.mapping.Add(cmd)
	c.output.Add(cmd)
	s.log.Add(cmd)
}

func (c *migrateConfig) check() error {
	switch {
	case c.serve.data == "":
		return command.Usagef("--data: got none, want the directory of a stopped floodgate serve")
	case c.to == "":
		return command.Usagef("--to: got none, want a new directory for the counts")
	}
	if err := c.kafka.Check(); err != nil {
		return err
	}
	for flag, dir := range map[string]string{"data": c.serve.data, "to": c.to} {
		_, err := os.Stat(filepath.Join(dir, layoutName))
		switch isServe := err == nil; {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return command.Usagef("--%s: %w", flag, err)
		case isServe && flag == "to":
			return command.Usagef("--to: got %s, which has the counts of floodgate serve; want a new directory", dir)
		case !isServe && flag == "data":
			return command.Usagef("--data: got no %s in %s, want the directory of a floodgate serve", layoutName, dir)
		}
	}
	if c.positions == "" {
		c.positions = filepath.Clean(c.to) + "-ingest"
	}
	if c.serve.rules == "" {
		c.serve.rules = option.LocalRules(c.serve.data)
	}
	return nil
}

func (c *migrateConfig) run(ctx context.Context, p command.Process) (err error) {
	defer c.serve.log.Report(p, &err)
	if terminal.Interactive(p.Stderr) {
		c.serve.log.Quiet() // a bar says how it goes
	}
	logger := c.serve.log.Logger(p)
	version.LogStart(logger, "migrate")
	m := &move{migrateConfig: c, daemon: &daemon{logger: logger, kafka: c.kafka}, process: p}
	if m.client, err = c.kafka.Client(); err != nil {
		return err
	}
	defer m.client.Close()
	if m.finished, err = migrate.Finished(c.to); err != nil {
		return err
	}
	if m.host, err = c.serve.openStopped(ctx, logger); err != nil {
		return err
	}
	return errors.Join(m.run(ctx), m.host.close())
}

// openStopped opens what a stopped serve has left: its log, its rules, and gates for its decisions. Until it listens, nobody answers proxies.
func (c *serveConfig) openStopped(ctx context.Context, logger *slog.Logger) (h *host, err error) {
	lock, err := store.Lock(c.data)
	if errors.Is(err, store.ErrLocked) {
		return nil, command.Usagef("--data: %w; floodgate serve still runs: stop it first", err)
	}
	if err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	h = &host{config: c, logger: logger, lock: lock, names: schemas.DefaultTopicNames(), fail: func(error) {}}
	if h.partitions, err = readLayout(c.data); err != nil {
		return nil, err
	}
	if h.rules, err = c.mapping.IDs.Rules(c.rules); err != nil {
		return nil, command.Usagef("--rules: %w; want the rules of floodgate serve", err)
	}
	c.countNetworks(h.rules)
	if err := h.openLog(ctx); err != nil {
		return nil, err
	}
	err = h.openGates(slog.New(slog.DiscardHandler)) // they would warn that nobody decides any more
	if err == nil && c.listen != "" {
		err = h.openServers()
	}
	if err != nil {
		return nil, errors.Join(err, h.log.Close())
	}
	return h, nil
}

// checkCounted returns a usage error if the counts were made by other rules.
func (h *host) checkCounted() error {
	for p := range h.partitions {
		s, err := store.Open(filepath.Join(h.config.data, strconv.Itoa(p)), store.Options{Logger: h.logger})
		if err != nil {
			return fmt.Errorf("open the counts: %w", err)
		}
		at := s.Checkpoint()
		if err := s.Close(); err != nil {
			return fmt.Errorf("close the counts: %w", err)
		}
		if at.Next >= 0 && at.RulesID != h.rules.ID() {
			return command.Usagef("--rules: got %s with the rules %016x, and the counts of partition %d are of %016x: want the rules that floodgate serve had when it was stopped. "+
				"To change rules, start it with them once", h.config.rules, h.rules.ID(), p, at.RulesID)
		}
	}
	return nil
}

// move is a running migrate.
type move struct {
	*migrateConfig
	*daemon

	process  command.Process
	host     *host
	finished bool // an earlier migrate has migrated all: analyze and ingest may be at work in the new directories
}

// run answers proxies until ctx ends, and migrates meanwhile. Without an address for proxies it ends when all is migrated.
func (m *move) run(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	m.host.fail = fail
	g, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if m.host.asked != nil {
		// Without canaries, and without a recorder that is asked to record: the log must not grow.
		link, err := kafkalink.Open(m.host.set, m.host.rec, kafkalink.Config{Log: m.host.log, Topics: m.host.names, Canary: -1, Logger: m.logger})
		if err != nil {
			return err
		}
		defer link.Close()
		g.Go(func() error { return m.host.asked.Run(ctx) })
	}
	g.Go(func() error { return boundMemory(ctx, hostLimit) })
	g.Go(func() error {
		defer stop()
		report, err := m.bring(ctx)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("interrupted: give the same command again, or start floodgate serve again and use neither the new topics nor the new directories: %w", context.Cause(ctx))
		}
		if err == nil {
			err = m.report(report)
		}
		if err == nil && m.host.asked != nil {
			m.logger.Info("all is migrated; proxies are answered until this process is stopped", "address", m.host.asked.Address())
			<-ctx.Done()
		}
		return err
	})
	if err := g.Wait(); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// bring brings positions and counts to the new directories, and the counts to Kafka.
func (m *move) bring(ctx context.Context) (report migrate.Report, err error) {
	if !m.finished { // otherwise rules may have changed since
		if err := m.host.checkCounted(); err != nil {
			return report, err
		}
		if err := prepareData(m.to); err != nil {
			return report, command.Usagef("--to: %w", err)
		}
		lock, err := store.Lock(m.to)
		if err != nil {
			return report, fmt.Errorf("--to: %w; want a new directory", err)
		}
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	notes := m.notes()
	for _, n := range notes {
		if err := n.checkCluster(ctx); err != nil {
			return report, err
		}
	}
	if err := m.makeTopics(ctx); err != nil {
		return report, err
	}
	if m.followed() && !m.finished {
		err := tail.CopyPositions(m.source(), m.positions)
		if errors.Is(err, tail.ErrOtherPositions) {
			err = command.Usagef("--positions: %w", err)
		}
		if err != nil {
			return report, err
		}
	}
	if report, err = m.migrate(ctx); err != nil {
		return report, err
	}
	for _, n := range notes {
		if err := n.checkTopic(ctx, false); err != nil {
			return report, err
		}
	}
	return report, nil
}

// notes returns the notes of the cluster, in each new directory.
func (m *move) notes() []noteChecker {
	notes := []noteChecker{{daemon: m.daemon, dir: m.to, what: "counts", flag: "to"}}
	if m.followed() {
		notes = append(notes, noteChecker{daemon: m.daemon, dir: m.positions, what: "positions", flag: "positions"})
	}
	return notes
}

// source is where serve has its positions in files.
func (m *move) source() string { return filepath.Join(m.serve.data, positionsDirName) }

// followed reports whether serve has followed files.
func (m *move) followed() bool {
	_, err := os.Stat(m.source())
	return err == nil
}

// makeTopics makes the topics that are missing.
func (m *move) makeTopics(ctx context.Context) error {
	m.daemon.kafka.Partitions = m.host.partitions
	got, _, err := m.prepareTopics(ctx)
	switch want := m.host.partitions; {
	case err != nil:
		return err
	case got != want:
		return command.Usagef("--brokers: got %d partitions of %s, and the counts in %s have %d: want topics of as many, or another --topic-prefix",
			got, m.daemon.kafka.Names.Requests, m.serve.data, want)
	}
	m.prepareControl(ctx)
	m.prepareEvents(ctx, got)
	return ctx.Err()
}

// migrate brings the counts to Kafka.
func (m *move) migrate(ctx context.Context) (migrate.Report, error) {
	progress, done := m.progress()
	defer done()
	report, err := migrate.Run(ctx, migrate.Config{
		Source: m.host.log, Target: m.client, Owner: m.host.owner(), Data: m.serve.data, Dir: m.to, Topics: m.daemon.kafka.Names, Logger: m.logger, Progress: progress,
	})
	switch {
	case errors.Is(err, migrate.ErrNotFresh):
		return report, command.Usagef("%w. Give another --topic-prefix, with another --to, or delete the topics", err)
	case errors.Is(err, migrate.ErrCountedOn):
		return report, command.Usagef("%w, and %s", err, m.positions)
	}
	return report, err
}
