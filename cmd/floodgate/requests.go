package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

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
