package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/ingest/feed"
	"github.com/509da70d/floodgate/store/kafkaio"
)

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
	log     logFlags
}

func parseIngest(p process, args []string) (ingestConfig, error) {
	var c ingestConfig
	flags := newFlags("ingest --brokers HOST:PORT... --topic TOPIC... | --file FILE... --data DIR [flags]\n\n" +
		"Reads access logs of other servers from Kafka topics or files, and feeds them to the analyzer. Each line counts once,\n" +
		"also after a crash. Lines that cannot be read go to the topic of rejects (see floodgate rejects); the log shows the first\n" +
		"three of each reason.")
	c.kafka.add(flags)
	c.key.add(flags)
	c.mapping.add(flags)
	flags.StringArrayVar(&c.topics, "topic", nil, "foreign `topic` to read; can be given several times")
	flags.StringArrayVar(&c.files, "file", nil, "log `file` to follow through rotations; can be given several times")
	flags.StringVar(&c.data, "data", "", "`directory` for the positions in files")
	flags.StringVar(&c.group, "group", "floodgate-ingest", "consumer group, to which a dot and the topic are appended; with another group, lines of a topic are read and counted again")
	flags.StringVar(&c.listen, "listen", "127.0.0.1:9095", "`host:port` of /metrics, /healthz and /readyz; empty: none")
	flags.DurationVar(&c.session, "session-timeout", kafkaio.DefaultSessionTimeout, "how long a silent member of the group keeps its partitions")
	flags.Int64Var(&c.buffer, "buffer", feed.DefaultMaxBytes>>20, "MiB of frames that may wait for Kafka; when full, reading waits")
	flags.BoolVar(&c.once, "once", false, "read the files to their end, and stop")
	c.log.add(flags)
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
		return usagef("--once: got --topic too, want files only: a topic has no end")
	case c.buffer < 1 || c.buffer > 1<<20:
		return usagef("--buffer: got %d, want 1 to %d MiB", c.buffer, 1<<20)
	case c.session < 2*time.Second:
		return usagef("--session-timeout: got %v, want 2s or more", c.session)
	}
	if err := c.kafka.checkForeign(c.topics); err != nil {
		return err
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

// runIngest feeds logs until it is stopped.
func runIngest(ctx context.Context, p process, args []string) (err error) {
	c, err := parseIngest(p, args)
	if err != nil {
		return err
	}
	defer c.log.report(p, &err)
	format, err := c.mapping.load()
	if err != nil {
		return err
	}
	d, err := newDaemon(p, c.log, c.kafka, c.key)
	if err != nil {
		return err
	}
	defer d.close()
	logStart(d.logger, "ingest")
	g, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := d.listen(ctx, g, c.listen); err != nil {
		return err
	}
	g.Go(func() error {
		defer stop() // with --once, the other goroutines end too
		return (&intake{daemon: d, config: &c, format: format}).run(ctx)
	})
	if err := g.Wait(); err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	d.logger.Info("stopped")
	return nil
}
