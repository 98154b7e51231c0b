package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// partitionsPoll is how often an analyzer asks how many partitions there are.
const partitionsPoll = 5 * time.Second

// errPartitions says that the topic of requests has another number of partitions than before, or is gone.
var errPartitions = errors.New("number of partitions has changed")

// count waits for Kafka, then runs an analyzer and follows the rules file until ctx ends. When the topic of requests is
// made anew, or is given more partitions, an analyzer of the old ones would refuse what servers send to the new: it is
// stopped, and another one begins.
func (c *analyzeConfig) count(ctx context.Context, logger *slog.Logger, client *kafkaio.Client, set *rules.Set, key schemas.PartitionKey, s *server) error {
	for {
		partitions, err := prepareTopics(ctx, logger, client, c.kafka)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // whoever is stopped while waiting has not failed
		}
		if err != nil {
			return err
		}
		if err := c.countOn(ctx, logger, client, set, key, s, partitions); !errors.Is(err, errPartitions) {
			return err
		}
		logger.Warn("topic of requests is not what it was, starting anew", "topic", c.kafka.names.Requests, "partitions", partitions)
		if newest, err := rules.Load(c.rules); err == nil {
			set = newest // a bad file changes nothing here either
		}
	}
}

// countOn runs an analyzer for as long as there are so many partitions.
func (c *analyzeConfig) countOn(ctx context.Context, logger *slog.Logger, client *kafkaio.Client, set *rules.Set, key schemas.PartitionKey, s *server, partitions int) error {
	a := c.analyzer(logger, client, set, key, partitions)
	s.watch(a)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.Run(ctx) })
	g.Go(func() error { return followRules(ctx, logger, c.rules, set, a) })
	g.Go(func() error { return watchPartitions(ctx, client, c.kafka.names.Requests, partitions) })
	return g.Wait()
}

// watchPartitions returns errPartitions once the topic has another number of partitions, twice in a row: a broker that
// has just started may not know of a topic yet. It returns nil when ctx ends.
func watchPartitions(ctx context.Context, client *kafkaio.Client, topic string, partitions int) error {
	for different := 0; different < 2; {
		wait(ctx, partitionsPoll)
		n, err := client.Partitions(ctx, topic)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // whoever is stopped has not failed
		case errors.Is(err, kafkaio.ErrNoTopic), err == nil && n != partitions:
			different++
		case err == nil:
			different = 0
		}
	}
	return errPartitions
}
