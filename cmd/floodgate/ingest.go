package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/ingest/feed"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/version"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// ingestConfig is the flags of ingest.
type ingestConfig struct {
	kafka   option.Kafka
	key     option.Key
	mapping option.Mapping
	topics  []string
	files   []string
	data    string
	group   string
	listen  string
	session time.Duration
	buffer  int64 // MiB
	once    bool
	log     command.Log
}

// Ingest feeds logs until it is stopped.
func Ingest(p command.Process) *cobra.Command {
	var c ingestConfig
	cmd := &cobra.Command{
		Use:   "ingest --brokers HOST:PORT... --topic TOPIC... | --file FILE... --data DIR [flags]",
		Short: "feed the logs of other servers, from Kafka or files, to the analyzer",
		Long: "Reads access logs of other servers from Kafka topics or files, and feeds them to the analyzer. Each line counts once, " +
			"also after a crash. Lines that cannot be read go to the topic of rejects (see floodgate rejects); the log shows the first " +
			"three of each reason.",
		Example: "floodgate ingest --brokers kafka:9092 --file /var/log/nginx/access.log --data /var/lib/floodgate-ingest",
		Args:    command.FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(); err != nil {
				return err
			}
			return c.run(cmd.Context(), p)
		},
	}
	c.kafka.Add(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&c.topics, "topic", nil, "foreign `topic` to read; can be given several times")
	flags.StringArrayVar(&c.files, "file", nil, "log `file` to follow through rotations; can be given several times")
	flags.StringVar(&c.data, "data", "", "`directory` for the positions in files")
	flags.BoolVar(&c.once, "once", false, "read the files to their end, and stop")
	c.key.Add(cmd)
	flags.StringVar(&c.listen, "listen", "127.0.0.1:9095", "`host:port` of /metrics, /healthz and /readyz; empty: none")
	flags.StringVar(&c.group, "group", "floodgate-ingest", "consumer group, to which a dot and the topic are appended; with another group, lines of a topic are read and counted again")
	flags.DurationVar(&c.session, "session-timeout", kafkaio.DefaultSessionTimeout, "how long a silent member of the group keeps its partitions")
	flags.Int64Var(&c.buffer, "buffer", feed.DefaultMaxBytes>>20, "MiB of frames that may wait for Kafka; when full, reading waits")
	c.mapping.Add(cmd)
	c.log.Add(cmd)
	return cmd
}

func (c *ingestConfig) check() error {
	switch {
	case len(c.topics) == 0 && len(c.files) == 0:
		return command.Usagef("--topic, --file: got neither, want something to read")
	case len(c.files) > 0 && c.data == "":
		return command.Usagef("--data: got none, want a directory for the positions in files")
	case c.once && len(c.topics) > 0:
		return command.Usagef("--once: got --topic too, want files only: a topic has no end")
	case c.buffer < 1 || c.buffer > 1<<20:
		return command.Usagef("--buffer: got %d, want 1 to %d MiB", c.buffer, 1<<20)
	case c.session < 2*time.Second:
		return command.Usagef("--session-timeout: got %v, want 2s or more", c.session)
	}
	if err := c.kafka.CheckForeign(c.topics); err != nil {
		return err
	}
	for i, f := range c.files {
		path, err := filepath.Abs(f)
		if err != nil {
			return command.Usagef("--file: %w", err)
		}
		if slices.Contains(c.files[:i], path) {
			return command.Usagef("--file: got %s twice", path)
		}
		c.files[i] = path
	}
	return c.kafka.Check()
}

func (c *ingestConfig) run(ctx context.Context, p command.Process) (err error) {
	defer c.log.Report(p, &err)
	format, err := c.mapping.Load()
	if err != nil {
		return err
	}
	d, err := newDaemon(p, c.log, c.kafka, c.key)
	if err != nil {
		return err
	}
	defer d.close()
	version.LogStart(d.logger, "ingest")
	g, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := d.listen(ctx, g, c.listen); err != nil {
		return err
	}
	g.Go(func() error {
		defer stop() // with --once, the other goroutines end too
		return (&intake{daemon: d, config: c, format: format}).run(ctx)
	})
	if err := g.Wait(); err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	d.logger.Info("stopped")
	return nil
}
