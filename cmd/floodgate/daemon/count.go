package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/analyzerprom"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/apid"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// partitionsPoll is how often an analyzer asks how many partitions there are.
const partitionsPoll = 5 * time.Second

// errPartitions says that the topic of requests has another number of partitions than before, or was deleted.
var errPartitions = errors.New("number of partitions has changed")

// count waits for Kafka, then runs an analyzer and follows the rules file until ctx ends. When the topic of requests is
// created again or gets more partitions, count stops the analyzer and starts another: the old one would refuse what servers
// send to the new partitions.
func (c *analyzeConfig) count(ctx context.Context, d *daemon, set *rules.Set) error {
	note := noted{daemon: d, dir: c.data, what: "counts"}
	for again := false; ; again = true {
		partitions, err := c.prepare(ctx, d, note, again)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // a stop during the wait is no failure
		}
		if err != nil {
			return err
		}
		if err := c.countOn(ctx, d, set, partitions); !errors.Is(err, errPartitions) {
			return err
		}
		d.logger.Warn("the topic of requests has changed, starting a new analyzer", "topic", c.kafka.Names.Requests, "partitions", partitions)
		if newest, err := c.ids.Rules(c.rules); err == nil {
			set = newest // a bad file changes nothing here either
		}
	}
}

// prepare waits for Kafka, makes the topics that are missing, and returns how many partitions there are. Again is whether an
// analyzer of this process has run before.
func (c *analyzeConfig) prepare(ctx context.Context, d *daemon, note noted, again bool) (partitions int, err error) {
	if !again {
		err = note.checkCluster(ctx)
	}
	if err == nil {
		partitions, err = d.prepareTopics(ctx)
	}
	if err == nil {
		d.prepareControl(ctx)
		d.prepareEvents(ctx, partitions)
	}
	if err == nil {
		err = note.checkTopic(ctx, again)
	}
	if err == nil {
		err = c.checkTimes(ctx, d, partitions)
	}
	return partitions, err
}

// countOn runs an analyzer until the number of partitions changes.
func (c *analyzeConfig) countOn(ctx context.Context, d *daemon, set *rules.Set, partitions int) error {
	a := c.analyzer(d, set, partitions)
	heard, metrics := c.api.board(partitions)
	notes := apid.NewNotes(d.client, c.kafka.Names.Control, command.Name(), c.rules, d.logger)
	notes.Taken(set)
	d.http.Report(func(now time.Time) string {
		if !a.Ready(now) {
			return "see floodgate_partition_state"
		}
		return ""
	}, append(metrics, analyzerprom.New(a.Stats), analyzerprom.NewRules(a.RulesStatus), analyzerprom.NewDisk(c.data))...)
	c.status.show(a)
	g, ctx := errgroup.WithContext(ctx)
	if err := c.api.answer(ctx, g, d, a, partitions, heard, notes); err != nil {
		return err
	}
	g.Go(func() error { return a.Run(ctx) })
	g.Go(func() error { return notes.Run(ctx) })
	take := func(next *rules.Set) {
		a.SetRules(next)
		notes.Taken(next)
	}
	g.Go(func() error { return c.followRules(ctx, d, set, take, a.RefuseRules) })
	g.Go(func() error { return watchRequests(ctx, d.client, c.kafka.Names.Requests, c.data, partitions) })
	return g.Wait()
}

// watchRequests returns errPartitions once the topic has another number of partitions than it had or another identity than the note in
// dir says, twice in a row: a broker that has just started may not know of a topic yet. It returns nil when ctx ends.
func watchRequests(ctx context.Context, client *kafkaio.Client, topic, dir string, partitions int) error {
	note, _, err := readClusterNote(dir)
	if err != nil {
		return err
	}
	for different := 0; different < 2; {
		_ = kafkaio.Sleep(ctx, partitionsPoll)
		n, err := client.Partitions(ctx, topic)
		var id kafkaio.Identity
		if err == nil {
			id, err = client.Identity(ctx, topic)
		}
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // a stop is no failure
		case errors.Is(err, kafkaio.ErrNoTopic), err == nil && (n != partitions || id.Topics[topic] != note.TopicID):
			different++
		case err == nil:
			different = 0
		}
	}
	return errPartitions
}

// logWarnings logs the warnings about the rules of a daemon.
func logWarnings(logger *slog.Logger, set *rules.Set) {
	for _, w := range set.Warnings {
		logger.Warn("rules", "warning", w.Error())
	}
}

// checkTimes returns an error unless the brokers bound the times of requests. If the settings of the topic cannot be read for
// lack of rights, the setting counts as missing. While Kafka is away it tries again.
func (c *analyzeConfig) checkTimes(ctx context.Context, d *daemon, partitions int) error {
	spec := aheadSpec(c.kafka.Names, partitions)
	for ; ; _ = kafkaio.Sleep(ctx, time.Second) {
		findings, err := d.client.CheckTopics(ctx, spec)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if kafkaio.Temporary(err) {
			d.logger.Warn("cannot read the settings of the topic of requests, trying again", "error", err)
			continue
		}
		if err != nil {
			return c.timesError(fmt.Sprintf("no answer (%v)", err))
		}
		for _, f := range findings {
			if f.Setting == kafkaio.SettingAhead {
				return c.timesError(f.Got)
			}
		}
		return nil
	}
}

// timesError says which setting is missing, where, and how to add it.
func (c *analyzeConfig) timesError(got string) error {
	maxAhead := kafkaio.MaxAhead.Milliseconds()
	return command.Usagef("topic %s on %s: %s: got %s, want at most %d: one message from the future would end the windows of all callers of its partition; "+
		"set it to %d (kafka-configs.sh --alter --add-config)",
		c.kafka.Names.Requests, strings.Join(c.kafka.Brokers, ","), kafkaio.SettingAhead, got, maxAhead, maxAhead)
}

// aheadSpec is the topic of requests with the one setting that bounds its messages' times.
func aheadSpec(names schemas.TopicNames, partitions int) kafkaio.TopicSpec {
	all := kafkaio.Specs(names, partitions)[0]
	spec := kafkaio.TopicSpec{Name: all.Name, Partitions: partitions}
	for _, s := range all.Settings {
		if s.Name == kafkaio.SettingAhead {
			spec.Settings = append(spec.Settings, s)
		}
	}
	return spec
}
