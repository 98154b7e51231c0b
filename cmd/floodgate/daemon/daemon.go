package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/httpd"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/version"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaprom"
)

// daemon is the common part of analyze, ingest and notify, which run until they are stopped.
type daemon struct {
	logger *slog.Logger
	kafka  option.Kafka
	client *kafkaio.Client
	key    schemas.PartitionKey
	http   *httpd.Server
}

// newDaemon reads the files that the flags name; nothing connects or listens yet.
func newDaemon(p command.Process, log command.Log, kafka option.Kafka, key option.Key) (*daemon, error) {
	d := &daemon{logger: log.Logger(p), kafka: kafka}
	var err error
	if d.key, err = key.Load(); err != nil {
		return nil, err
	}
	return d, d.prepare()
}

// prepare makes the client of Kafka and the server, which shows the client's calls and these metrics.
func (d *daemon) prepare(metrics ...prometheus.Collector) (err error) {
	calls := kafkaprom.New()
	if d.client, err = d.kafka.ObservedClient(calls.Observe); err != nil {
		return err
	}
	metrics = append(metrics, version.Metric(), calls, kafkaprom.NewOutage(d.client.Outage))
	d.http = httpd.New(httpd.Config{Metrics: metrics})
	return nil
}

// report makes /metrics show what is counted, and /readyz say that Kafka is away and what the daemon waits for.
func (d *daemon) report(waits func(now time.Time) string, metrics ...prometheus.Collector) {
	d.http.Report(func(now time.Time) string { return d.unready(waits(now), now) }, metrics...)
}

// unready returns why the daemon is not ready: what it waits for and, before that, that no broker answers.
func (d *daemon) unready(waits string, now time.Time) string {
	o, away := d.client.Outage(now)
	switch {
	case !away:
		return waits
	case waits == "":
		return o.String()
	}
	return o.String() + "; " + waits
}

// close ends the connections to Kafka.
func (d *daemon) close() { d.client.Close() }

// listen serves HTTP in g until ctx ends, if there is an address.
func (d *daemon) listen(ctx context.Context, g *errgroup.Group, address string) error {
	if address == "" {
		return nil
	}
	if err := d.http.Listen("listen", address, d.logger); err != nil {
		return err
	}
	g.Go(func() error { return d.http.Run(ctx) })
	return nil
}

// prepareTopics creates the topics that are missing, except those of control and events. It logs what is wrong with topics that exist,
// and returns the number of partitions of requests, and whether that topic is new. While Kafka is away it tries again.
func (d *daemon) prepareTopics(ctx context.Context) (partitions int, first bool, err error) {
	names := d.kafka.Names
	names.Control, names.Events = "", ""
	specs := kafkaio.Specs(names, d.kafka.Partitions)
	for ; ; _ = kafkaio.Sleep(ctx, time.Second) {
		var created []string
		if err = d.client.CheckBrokers(ctx); err == nil {
			created, err = d.client.EnsureTopics(ctx, specs...)
		}
		if err == nil {
			if len(created) > 0 {
				d.logger.Info("created topics", "topics", created)
			}
			first = first || slices.Contains(created, names.Requests)
			partitions, err = d.client.Partitions(ctx, d.kafka.Names.Requests)
		}
		if err == nil {
			break
		}
		if !kafkaio.Temporary(err) || ctx.Err() != nil {
			return 0, false, fmt.Errorf("prepare topics: %w", err)
		}
		d.logger.Warn("cannot reach Kafka, trying again", "error", err)
	}
	d.warnOfTopics(ctx, specs...)
	return partitions, first, nil
}

// prepareControl creates the topic of control if it is missing, and logs what is wrong with it. Owners wait until it is there: the
// analyzer may have no right to create it.
func (d *daemon) prepareControl(ctx context.Context) {
	specs := kafkaio.Layout{Names: schemas.TopicNames{Control: d.kafka.Names.Control}, Partitions: 1}.Specs()
	control := specs[len(specs)-1]
	created, err := d.client.EnsureTopics(ctx, control)
	switch {
	case err != nil && ctx.Err() == nil:
		d.logger.Warn("cannot create the topic of control: owners wait for it", "topic", control.Name, "error", err)
		return
	case len(created) > 0:
		d.logger.Info("created topics", "topics", created)
	}
	d.warnOfTopics(ctx, control)
}

// prepareEvents is prepareControl for the topic of events: counting goes on without it.
func (d *daemon) prepareEvents(ctx context.Context, partitions int) {
	specs := kafkaio.Layout{Names: schemas.TopicNames{Events: d.kafka.Names.Events}, Partitions: partitions}.Specs()
	events := specs[len(specs)-1]
	created, err := d.client.EnsureTopics(ctx, events)
	switch {
	case err != nil && ctx.Err() == nil:
		d.logger.Warn("cannot create the topic of events: events are not written", "topic", events.Name, "error", err)
		return
	case len(created) > 0:
		d.logger.Info("created topics", "topics", created)
	}
	d.warnOfTopics(ctx, events)
	if n, err := d.client.Partitions(ctx, events.Name); err == nil && n < partitions {
		d.logger.Warn("the topic of events has too few partitions: events of the other partitions are not written", "topic", events.Name, "got", n, "want", partitions)
	}
}

// warnOfTopics logs what is wrong with topics, and has no other effect.
func (d *daemon) warnOfTopics(ctx context.Context, specs ...kafkaio.TopicSpec) {
	findings, err := d.client.CheckTopics(ctx, specs...)
	if err != nil {
		d.logger.Warn("cannot check topics", "error", err)
		return
	}
	for _, f := range findings {
		if f.Setting != "partitions" { // any number is right
			d.logger.Warn("topic has a wrong setting", "topic", f.Topic, "setting", f.Setting, "got", f.Got, "want", f.Want, "because", f.Why)
		}
	}
}
