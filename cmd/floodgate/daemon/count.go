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
	"github.com/509da70d/floodgate/cmd/floodgate/command"
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
	note := noteChecker{daemon: d, dir: c.data, what: "counts"}
	for again := false; ; again = true {
		t, err := c.prepare(ctx, d, note, again)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // a stop during the wait is no failure
		}
		if err != nil {
			return err
		}
		if err := c.countOn(ctx, d, set, t); !errors.Is(err, errPartitions) {
			return err
		}
		d.logger.Warn("the topic of requests has changed, starting a new analyzer", "topic", c.kafka.Names.Requests, "partitions", t.partitions)
		if newest, err := c.ids.Rules(c.rules); err == nil {
			set = newest // a bad file changes nothing here either
		}
	}
}

// prepare waits for Kafka, makes the topics that are missing, and returns what there is to know of the topic of requests. Again
// is whether an analyzer of this process has run before.
func (c *analyzeConfig) prepare(ctx context.Context, d *daemon, note noteChecker, again bool) (t requestsTopic, err error) {
	if !again {
		err = note.checkCluster(ctx)
	}
	if err == nil {
		t.partitions, _, err = d.prepareTopics(ctx)
	}
	if err == nil {
		d.prepareControl(ctx)
		d.prepareEvents(ctx, t.partitions)
	}
	if err == nil {
		err = note.checkTopic(ctx, again)
	}
	if err == nil {
		t.appendTime, err = c.appendTime(ctx, d)
	}
	return t, err
}

// countOn runs an analyzer until the number of partitions changes.
func (c *analyzeConfig) countOn(ctx context.Context, d *daemon, set *rules.Set, t requestsTopic) error {
	a := c.analyzer(d, set, t)
	heard, metrics := c.api.board(t.partitions)
	d.report(func(now time.Time) string {
		if !a.Ready(now) {
			return "see floodgate_partition_state"
		}
		return ""
	}, append(metrics, analyzerprom.New(a.Stats), analyzerprom.NewRules(a.RulesStatus), analyzerprom.NewDisk(c.data))...)
	c.status.show(a)
	g, ctx := errgroup.WithContext(ctx)
	if err := c.api.answer(ctx, g, d, a, t.partitions, heard); err != nil {
		return err
	}
	g.Go(func() error { return a.Run(ctx) })
	g.Go(func() error { return followRules(ctx, d.logger, &c.ids, c.rules, set, a.SetRules, a.RefuseRules) })
	g.Go(func() error { return watchRequests(ctx, d.client, c.kafka.Names.Requests, c.data, t.partitions) })
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

// requestsTopic is what an analyzer must know of the topic of requests before it counts.
type requestsTopic struct {
	partitions int
	appendTime bool // its messages bear the brokers' time
}

// appendTime reports whether the messages of the topic of requests bear the brokers' time. If they bear the servers', and the
// brokers do not bound it, that is an error. So it is if the settings cannot be read for lack of rights. While Kafka is away it
// tries again.
func (c *analyzeConfig) appendTime(ctx context.Context, d *daemon) (is bool, err error) {
	spec := kafkaio.TopicSpec{Name: c.kafka.Names.Requests, Settings: kafkaio.RequestTimes()}
	for ; ; _ = kafkaio.Sleep(ctx, time.Second) {
		findings, err := d.client.CheckTopics(ctx, spec)
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case kafkaio.Temporary(err):
			d.logger.Warn("cannot read the settings of the topic of requests, trying again", "error", err)
			continue
		case err != nil:
			return false, c.timesError(fmt.Sprintf("no answer (%v)", err))
		}
		for _, f := range findings {
			switch f.Setting {
			case kafkaio.SettingAhead:
				return false, c.timesError(f.Got)
			case kafkaio.SettingTimes:
				is = f.Got == kafkaio.AppendTime
			}
		}
		if is {
			d.logger.Warn("the messages of requests bear the brokers' time: rules are predicted by early closes only, not by shares",
				"topic", spec.Name, "setting", kafkaio.SettingTimes, "got", kafkaio.AppendTime)
		}
		return is, nil
	}
}

// timesError says which setting is missing, where, and how to add it.
func (c *analyzeConfig) timesError(got string) error {
	topic, brokers := c.kafka.Names.Requests, strings.Join(c.kafka.Brokers, ",")
	return command.Usagef("topic %s on %s: %s: got %s, want at most %d: one message from the future would end the windows of all callers of its partition; "+
		"run: kafka-configs.sh --bootstrap-server %s --alter --topic %s --add-config %s=%d (before Kafka 3.6: %s=%s)",
		topic, brokers, kafkaio.SettingAhead, got, kafkaio.MaxAhead.Milliseconds(),
		brokers, topic, kafkaio.SettingAhead, kafkaio.MaxAhead.Milliseconds(), kafkaio.SettingTimes, kafkaio.AppendTime)
}
