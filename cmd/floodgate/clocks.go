package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// requestsTopic is what an analyzer must know of the topic of requests before it counts.
type requestsTopic struct {
	partitions int
	unbounded  bool // its brokers accept messages from the future, so the analyzer must judge their times
}

// unbounded reports whether the brokers take messages from the future. Without --trust-clocks that is an error. If the
// settings of the topic cannot be read for lack of rights, the setting counts as missing. While Kafka is away it tries
// again.
func (c *analyzeConfig) unbounded(ctx context.Context, d *daemon, partitions int) (bool, error) {
	spec := aheadSpec(c.kafka.names, partitions)
	for ; ; _ = kafkaio.Sleep(ctx, time.Second) {
		findings, err := d.client.CheckTopics(ctx, spec)
		if kafkaio.Temporary(err) && ctx.Err() == nil {
			d.logger.Warn("cannot read the settings of the topic of requests, trying again", "error", err)
			continue
		}
		got := ""
		switch {
		case err != nil:
			got = fmt.Sprintf("no answer (%v)", err)
		default:
			for _, f := range findings {
				if f.Setting == kafkaio.SettingAhead {
					got = f.Got
				}
			}
		}
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case got == "":
			return false, nil
		case !c.trust:
			return false, c.futureError(got)
		}
		d.logger.Warn("brokers take messages from the future: refusing those that are ahead of this machine's clock",
			"topic", spec.Name, "setting", kafkaio.SettingAhead, "got", got, "most", kafkaio.MaxAhead)
		return true, nil
	}
}

// futureError says which setting is missing, where, and how to add it.
func (c *analyzeConfig) futureError(got string) error {
	maxAhead := kafkaio.MaxAhead.Milliseconds()
	return usagef("topic %s on %s: %s: got %s, want at most %d: one message from the future would end the windows of all callers of its partition; "+
		"set it to %d (kafka-configs.sh --alter --add-config), or give --trust-clocks to all analyzers where the broker does not know it (before Kafka 3.6)",
		c.kafka.names.Requests, strings.Join(c.kafka.brokers, ","), kafkaio.SettingAhead, got, maxAhead, maxAhead)
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
