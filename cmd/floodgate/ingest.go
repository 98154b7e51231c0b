package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/ingest/feed"
	"github.com/509da70d/floodgate/analyzer/ingest/tail"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// saveEvery is how often the positions of files are saved.
const saveEvery = 250 * time.Millisecond

// ingestConfig is the flags of ingest.
type ingestConfig struct {
	kafka   kafkaFlags
	key     keyFlag
	mapping mappingFlags
	topics  []string
	files   []string
	data    string
	group   string
	listen  string
	session time.Duration
	buffer  int64 // MiB
	once    bool
}

func parseIngest(p process, args []string) (ingestConfig, error) {
	var c ingestConfig
	flags := newFlags("ingest --brokers HOST:PORT... --topic TOPIC... | --file FILE... --data DIR [flags]\n\n" +
		"Reads access logs of other servers from Kafka topics or files, and feeds them to the analyzer. Each line counts once,\n" +
		"whatever crashes in between. What can't be read goes to the topic of rejects: see floodgate rejects.")
	c.kafka.add(flags)
	c.key.add(flags)
	c.mapping.add(flags)
	flags.StringArrayVar(&c.topics, "topic", nil, "foreign `topic` to read; can be given several times")
	flags.StringArrayVar(&c.files, "file", nil, "log `file` to follow through rotations; can be given several times")
	flags.StringVar(&c.data, "data", "", "`directory` for the positions in files")
	flags.StringVar(&c.group, "group", "floodgate-ingest", "consumer group, behind which a dot and the topic go; it is part of what a line counts once by")
	flags.StringVar(&c.listen, "listen", "127.0.0.1:9095", "`host:port` of /metrics, /healthz and /readyz; empty: none")
	flags.DurationVar(&c.session, "session-timeout", kafkaio.DefaultSessionTimeout, "how long a silent member of the group keeps its partitions")
	flags.Int64Var(&c.buffer, "buffer", feed.DefaultMaxBytes>>20, "MiB of frames that may wait for Kafka; when full, reading waits")
	flags.BoolVar(&c.once, "once", false, "read the files to their end, and stop")
	if err := parseFlags(p, flags, args); err != nil {
		return c, err
	}
	if err := flagsOnly(flags); err != nil {
		return c, err
	}
	return c, c.check()
}

func (c *ingestConfig) check() error {
	switch {
	case len(c.topics) == 0 && len(c.files) == 0:
		return usagef("--topic, --file: got neither, want something to read")
	case len(c.files) > 0 && c.data == "":
		return usagef("--data: got none, want a directory for the positions in files")
	case c.once && len(c.topics) > 0:
		return usagef("--once: got --topic too; a topic has no end")
	case c.buffer < 1 || c.buffer > 1<<20:
		return usagef("--buffer: got %d, want 1 to %d MiB", c.buffer, 1<<20)
	case c.session < 2*time.Second:
		return usagef("--session-timeout: got %v, want 2s or more", c.session)
	}
	for i, t := range c.topics {
		n := c.kafka.names
		if slices.Contains([]string{n.Requests, n.Decisions, n.State, n.Rejects, n.Control}, t) {
			return usagef("--topic: got %s, which is floodgate's own", t)
		}
		if slices.Contains(c.topics[:i], t) {
			return usagef("--topic: got %s twice", t)
		}
	}
	for i, f := range c.files {
		path, err := filepath.Abs(f)
		if err != nil {
			return usagef("--file: %w", err)
		}
		if slices.Contains(c.files[:i], path) {
			return usagef("--file: got %s twice", path)
		}
		c.files[i] = path
	}
	return c.kafka.check()
}

// mappingFlags say how a log is written, for all subcommands that read logs.
type mappingFlags struct {
	format string
	path   string
}

func (m *mappingFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&m.format, "format", "", "how the log is written: "+strings.Join(ingest.Formats(), ", ")+" (default: the mapping's, or auto)")
	flags.StringVar(&m.path, "mapping", "", "mapping `file`: who the callers are, and where the other fields stand")
}

// load returns the format with its mapping.
func (m *mappingFlags) load() (*ingest.Format, error) {
	if m.path != "" {
		if m.format != "" && !slices.Contains(ingest.Formats(), m.format) {
			return nil, usagef("--format: got %q, want one of %s", m.format, strings.Join(ingest.Formats(), ", "))
		}
		return ingest.LoadMapping(m.path, m.format)
	}
	f, err := ingest.NewFormat(cmp.Or(m.format, ingest.FormatAuto), ingest.Mapping{})
	if err != nil {
		return nil, usageError{err}
	}
	return f, nil
}

// runIngest feeds logs until it is stopped.
func runIngest(ctx context.Context, p process, args []string) error {
	c, err := parseIngest(p, args)
	if err != nil {
		return err
	}
	format, err := c.mapping.load()
	if err != nil {
		return err
	}
	key, err := c.key.key()
	if err != nil {
		return err
	}
	logger := p.logger()
	client, err := c.kafka.client()
	if err != nil {
		return err
	}
	defer client.Close()
	g, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	server := newServer()
	if c.listen != "" {
		if err := server.open(c.listen, logger); err != nil {
			stop()
			return err
		}
		g.Go(func() error { return server.run(ctx) })
	}
	g.Go(func() error {
		defer stop() // with --once the rest ends too
		return c.feed(ctx, logger, client, format, key, server)
	})
	if err := g.Wait(); err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	logger.Info("stopped")
	return nil
}

// feed waits for Kafka, then reads and sends until ctx ends.
func (c *ingestConfig) feed(ctx context.Context, logger *slog.Logger, client *kafkaio.Client, format *ingest.Format, key schemas.PartitionKey, s *server) (err error) {
	var positions *tail.Positions
	if len(c.files) > 0 {
		if positions, err = tail.OpenPositions(c.data); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, positions.Close()) }()
	}
	partitions, err := prepareTopics(ctx, logger, client, c.kafka)
	if ctx.Err() != nil {
		return nil // whoever is stopped while waiting has not failed
	}
	if err != nil {
		return err
	}
	f, err := feed.New(feed.Config{
		Producer: client, Requests: c.kafka.names.Requests, Rejects: c.kafka.names.Rejects, Partitions: partitions, Key: key,
		Format: format, Now: time.Now, Logger: logger, MaxBytes: c.buffer << 20,
	})
	if err != nil {
		return err
	}
	m := &ingestCollector{feed: f}
	s.serve(m, func(time.Time) string { return "" })
	began := time.Now()
	err = f.Run(ctx, func(ctx context.Context) error { return c.read(ctx, logger, client, f, positions, m) })
	stats := f.Stats()
	took := time.Since(began)
	logger.Info("read", "lines", stats.Lines, "entries", stats.Entries, "frames", stats.Frames, "rejected", stats.Rejected,
		"dropped", stats.Dropped, "seconds", took.Seconds(), "lines_per_second", int64(float64(stats.Lines)/took.Seconds()))
	return err
}

// read reads all topics and files until ctx ends, or with --once until the files' ends.
func (c *ingestConfig) read(ctx context.Context, logger *slog.Logger, client *kafkaio.Client, f *feed.Feed, positions *tail.Positions, m *ingestCollector) error {
	reading, ctx := errgroup.WithContext(ctx)
	for _, name := range c.topics {
		group := c.group + "." + name
		t := &feed.Topic{
			Feed: f, Fetcher: client, Name: name, Group: group,
			Join: func() (feed.Membership, error) {
				return kafkaio.NewGroup(kafkaio.GroupConfig{Client: client, Group: group, Topic: name, SessionTimeout: c.session})
			},
		}
		reading.Go(func() error { return t.Run(ctx) })
	}
	host, err := os.Hostname()
	if err != nil && len(c.files) > 0 {
		return fmt.Errorf("name this machine: %w", err)
	}
	for _, path := range c.files {
		follower := &tail.Follower{
			Path: path, Host: host, Positions: positions, Now: time.Now, Logger: logger, Once: c.once,
			Open: func(id schemas.ProducerID, name string, at int64) tail.Sink { return f.Source(id, name, at) },
			Lost: func(int64) { m.lostLogs.Add(1) },
		}
		reading.Go(func() error { return follower.Run(ctx) })
	}
	saving, stop := context.WithCancel(ctx)
	defer stop()
	var saver errgroup.Group
	if positions != nil {
		saver.Go(func() error { savePositions(saving, logger, positions); return nil })
	}
	err = reading.Wait()
	stop()
	return errors.Join(err, saver.Wait())
}

// savePositions saves the positions every quarter of a second until ctx ends. A disk that is full stops nobody: what was sent since
// the last time is sent again after a crash, and counts once.
func savePositions(ctx context.Context, logger *slog.Logger, positions *tail.Positions) {
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := positions.Save(); err != nil {
				logger.Error("cannot save positions, trying again", "error", err)
			}
		}
	}
}
