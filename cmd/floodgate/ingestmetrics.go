package main

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer/ingest/feed"
)

// ingestCollector turns a feed's snapshots into Prometheus metrics when it is scraped.
type ingestCollector struct {
	feed     *feed.Feed
	lostLogs atomic.Uint64 // files that were gone before they were read
}

// Describe implements prometheus.Collector. The metrics are few and come all from one snapshot: they describe themselves.
func (c *ingestCollector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c *ingestCollector) Collect(out chan<- prometheus.Metric) {
	s := c.feed.Stats()
	send := func(kind prometheus.ValueType, name, help string, v float64, labels ...string) {
		var names, values []string
		for i := 0; i < len(labels); i += 2 {
			names, values = append(names, labels[i]), append(values, labels[i+1])
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("floodgate_ingest_"+name, help, names, nil), kind, v, values...)
	}
	counter := func(name, help string, v uint64, labels ...string) {
		send(prometheus.CounterValue, name, help, float64(v), labels...)
	}
	counter("lines_total", "Lines read.", s.Lines)
	counter("entries_total", "Entries made of them.", s.Entries)
	counter("frames_total", "Frames made of those.", s.Frames)
	counter("bytes_total", "Bytes of frames and rejects.", s.Bytes)
	counter("retries_total", "Requests to Kafka that failed and were sent again.", s.Retries)
	counter("dropped_total", "Lines that the mapping drops, and headers.", s.Dropped)
	counter("skipped_records_total", "Records of foreign topics that could not be read.", s.Skipped)
	counter("lost_records_total", "Records that foreign topics no longer held.", s.Lost)
	counter("lost_logs_total", "Files that were gone before they were read to their end.", c.lostLogs.Load())
	for reason, n := range s.Rejected {
		counter("rejected_total", "Lines that could not be read, by reason.", n, "reason", reason)
	}
	send(prometheus.GaugeValue, "queued_bytes", "Bytes that wait for Kafka.", float64(s.Queued))
	for _, src := range s.Sources {
		send(prometheus.GaugeValue, "position", "Everything of the source before this is in Kafka.", float64(src.Acked), "source", src.Name)
		send(prometheus.GaugeValue, "lag", "From there to the source's end: bytes of a file, records of a partition.", float64(src.Lag), "source", src.Name)
	}
}
