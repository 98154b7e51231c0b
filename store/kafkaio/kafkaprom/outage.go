package kafkaprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/schemas/metric"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// NewOutage returns a collector that says whether brokers answer, to be registered. outage is the method Outage of a kafkaio.Client.
func NewOutage(outage func(now time.Time) (kafkaio.Outage, bool)) prometheus.Collector {
	reachable := metric.Desc("kafka_reachable", "0 while no broker has answered any call for three seconds or more, else 1.")
	since := metric.Desc("kafka_unreachable_since_seconds", "Unix time since which no broker answers; 0 while brokers answer.")
	return metric.Collector(func(out chan<- prometheus.Metric) {
		from := 0.0
		o, away := outage(time.Now())
		if away {
			from = float64(o.Since.UnixMilli()) / 1000
		}
		out <- prometheus.MustNewConstMetric(reachable, prometheus.GaugeValue, metric.Truth(!away))
		out <- prometheus.MustNewConstMetric(since, prometheus.GaugeValue, from)
	}, reachable, since)
}
