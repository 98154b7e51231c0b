package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/ingest/feed"
	"github.com/509da70d/floodgate/analyzer/ingest/ingestprom"
	"github.com/509da70d/floodgate/analyzer/ingest/receiver"
	"github.com/509da70d/floodgate/analyzer/ingest/tail"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/httpd"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/version"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// ingestConfig is the flags of ingest.
type ingestConfig struct {
	kafka    option.Kafka
	key      option.Key
	mapping  option.Mapping
	topics   []string
	files    []string
	data     string
	group    string
	listen   string
	grpc     string
	session  time.Duration
	buffer   int64 // MiB
	once     bool
	keepOpen time.Duration // 0: tail.DefaultKeepOpen
	fromEnd  bool          // what the files have at the first look does not count
	log      command.Log
}

// Ingest feeds logs until it is stopped.
func Ingest(p command.Process) *cobra.Command {
	var c ingestConfig
	cmd := &cobra.Command{
		Use:   "ingest --brokers HOST:PORT... --topic TOPIC... | --file FILE... --data DIR | --grpc-listen ADDRESS [flags]",
		Short: "feed the logs of other servers, from Kafka, files or gRPC, to the analyzer",
		Long: "Reads access logs of other servers from Kafka topics or files, and feeds them to the analyzer. Each line counts once, " +
			"also after a crash. With --grpc-listen it takes the entries that Envoy's access log service (ALS) sends, and the records of " +
			"OpenTelemetry (OTLP): what is on its way is lost, or in rare cases counts twice, if a process is killed. Lines that cannot be read go to the topic of rejects (see floodgate rejects); the log shows the first " +
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
	c.kafka.AddPartitions(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&c.topics, "topic", nil, "foreign `topic` to read; can be given several times")
	flags.StringArrayVar(&c.files, "file", nil, "log `file` to follow through rotations; can be given several times")
	flags.StringVar(&c.data, "data", "", "`directory` for the positions in files")
	flags.DurationVar(&c.keepOpen, "keep-open", tail.DefaultKeepOpen, "how long a renamed log is watched after its last line, if ingest cannot learn whether a server still writes to it")
	flags.BoolVar(&c.once, "once", false, "read the files to their end, and stop")
	c.key.Add(cmd)
	flags.StringVar(&c.listen, "listen", "127.0.0.1:9095", "`host:port` of /metrics, /healthz and /readyz; empty: none")
	flags.StringVar(&c.grpc, "grpc-listen", "", "`address` of Envoy's access log service and of OpenTelemetry's logs: host:port, or unix:PATH; who reaches it can invent requests; empty: none")
	flags.StringVar(&c.group, "group", "", "consumer group (default: --topic-prefix and -ingest), to which a dot and the topic are appended; with another group, lines of a topic are read and counted again")
	flags.DurationVar(&c.session, "session-timeout", kafkaio.DefaultSessionTimeout, "how long a silent member of the group keeps its partitions")
	flags.Int64Var(&c.buffer, "buffer", feed.DefaultMaxBytes>>20, "MiB of frames that may wait for Kafka; when full, reading waits")
	command.Hide(flags, "group", "session-timeout", "buffer")
	c.mapping.Add(cmd)
	c.log.Add(cmd)
	return cmd
}

func (c *ingestConfig) check() error {
	switch {
	case len(c.topics) == 0 && len(c.files) == 0 && c.grpc == "":
		return command.Usagef("--topic, --file, --grpc-listen: got none, want something to read")
	case len(c.files) > 0 && c.data == "":
		return command.Usagef("--data: got none, want a directory for the positions in files")
	case c.once && len(c.topics) > 0:
		return command.Usagef("--once: got --topic too, want files only: a topic has no end")
	case c.once && c.grpc != "":
		return command.Usagef("--once: got --grpc-listen too, want files only: what programs send has no end")
	case c.buffer < 1 || c.buffer > 1<<20:
		return command.Usagef("--buffer: got %d, want 1 to %d MiB", c.buffer, 1<<20)
	case c.keepOpen < time.Second || c.keepOpen > 24*time.Hour:
		return command.Usagef("--keep-open: got %v, want 1s to 24h", c.keepOpen)
	case c.session < 2*time.Second:
		return command.Usagef("--session-timeout: got %v, want 2s or more", c.session)
	}
	if err := c.kafka.Check(); err != nil {
		return err
	}
	var err error
	if c.files, err = differentFiles(c.files); err != nil {
		return err
	}
	return c.kafka.CheckForeign(c.topics)
}

// differentFiles returns absolute paths of files, or a usage error if two of them are one file.
func differentFiles(files []string) ([]string, error) {
	paths := make([]string, len(files))
	for i, f := range files {
		path, err := filepath.Abs(f)
		if err != nil {
			return nil, command.Usagef("--file: %w", err)
		}
		for _, other := range paths[:i] {
			if path == other {
				return nil, command.Usagef("--file: got %s twice", path)
			}
			if sameFile(path, other) {
				return nil, command.Usagef("--file: got %s and %s, which are one file: want one of them, or each line counts twice", other, path)
			}
		}
		paths[i] = path
	}
	return paths, nil
}

// sameFile reports whether two paths lead to one file now.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	other, failed := os.Stat(b)
	return err == nil && failed == nil && os.SameFile(one, other)
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
	in := &intake{daemon: d, config: c, format: format}
	if c.grpc != "" {
		if in.programs, err = httpd.Listen("grpc-listen", c.grpc); err != nil {
			return err
		}
		defer in.programs.Close() // if nobody has served it
		d.logger.Info("listening for Envoy and OpenTelemetry", "address", in.programs.Addr().String())
	}
	g.Go(func() error { c.mapping.IDs.Watch(ctx, d.logger); return nil })
	g.Go(func() error {
		defer stop() // with --once, the other goroutines end too
		return in.run(ctx)
	})
	if err := g.Wait(); err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	d.logger.Info("stopped")
	return nil
}

// saveEvery is how often the positions of files are saved.
const saveEvery = 250 * time.Millisecond

// intake is a running ingest: it reads topics and files, and feeds their lines to the analyzer.
type intake struct {
	*daemon

	config    *ingestConfig
	format    *ingest.Format
	feed      *feed.Feed
	positions *tail.Positions    // nil without files
	programs  net.Listener       // nil without --grpc-listen
	receiver  *receiver.Receiver // nil without --grpc-listen
	advised   sync.Once
	lostLogs  atomic.Uint64 // logs of which lines may be missing
	undecided atomic.Uint64 // logs that do not count, because they have no more than what another one begins with
}

// run waits for Kafka, then reads and sends until ctx ends.
func (in *intake) run(ctx context.Context) (err error) {
	if len(in.config.files) > 0 {
		if in.positions, err = tail.OpenPositions(in.config.data, nil); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, in.positions.Close()) }()
	}
	partitions, err := in.prepare(ctx)
	if ctx.Err() != nil {
		return nil // a stop during the wait is no failure
	}
	if err != nil {
		return err
	}
	format, behind := in.format.Reporting(in.found).Noting(in.advise)
	in.feed, err = feed.New(feed.Config{
		Producer: in.client, Requests: in.kafka.Names.Requests, Rejects: in.kafka.Names.Rejects, Partitions: partitions, Key: in.key,
		Format: format, Now: time.Now, Logger: in.logger, MaxBytes: in.config.buffer << 20,
	})
	if err != nil {
		return err
	}
	metrics := []prometheus.Collector{ingestprom.New(in.feed.Stats, in.lostLogs.Load, in.undecided.Load)}
	if in.programs != nil {
		in.receiver = receiver.New(in.feed, in.logger)
		metrics = append(metrics, ingestprom.NewReceiver(in.receiver.Stats))
	}
	in.report(func(time.Time) string { return in.feed.Waits() }, metrics...)
	began := time.Now()
	err = in.feed.Run(ctx, in.read)
	in.advise(behind.Advice())
	stats := in.feed.Stats()
	took := time.Since(began)
	in.logger.Info("read", "lines", stats.Lines, "entries", stats.Entries, "frames", stats.Frames, "rejected", stats.Rejected,
		"dropped", stats.Dropped, "seconds", took.Seconds(), "lines_per_second", int64(float64(stats.Lines)/took.Seconds()))
	if err == nil && in.config.once && stats.Lines > 0 && stats.Entries == 0 && stats.Dropped == 0 {
		return fmt.Errorf("all %d lines were rejected: format %s reads none of them; see floodgate rejects", stats.Lines, in.format.Name())
	}
	return err
}

// prepare makes the topics that are missing, and returns how many partitions of requests there are. Positions of another cluster are
// refused.
func (in *intake) prepare(ctx context.Context) (partitions int, err error) {
	if in.positions == nil {
		return in.prepareAll(ctx)
	}
	note := noteChecker{daemon: in.daemon, dir: in.config.data, what: "positions"}
	if err := note.checkCluster(ctx); err != nil {
		return 0, err
	}
	if partitions, err = in.prepareAll(ctx); err != nil {
		return 0, err
	}
	return partitions, note.checkTopic(ctx, false)
}

// prepareAll is prepareTopics, and in a new installation it also creates the topics that only analyzers use.
func (in *intake) prepareAll(ctx context.Context) (partitions int, err error) {
	partitions, first, err := in.prepareTopics(ctx)
	if err == nil && first {
		in.prepareControl(ctx)
		in.prepareEvents(ctx, partitions)
	}
	return partitions, err
}

// found logs what auto finds out about a log.
func (in *intake) found(f ingest.Finding) {
	if f.Format == "" {
		in.logger.Warn("auto found no format for a log", "lines", f.Refused, "advice", f.String())
		return
	}
	in.logger.Info("auto found the format of a log", "format", f.Format, "unwrap", f.Unwrap, "line", f.Line)
}

// advise warns once if proxies seem to be counted in place of the clients behind them.
func (in *intake) advise(advice []string) {
	if len(advice) == 0 {
		return
	}
	in.advised.Do(func() {
		for _, text := range advice {
			in.logger.Warn("clients may be behind proxies", "advice", text)
		}
	})
}

// read reads all topics and files until ctx ends, or with --once until the files' ends.
func (in *intake) read(ctx context.Context) error {
	reading, ctx := errgroup.WithContext(ctx)
	for _, name := range in.config.topics {
		in.warnOfTopics(ctx, kafkaio.ForeignSpec(name))
		t := in.topic(name)
		reading.Go(func() error { return t.Run(ctx) })
	}
	for _, path := range in.config.files {
		follower := &tail.Follower{
			Path: path, Positions: in.positions, Now: time.Now, Logger: in.logger, Once: in.config.once, FromEnd: in.config.fromEnd, KeepOpen: in.config.keepOpen,
			Open: func(id schemas.ProducerID, name string, at int64) tail.Sink { return in.feed.Source(id, name, at) },
			Lost: func(int64) { in.lostLogs.Add(1) }, Undecided: func() { in.undecided.Add(1) },
		}
		reading.Go(func() error { return follower.Run(ctx) })
	}
	if in.receiver != nil {
		reading.Go(func() error { return in.receiver.Run(ctx, in.programs) })
	}
	saving, stop := context.WithCancel(ctx)
	defer stop()
	var saver errgroup.Group
	if in.positions != nil {
		saver.Go(func() error { in.savePositions(saving); return nil })
	}
	err := reading.Wait()
	stop()
	return errors.Join(err, saver.Wait())
}

// topic returns a reader of a foreign topic, in a group of its own.
func (in *intake) topic(name string) *feed.Topic {
	group := cmp.Or(in.config.group, in.kafka.Prefix+"-ingest") + "." + name
	config := kafkaio.GroupConfig{
		Client: in.client, Group: group, Topic: name, SessionTimeout: in.config.session, GrowthCheck: kafkaio.DefaultGrowthCheck,
	}
	return &feed.Topic{
		Feed: in.feed, Fetcher: in.client, Name: name, Group: group,
		Join:  func() (feed.Membership, error) { return kafkaio.NewGroup(config) },
		Count: func(ctx context.Context) (int, error) { return in.client.Partitions(ctx, name) },
	}
}

// savePositions saves the positions every quarter of a second until ctx ends. On a full disk reading goes on: lines that
// were sent since the last save are sent again after a crash, and still count once.
func (in *intake) savePositions(ctx context.Context) {
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for failed := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			err := in.positions.Save()
			switch {
			case err != nil && !failed: // log it once
				in.logger.Error("cannot save positions, trying again", "error", err)
			case err == nil && failed:
				in.logger.Info("positions are saved again")
			}
			failed = err != nil
		}
	}
}
