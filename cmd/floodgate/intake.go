package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/ingest/feed"
	"github.com/509da70d/floodgate/analyzer/ingest/ingestprom"
	"github.com/509da70d/floodgate/analyzer/ingest/tail"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// saveEvery is how often the positions of files are saved.
const saveEvery = 250 * time.Millisecond

// intake is a running ingest: it reads topics and files, and feeds their lines to the analyzer.
type intake struct {
	*daemon

	config    *ingestConfig
	format    *ingest.Format
	feed      *feed.Feed
	positions *tail.Positions // nil without files
	lostLogs  atomic.Uint64   // files that were deleted before they were read to their end
}

// run waits for Kafka, then reads and sends until ctx ends.
func (in *intake) run(ctx context.Context) (err error) {
	if len(in.config.files) > 0 {
		if in.positions, err = tail.OpenPositions(in.config.data); err != nil {
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
	in.feed, err = feed.New(feed.Config{
		Producer: in.client, Requests: in.kafka.Names.Requests, Rejects: in.kafka.Names.Rejects, Partitions: partitions, Key: in.key,
		Format: in.format.Reporting(in.found), Now: time.Now, Logger: in.logger, MaxBytes: in.config.buffer << 20,
	})
	if err != nil {
		return err
	}
	in.http.Report(func(time.Time) string { return in.feed.Waits() }, ingestprom.New(in.feed.Stats, in.lostLogs.Load))
	began := time.Now()
	err = in.feed.Run(ctx, in.read)
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
		return in.prepareTopics(ctx)
	}
	note := noted{daemon: in.daemon, dir: in.config.data, what: "positions"}
	if err := note.checkCluster(ctx); err != nil {
		return 0, err
	}
	if partitions, err = in.prepareTopics(ctx); err != nil {
		return 0, err
	}
	return partitions, note.checkTopic(ctx, false)
}

// found logs what auto finds out about a log.
func (in *intake) found(f ingest.Finding) {
	if f.Format == "" {
		in.logger.Warn("auto found no format for a log", "lines", f.Refused, "advice", f.String())
		return
	}
	in.logger.Info("auto found the format of a log", "format", f.Format, "unwrap", f.Unwrap, "line", f.Line)
}

// read reads all topics and files until ctx ends, or with --once until the files' ends.
func (in *intake) read(ctx context.Context) error {
	reading, ctx := errgroup.WithContext(ctx)
	for _, name := range in.config.topics {
		in.warnOfTopics(ctx, kafkaio.ForeignSpec(name))
		t := in.topic(name)
		reading.Go(func() error { return t.Run(ctx) })
	}
	host, err := os.Hostname()
	if err != nil && len(in.config.files) > 0 {
		return fmt.Errorf("name this machine: %w", err)
	}
	for _, path := range in.config.files {
		follower := &tail.Follower{
			Path: path, Host: host, Positions: in.positions, Now: time.Now, Logger: in.logger, Once: in.config.once,
			Open: func(id schemas.ProducerID, name string, at int64) tail.Sink { return in.feed.Source(id, name, at) },
			Lost: func(int64) { in.lostLogs.Add(1) },
		}
		reading.Go(func() error { return follower.Run(ctx) })
	}
	saving, stop := context.WithCancel(ctx)
	defer stop()
	var saver errgroup.Group
	if in.positions != nil {
		saver.Go(func() error { in.savePositions(saving); return nil })
	}
	err = reading.Wait()
	stop()
	return errors.Join(err, saver.Wait())
}

// topic returns a reader of a foreign topic, in a group of its own.
func (in *intake) topic(name string) *feed.Topic {
	group := in.config.group + "." + name
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
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := in.positions.Save(); err != nil {
				in.logger.Error("cannot save positions, trying again", "error", err)
			}
		}
	}
}
